// A lane of the race: the tokens of one request, round by round, with the drafts that died where they died.
// Knows nothing of the other lane. Only rounds that changed since the last call are drawn anew.

import { el, fill } from "./player.js";
import { name, paint } from "./glyphs.js";

export function makeLane({ id, words, choice }) {
  const head = el("header", { class: "race-head" });
  const label = fill(words["race.tokens"], { lane: words[`race.${id}`] });
  const text = el("div", { class: "race-text", role: "listbox", "aria-label": label });
  const node = el("section", { class: `race-lane race-${id}` }, head, text);
  const drawn = []; // one entry a round: { key, node }
  let epoch = null; // the Submitted event of what is drawn: another run starts from nothing
  let stop = null; // the one token that Tab reaches

  text.addEventListener("scroll", cue, { passive: true });
  text.addEventListener("click", (event) => pick(event.target.closest(".race-token")));
  text.addEventListener("focusin", (event) => { if (event.target !== text) pick(event.target.closest(".race-token")); });
  text.addEventListener("keydown", (event) => move(event, text, choice));

  function pick(token) {
    if (!token) return;
    const { round, draft, index } = token.dataset;
    const chosen = { request: id, round: Number(round), draft: Number(draft), index: Number(index) };
    if (!token.classList.contains("is-picked")) choice.set(chosen);
  }

  function stopAt(token) {
    if (stop) stop.tabIndex = -1;
    stop = token;
    if (stop) stop.tabIndex = 0;
  }

  /** What goes on below the edge fades out there. */
  function cue() {
    text.classList.toggle("has-more", text.scrollHeight - text.scrollTop - text.clientHeight > 6);
  }

  const current = () => text.querySelector(".is-picked");

  function draw(request, isMoving) {
    if (request?.submitted !== epoch) {
      epoch = request?.submitted;
      drawn.length = 0;
      text.replaceChildren();
    }
    const rounds = request?.rounds ?? [];
    const numBefore = drawn.length;
    let hasGrown = false;
    rounds.forEach((round, at) => {
      const key = `${round.drafted ? 1 : 0}${round.verified ? 1 : 0}.${round.sampled.length}`;
      if (drawn[at]?.key === key) return;
      const fresh = drawRound(round, request, words);
      if (drawn[at]) drawn[at].node.replaceWith(fresh);
      else text.append(fresh);
      drawn[at] = { key, node: fresh };
      hasGrown = true;
    });
    for (const { node: surplus } of drawn.splice(rounds.length)) surplus.remove();
    if (hasGrown) mark(choice.value);
    if (!stop?.isConnected) stopAt(text.querySelector(".race-token"));
    if (hasGrown && isMoving) text.scrollTop = text.scrollHeight;
    if (hasGrown || drawn.length !== numBefore) cue();
  }

  function mark(value) {
    const old = current();
    old?.classList.remove("is-picked");
    old?.setAttribute("aria-selected", "false");
    text.querySelector(".is-active")?.classList.remove("is-active");
    if (value?.request !== id) return;
    const now = text.querySelector(`[data-round="${value.round}"][data-draft="${value.draft}"][data-index="${value.index}"]`);
    now?.classList.add("is-picked");
    now?.setAttribute("aria-selected", "true");
    now?.parentNode.classList.add("is-active");
    if (now) stopAt(now);
  }
  return { id, node, head, draw, mark };
}

/** One round: accepted tokens, then the drafts that died, then the token that the target gave. */
function drawRound(round, request, words) {
  const node = el("span", { class: "race-round", role: "none" });
  const sampled = round.sampled.map((index) => request.tokens[index]).filter(Boolean);
  const { drafted, verified } = round;
  const isPending = drafted && !verified;
  const accepted = verified ? nodesWith(verified, "accepted") : [];
  const live = sampled.filter((token) => token.fate === "accepted");
  live.forEach((token, at) => addToken(node, token, round, accepted[at], words));
  if (isPending) drafted.token_ids.forEach((_, at) => addDraft(node, round, at, "pending", words));
  if (verified) {
    for (const at of accepted.slice(live.length)) addDraft(node, round, at, sampled.length ? "cut" : "accepted", words);
    for (const at of nodesWith(verified, "rejected")) addDraft(node, round, at, "rejected", words);
    for (const at of nodesWith(verified, "unreached")) addDraft(node, round, at, "unreached", words);
  }
  for (const token of sampled) if (token.fate !== "accepted") addToken(node, token, round, -1, words);
  return node;
}

function nodesWith(verified, verdict) {
  return verified.verdicts.flatMap((one, at) => (one === verdict ? [at] : []));
}

/** A leading space stands before the chip and line breaks after it, so that a chip is never torn for nothing. */
function addToken(parent, token, round, draft, words) {
  const whole = token.piece || token.label;
  const space = /^ (?=\S)/.test(whole) ? " " : "";
  const breaks = /^\n+$/.test(whole) ? whole : "";
  const text = whole.slice(space.length);
  const isFragment = token.piece === "" || token.label.startsWith("⟨");
  const node = option(`token fate-${token.fate}${isFragment ? " is-fragment" : ""}`, { round: round.round, draft, index: token.index });
  node.setAttribute("aria-label", fill(words["race.token"], { token: name(token.label), fate: words[`fate.${token.fate}`] }));
  paint(node, text, !breaks);
  parent.append(space, node, breaks);
}

/** A draft that is no output token (yet): alive while it waits or has just been accepted, else a ghost. */
function addDraft(parent, round, at, fate, words) {
  const isAlive = fate === "accepted" || fate === "pending";
  const kind = fate === "accepted" ? "fate-accepted" : fate === "pending" ? "race-pending" : `fate-rejected race-ghost is-${fate}`;
  const node = option(`token ${kind}`, { round: round.round, draft: at, index: -1 });
  const piece = round.drafted?.pieces[at] ?? "";
  node.setAttribute("aria-label", fill(words["race.token"], { token: name(piece), fate: words[`fate.${fate}`] }));
  paint(node, piece.trim() || piece, false);
  parent.append(isAlive && piece.startsWith(" ") ? " " : "", node);
}

function option(classes, data) {
  const node = el("span", { class: `race-token ${classes}`, role: "option", tabindex: "-1", "aria-selected": "false" });
  for (const [key, value] of Object.entries(data)) node.dataset[key] = String(value);
  return node;
}

/** Arrow keys go from token to token, up and down to the nearest one of the next line. */
function move(event, text, choice) {
  const tokens = [...text.querySelectorAll(".race-token")].filter((token) => token.offsetParent);
  const at = tokens.indexOf(document.activeElement);
  const to = {
    ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1,
    ArrowDown: lineStep(tokens, at, 1), ArrowUp: lineStep(tokens, at, -1),
  }[event.key];
  if (event.key === "Escape") choice.set(null);
  if (to === undefined || at < 0) return;
  event.preventDefault();
  event.stopPropagation();
  tokens[Math.max(0, Math.min(tokens.length - 1, to))].focus();
}

function lineStep(tokens, at, direction) {
  if (at < 0) return at;
  const from = tokens[at].getBoundingClientRect();
  let best = at;
  let line = null;
  for (let index = at + direction; tokens[index]; index += direction) {
    const box = tokens[index].getBoundingClientRect();
    if (Math.abs(box.bottom - from.bottom) < from.height * 0.7) continue;
    line ??= box.bottom;
    if (Math.abs(box.bottom - line) > box.height * 0.7) break;
    const isNearer = best === at || Math.abs(box.left - from.left) < Math.abs(tokens[best].getBoundingClientRect().left - from.left);
    if (isNearer) best = index;
  }
  return best;
}
