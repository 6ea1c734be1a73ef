// Ribbon: every round of both requests on one axis of their own time; kept tokens stand above the line, dead drafts hang
// below it, and the strip under a round says what its time went to. Knows nothing of text or probabilities.

import { el, fill, formatNumber, formatSeconds } from "../player.js";
import { SPECULATIVE, VANILLA } from "../account.js";
import { choiceOf, decisive } from "../choice.js";
import { apply, emptyState } from "../fold.js";

const MIN_ROUND = 9; // pixels that the mean round keeps; a longer run scrolls
const TICKS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];

export function mount(element, { words, player, language }) {
  const choice = choiceOf(player);
  const axis = el("div", { class: "ribbon-axis", "aria-hidden": "true" });
  const lanes = [VANILLA, SPECULATIVE].map((id) => makeLane(id, words, (round) => go(id, round)));
  const sheet = el("div", { class: "ribbon-sheet" }, ...lanes.flatMap((lane) => [lane.caption, lane.node]), axis);
  const scroll = el("div", { class: "ribbon-scroll", tabindex: "-1" }, sheet);
  element.replaceChildren(head(words), scroll);

  let whole = emptyState();
  let numRead = 0;
  let source = null;
  let shown = null;

  function readOn(events) {
    if (source !== player.runId || events.length < numRead) {
      [whole, numRead, source, shown] = [emptyState(), 0, player.runId, null];
      lanes.forEach((lane) => lane.clear());
    }
    const hasGrown = numRead < events.length;
    for (; numRead < events.length; numRead += 1) {
      const event = events[numRead];
      apply(whole, event);
      if (event.type === "RoundFinished") lanes.find((lane) => lane.id === event.request_id)?.add(whole.requests[event.request_id], event, numRead + 1);
    }
    if (hasGrown) lanes.forEach((lane) => lane.mark(choice.value, scroll));
  }

  function go(id, round) {
    player.pause();
    player.seek(round.cursor);
    choice.set(decisive(id, round.fold));
  }

  function rescale() {
    const total = Math.max(0.001, ...lanes.map((lane) => lane.seconds()));
    const mean = total / Math.max(1, ...lanes.map((lane) => lane.size()));
    const second = Math.max((scroll.clientWidth - 2) / total, MIN_ROUND / mean);
    const key = `${total} ${second}`;
    if (key === shown) return;
    shown = key;
    sheet.style.setProperty("--second", `${second}px`);
    sheet.style.setProperty("--total", total);
    drawAxis(axis, total, second, language);
  }

  const stop = player.subscribe((events, cursor, state) => {
    readOn(events);
    rescale();
    for (const lane of lanes) lane.draw(cursor, player.isPlaying ? scroll : null);
  });
  const stopChoice = choice.subscribe((pick) => lanes.forEach((lane) => lane.mark(pick, scroll)));
  const resized = new ResizeObserver(rescale);
  resized.observe(scroll);
  return { update() {}, destroy() { stop(); stopChoice(); resized.disconnect(); } };
}

function head(words) {
  const key = (name) => el("span", { class: `ribbon-key ribbon-${name}` }, el("i", {}), words[`ribbon.${name}`]);
  const keys = el("div", { class: "ribbon-keys" }, ...["draft", "verify", "rest"].map(key));
  return el("div", { class: "ribbon-head" }, el("h3", { class: "ribbon-title" }, words["ribbon.title"], el("small", {}, words["ribbon.legend"])), keys);
}

