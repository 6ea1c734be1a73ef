// Iterations: one row per Jacobi iteration, one column per place of the text; guesses change until they stand still.
// While `options.veil` names a prediction that the reader has not made, a recorded run shows its first rows only.
// Knows nothing of probabilities: which guess was right, the run says.

import { el, fill, formatNumber } from "../player.js";
import { name, paint } from "../glyphs.js";
import { runBadge } from "../origin.js";
import { passesOf, reading } from "../passes.js";
import { read } from "../reader.js";

const JACOBI = "jacobi";
const GREEDY = "greedy";
const ROWS_BEFORE_COMMIT = 3;
const MOST_PLACES = 64; // an opened run may have been asked for any length

export function mount(element, { words, options, player, language }) {
  const origin = runBadge(words, true);
  const sentence = el("p", { class: "iterations-sentence", "aria-live": "polite" });
  const reveal = el("button", { type: "button", class: "iterations-reveal", onclick: uncover }, words.reveal);
  const grid = el("table", { class: "iterations-grid" });
  const scroll = el("div", { class: "iterations-scroll", tabindex: "0", role: "group", "aria-label": words["grid.label"] }, grid);
  element.replaceChildren(legend(words, origin.node), scroll, el("div", { class: "iterations-foot" }, sentence, reveal));
  let isVeiled = Boolean(options.veil) && read("predictions", {})[options.veil] === undefined;
  let drawn = "";

  const gather = reading(player, (events) => ({ jacobi: passesOf(events, JACOBI), greedy: passesOf(events, GREEDY) }));

  function uncover() {
    isVeiled = false;
    draw();
  }

  function draw() {
    origin.draw(player);
    origin.node.hidden = !player.runId;
    const { jacobi, greedy } = gather();
    const isCovered = isVeiled && Boolean(player.about?.recorded) && jacobi.passes.length > ROWS_BEFORE_COMMIT;
    const done = jacobi.passes.filter((pass) => pass.cursor <= player.cursor);
    const shown = isCovered ? done.slice(0, 1 + ROWS_BEFORE_COMMIT) : done;
    const written = isCovered ? [] : greedy.passes.filter((pass) => pass.cursor <= player.cursor).flatMap((pass) => pass.sampled);
    const key = `${player.runId} ${shown.length} ${written.length} ${isCovered} ${jacobi.tokens.length}`;
    if (key === drawn) return;
    drawn = key;
    reveal.hidden = !isCovered;
    const num = Math.min(jacobi.submitted?.max_new_tokens ?? 0, MOST_PLACES);
    const rows = shown.map((pass, at) => rowOf(pass, at, num, jacobi, shown[at - 1]));
    if (written.length) rows.push(checkOf(written, num, jacobi));
    grid.style.setProperty("--places", num);
    grid.replaceChildren(el("thead", {}, headOf(num)), el("tbody", {}, ...rows));
    sentence.textContent = isCovered ? words["veiled"] : said(jacobi, done, written, num);
  }

  function headOf(num) {
    const places = Array.from({ length: num }, (_, at) => el("th", { scope: "col" }, String(at + 1)));
    return el("tr", {}, el("th", { scope: "col", class: "iterations-name" }, words["grid.corner"]), ...places, el("th", { scope: "col", class: "iterations-gain" }, words["grid.gain"]));
  }

  function rowOf(pass, at, num, jacobi, before) {
    const cells = Array.from({ length: num }, (_, place) => cellOf(pass, place, jacobi.tokens, before));
    const go = el("button", { type: "button", title: words["grid.go"], onclick: () => player.seek(pass.cursor) }, at ? String(at) : words["grid.prompt"]);
    return el("tr", {}, el("th", { scope: "row", class: "iterations-name" }, go), ...cells, el("td", { class: "iterations-gain" }, `+${pass.sampled.length}`));
  }

  function cellOf(pass, place, tokens, before) {
    if (place < pass.known) return cell("known", tokens[place].label);
    const draft = place - pass.known;
    const given = pass.known + pass.sampled.length - 1;
    if (draft >= (pass.drafted?.token_ids.length ?? 0)) return place === given ? cell("given", tokens[place].label) : el("td", {});
    const id = pass.drafted.token_ids[draft];
    const isRight = tokens[place]?.token_id === id;
    const kind = pass.verified?.verdicts[draft] === "accepted" ? "accepted" : isRight ? "right" : "wrong";
    const old = before?.drafted?.token_ids[place - before.known];
    const node = cell(kind, pass.drafted.pieces[draft]);
    node.classList.toggle("has-changed", old !== undefined && old !== id);
    return node;
  }

  function cell(kind, label) {
    const text = el("span", {});
    paint(text, label);
    return el("td", { class: `iterations-${kind}`, title: `${name(label)} · ${words[`cell.${kind}`]}` }, text);
  }

  /** What plain greedy decoding writes, place by place. */
  function checkOf(written, num, jacobi) {
    const cells = Array.from({ length: num }, (_, place) => {
      if (!written[place]) return el("td", {});
      const other = jacobi.tokens[place];
      return cell(!other || other.token_id === written[place].token_id ? "same" : "other", written[place].label);
    });
    return el("tr", { class: "iterations-check" }, el("th", { scope: "row", class: "iterations-name" }, words["grid.greedy"]), ...cells, el("td", {}));
  }

  function said(jacobi, done, written, num) {
    if (!done.length) return words["nothing"];
    const tokens = done.reduce((sum, pass) => sum + pass.sampled.length, 0);
    const iterations = done.length - 1;
    const values = { tokens: tokens - 1, iterations, num: num - 1, mean: formatNumber(iterations ? (tokens - 1) / iterations : 0, 3, language) };
    const isWhole = done.length === jacobi.passes.length && player.isComplete;
    const told = [fill(words[isWhole ? "sentence.done" : "sentence.going"], values)];
    const isCompared = isWhole && jacobi.submitted.temperature < 1e-5 && written.length >= tokens;
    const isSame = jacobi.tokens.every((token, at) => token.token_id === written[at]?.token_id);
    if (isCompared) told.push(words[isSame ? "sentence.same" : "sentence.differs"]);
    return told.join(" ");
  }

  const stop = player.subscribe(draw);
  function update(next) {
    isVeiled &&= Boolean(next.veil);
    draw();
  }
  return { update, destroy: stop };
}

function legend(words, badge) {
  const keys = ["known", "accepted", "given", "right", "wrong"].map((kind) =>
    el("li", {}, el("i", { class: `iterations-key iterations-${kind}` }), words[`key.${kind}`]));
  const changed = el("li", {}, el("i", { class: "iterations-key iterations-wrong has-changed" }), words["key.changed"]);
  return el("ul", { class: "iterations-legend" }, ...keys, changed, el("li", {}, badge));
}
