// Window: one pass of Lookahead: the window of guesses, the n-grams it completes, the branch that is verified, the mask.
// Knows nothing of how guesses arise: it shows the pass at the cursor as the run reported it.

import { el, fill, formatNumber } from "../player.js";
import { chip, poolList, spelled, verifyBranch, windowGrid } from "../lookahead_parts.js";
import { poolAfter } from "../ngram_pool.js";
import { runBadge } from "../origin.js";
import { maskPicture } from "../pass_mask.js";
import { passesOf, reading } from "../passes.js";

const LOOKAHEAD = "lookahead";
const MOST_IN_VIEW = 24; // n-grams of the pool

export function mount(element, { words, player, language }) {
  const origin = runBadge(words, true);
  const title = el("h3", { class: "window-title" });
  const strip = el("div", { class: "window-strip", role: "group", "aria-label": words["strip.label"] });
  const text = el("p", { class: "window-text" });
  const panels = ["window", "verify", "mask", "pool"].map((part) => panel(part, words));
  const halves = [panels.slice(0, 2), panels.slice(2)].map((half) => el("div", {}, ...half.map((one) => one.node)));
  element.replaceChildren(el("div", { class: "window-head" }, title, origin.node), strip, text, el("div", { class: "window-panels" }, ...halves));
  let picked = 0;
  let drawn = "";

  const gather = reading(player, (events) => {
    const run = passesOf(events, LOOKAHEAD);
    return { ...run, sizes: sizesOf(run.submitted), pieces: piecesOf(run) };
  });

  function draw() {
    origin.draw(player);
    origin.node.hidden = !player.runId;
    const run = gather();
    const numPast = run.passes.filter((pass) => pass.cursor <= player.cursor).length;
    const isOver = player.cursor > (run.passes.at(-1)?.cursor ?? Infinity);
    const done = run.passes.slice(0, isOver ? 1 + showcase(run.passes) : numPast);
    const key = `${player.runId} ${numPast} ${done.length} ${run.passes.length} ${picked}`;
    if (key === drawn) return;
    drawn = key;
    drawStrip(run.passes, numPast, done.length - 1);
    const pass = done.at(-1);
    title.textContent = pass ? titleOf(pass, done) : words.nothing;
    text.replaceChildren(...(pass ? textOf(run, pass) : []));
    element.classList.toggle("is-empty", !pass);
    if (pass) drawPanels(run, done, pass);
  }

  function titleOf(pass, done) {
    const drafts = pass.drafted?.token_ids.length ?? 0;
    const probes = pass.probed?.token_ids.length ?? 0;
    const number = done.length - 1;
    if (!number) return words["title.prompt"];
    const tokens = done.slice(1).reduce((sum, one) => sum + one.sampled.length, 0);
    const mean = formatNumber(tokens / number, 3, language);
    return fill(words.title, { number, rows: 1 + drafts + probes, drafts, probes, tokens, mean });
  }

  function textOf(run, pass) {
    const known = run.tokens.slice(Math.max(0, pass.known - 12), pass.known).map((token) => chip(token.label, "past"));
    const given = pass.sampled.at(-1);
    return [...known, ...pass.sampled.map((token) => chip(token.label, token === given ? "given" : "accepted"))];
  }

  function drawStrip(passes, numPast, current) {
    const most = Math.max(1, ...passes.map((pass) => pass.sampled.length));
    strip.replaceChildren(...passes.map((pass, at) => {
      const label = fill(words["strip.pass"], { number: at, tokens: pass.sampled.length });
      const node = el("button", { type: "button", title: label, "aria-label": label, onclick: () => player.seek(pass.cursor) }, el("i", {}));
      node.firstChild.style.height = `${(100 * pass.sampled.length) / most}%`;
      node.classList.toggle("is-past", at < numPast);
      if (at === current) node.setAttribute("aria-current", "step");
      return node;
    }));
  }

  function drawPanels(run, done, pass) {
    const { width, guesses } = run.sizes;
    const pieceOf = (id) => run.pieces.get(id) ?? "?";
    const [window_, verify, mask, pool] = panels;
    const root = rootOf(run, pass);
    const pick = (column) => {
      if (column === picked) return;
      picked = column;
      draw();
    };
    const column = Math.min(picked, width - 1);
    const isWhole = pass.probed && pass.probed.pieces.length % width === 0; // an opened run may name any width
    if (isWhole) window_.put(windowGrid(pass, width, words, column, pick), spelled(pass, width, words, column, pieceOf));
    else window_.put(el("p", { class: "window-note" }, words[done.length > 1 ? "window.end" : "window.before"]));
    verify.put(...verifyBranch(pass, root, words));
    const grams = poolAfter(done, guesses);
    const next = pass.sampled.at(-1).token_id;
    pool.put(el("p", { class: "window-note" }, fill(words["pool.count"], { count: grams.length, fresh: grams.filter((gram) => gram.isNew).length, shown: Math.min(MOST_IN_VIEW, grams.length) })), poolList(grams, next, pieceOf, MOST_IN_VIEW));
    mask.put(...maskOf(pass, words));
  }

  const stop = player.subscribe(draw);
  return { update() {}, destroy: stop };
}

/** Once Lookahead has its text, the pass that shows most: with a window, and with the most tokens. */
function showcase(passes) {
  const worth = (pass) => (pass.probed?.caught.length ? pass.sampled.length : 0);
  return passes.reduce((best, pass, at) => (worth(pass) > worth(passes[best]) ? at : best), 0);
}

function panel(part, words) {
  const body = el("div", { class: "window-body" });
  const node = el("section", { class: `window-panel window-of-${part}` }, el("h4", {}, words[`${part}.title`]), body);
  return { node, put: (...children) => body.replaceChildren(...children) };
}

function maskOf(pass, words) {
  const drafts = pass.drafted?.parents ?? [];
  const probes = pass.probed?.parents ?? [];
  const kinds = ["root", ...drafts.map(() => "draft"), ...probes.map(() => "probe")];
  const keys = ["root", "draft", "probe"].map((kind) => el("li", {}, el("i", { class: `window-key pass-mask-key-${kind}` }), words[`mask.${kind}`]));
  const label = fill(words["mask.label"], { rows: kinds.length });
  return [maskPicture([...drafts, ...probes], kinds, label), el("ul", { class: "window-keys" }, ...keys)];
}

/** W, N and G as the request named them; "lookahead" alone has those of the engine's drafter. */
function sizesOf(submitted) {
  const [width, levels, guesses] = (submitted?.drafter.split(":")[1] ?? "5,4,3").split(",").map(Number);
  return { width, levels, guesses };
}

/** The text of every token id that the run showed. */
function piecesOf({ submitted, passes }) {
  const pieces = new Map();
  const add = (ids, texts) => ids.forEach((id, at) => pieces.set(id, texts[at]));
  if (submitted) add(submitted.prompt_ids, submitted.pieces);
  for (const { drafted, probed, sampled } of passes) {
    if (drafted) add(drafted.token_ids, drafted.pieces);
    if (probed) add(probed.token_ids, probed.pieces);
    if (probed) add(probed.favourite_ids, probed.favourite_pieces);
    add(sampled.map((token) => token.token_id), sampled.map((token) => token.label));
  }
  return pieces;
}

/** The last token that was known when the pass began. */
function rootOf(run, pass) {
  return pass.known ? run.tokens[pass.known - 1].label : (run.submitted?.pieces.at(-1) ?? "");
}