function makeLane(id, words, go) {
  const rounds = [];
  const caption = el("div", { class: "ribbon-caption" }, words[`race.${id}`]);
  const head = el("i", { class: "ribbon-playhead" });
  const node = el("div", { class: `ribbon-lane ribbon-${id}`, role: "group", "aria-label": fill(words["ribbon.lane"], { lane: words[`race.${id}`] }) }, head);
  let numPast = -1;

  node.addEventListener("click", (event) => {
    const button = event.target.closest(".ribbon-round");
    if (button) select(rounds.findIndex((round) => round.node === button));
  });
  node.addEventListener("keydown", (event) => {
    const at = rounds.findIndex((round) => round.node === document.activeElement);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: rounds.length - 1 }[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    event.stopPropagation();
    select(Math.max(0, Math.min(rounds.length - 1, to)));
  });

  function select(at) {
    rounds[at].node.focus();
    go(rounds[at]);
  }

  function add(request, bill, cursor) {
    const fold = request.rounds.find((round) => round.round === bill.round);
    const start = rounds.length ? rounds.at(-1).end : 0;
    const round = { fold, start, end: bill.request_clock, cursor };
    round.node = drawRound(round, request, words);
    round.node.tabIndex = rounds.length ? -1 : 0;
    rounds.push(round);
    node.append(round.node);
    node.style.setProperty("--rows", Math.max(1, ...rounds.map((one) => one.fold.sampled.length)));
    node.style.setProperty("--dead", Math.max(0, ...rounds.map((one) => deadOf(one.fold).length)));
  }

  function draw(cursor, scroll) {
    const past = rounds.filter((round) => round.cursor <= cursor).length; // a long prompt has a bill for each part
    if (past === numPast) return;
    numPast = past;
    rounds.forEach((round, at) => round.node.classList.toggle("is-ahead", at >= past));
    head.style.setProperty("--at", past ? rounds[past - 1]?.end ?? 0 : 0);
    if (scroll && past && id === SPECULATIVE) reveal(rounds[past - 1]?.node, scroll);
  }

  function mark(pick, scroll) {
    for (const { node: button, fold } of rounds) {
      const isPicked = pick?.request === id && fold.round === pick.round;
      if (button.classList.contains("is-picked") === isPicked) continue;
      button.classList.toggle("is-picked", isPicked);
      if (isPicked) {
        rounds.forEach((round) => { round.node.tabIndex = round.node === button ? 0 : -1; });
        reveal(button, scroll);
      }
    }
  }

  function clear() {
    rounds.forEach((round) => round.node.remove());
    [rounds.length, numPast] = [0, -1];
  }
  return { id, caption, node, add, draw, mark, clear, size: () => rounds.length, seconds: () => rounds.at(-1)?.end ?? 0 };
}

function reveal(button, scroll) {
  if (!button || scroll.scrollWidth <= scroll.clientWidth) return;
  scroll.scrollLeft = button.offsetLeft + button.offsetWidth / 2 - scroll.clientWidth / 2;
}

function deadOf(fold) {
  return (fold.verified?.verdicts ?? []).filter((verdict) => verdict !== "accepted");
}

/** A round: kept tokens upwards, dead drafts downwards, and its bill. */
function drawRound({ fold, start, end }, request, words) {
  const cell = (kind) => el("i", { class: `ribbon-cell ribbon-${kind}` });
  const kept = fold.sampled.map((index) => cell(`fate-${request.tokens[index]?.fate ?? "target"}`));
  const dead = deadOf(fold).map((verdict) => cell(verdict));
  const bill = fold.bill;
  const parts = { draft: bill.seconds_draft, verify: bill.seconds_forward, rest: bill.seconds_accept + bill.seconds_other };
  const strip = Object.entries(parts).map(([name, seconds]) => {
    const part = el("i", { class: `ribbon-part ribbon-${name}` });
    part.style.flexGrow = String((100 * seconds) / (end - start)); // shares below 1 would not fill the strip
    return part;
  });
  const label = sentence(fold, end - start, words);
  const node = el("button", { type: "button", class: "ribbon-round", title: label, "aria-label": label },
    el("span", { class: "ribbon-kept" }, ...kept), el("span", { class: "ribbon-lost" }, ...dead), el("span", { class: "ribbon-bill" }, ...strip));
  node.style.setProperty("--start", start);
  node.style.setProperty("--long", end - start);
  return node;
}

function sentence(fold, seconds, words) {
  const values = { round: fold.round, time: formatSeconds(seconds), kept: fold.sampled.length };
  if (!fold.verified) return fill(words[fold.sampled.includes(0) || !fold.sampled.length ? "ribbon.prefill" : "ribbon.plain"], values);
  const { token_ids, num_accepted } = fold.verified;
  return fill(words["ribbon.round"], { ...values, drafted: token_ids.length, accepted: num_accepted, dead: deadOf(fold).length });
}

function drawAxis(axis, total, second, language) {
  const step = TICKS.find((tick) => tick * second >= 70) ?? total;
  const marks = [];
  for (let time = 0; time * second <= total * second - 34; time += step) {
    const mark = el("span", { class: "ribbon-tick" }, `${formatNumber(time, 3, language)} s`);
    mark.style.setProperty("--at", time);
    marks.push(mark);
  }
  axis.replaceChildren(...marks);
}
