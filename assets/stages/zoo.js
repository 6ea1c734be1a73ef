// The zoo: every drafter of a run in one table and one scatter, filled while the run goes on.
// While `options.veil` names predictions that the reader has not made, the numbers stay covered.
// Knows nothing of how anything is drafted: labels, families and what is missing are given in the options.

import { el, fill } from "../dom.js";
import { read } from "../reader.js";
import { entriesOf } from "../zoo_account.js";
import { nameOf, scatterOf, symbol } from "../zoo_scatter.js";
import { tableOf, verdictOf } from "../zoo_table.js";

export function mount(element, { words, options, player }) {
  const board = el("div", { class: "zoo-board" });
  const scatter = el("div", { class: "zoo-picture" });
  const table = el("div", { class: "zoo-rows table-scroll" });
  const verdict = el("p", { class: "zoo-verdict", "aria-live": "polite" });
  const origin = el("p", { class: "zoo-origin" });
  const cover = el("div", { class: "zoo-cover" }, el("p", {}, words.veiled), el("button", { type: "button", onclick: uncover }, words.reveal));
  board.append(verdict, el("div", { class: "zoo-columns" }, el("div", {}, scatter, legend(words, options.families ?? {})), table), origin);
  element.replaceChildren(cover, board);

  let given = options;
  let isOpen = false;
  let sort = "speed";
  let picked = "";

  function uncover() {
    isOpen = true;
    draw();
  }

  const isVeiled = () => !isOpen && (given.veil ?? []).some((key) => read("predictions", {})[key] === undefined) && player.runId === given.veiled;

  function draw() {
    const isCovered = isVeiled();
    cover.hidden = !isCovered;
    board.hidden = isCovered;
    if (isCovered) return;
    const rows = entriesOf(player.state).map((row) => ({ ...row, family: given.families[row.drafter.split(":")[0]] ?? "plain" }));
    const labelled = rows.map((row) => ({ ...row, label: labelOf(row, rows, words) }));
    const ran = new Set(rows.map((row) => row.drafter));
    const isOneEach = ran.size === rows.length; // else the run is about a few drafters only
    const missing = (isOneEach ? (given.missing ?? []) : []).filter((name) => !ran.has(name)).map((name) => ({ label: nameOf(name, words), family: given.families[name.split(":")[0]], reason: words.missing }));
    table.replaceChildren(tableOf(labelled, missing, { words, sort, picked, onSort: sortBy, onPick: pick }));
    const width = Math.max(300, Math.min(620, scatter.clientWidth || 520));
    scatter.replaceChildren(scatterOf(labelled, { words, width, picked }));
    verdict.textContent = labelled.length ? verdictOf(labelled, words) : words.empty;
    origin.replaceChildren(...originOf(player, given));
  }

  function sortBy(name) {
    sort = name;
    draw();
    table.querySelector(`[data-sort="${name}"]`)?.focus();
  }

  function pick(name) {
    picked = picked === name ? "" : name;
    draw();
    table.querySelector(`tr[data-name="${CSS.escape(name)}"] button`)?.focus();
  }

  let lastWidth = 0;
  const observer = new ResizeObserver(() => {
    if (Math.abs(scatter.clientWidth - lastWidth) < 8) return;
    lastWidth = scatter.clientWidth;
    draw();
  });
  observer.observe(scatter);
  const stop = player.subscribe(draw);
  return {
    update(next) { given = { ...given, ...next }; draw(); },
    destroy() { observer.disconnect(); stop(); },
  };
}

/** The drafter's name, with what tells it from the others of the same run. */
function labelOf(row, rows, words) {
  const twins = rows.filter((other) => other.drafter === row.drafter);
  const differ = (key) => new Set(twins.map((other) => other[key])).size > 1;
  const parts = [differ("draftLength") && `K=${row.draftLength}`, differ("temperature") && `T=${row.temperature}`, differ("isDraftGreedy") && row.isDraftGreedy && words.greedy, differ("rule") && (row.isLossy ? words.lossy : words.exact)];
  return [nameOf(row.drafter, words), ...parts.filter(Boolean)].join(" ");
}

function legend(words, families) {
  const used = [...new Set(Object.values(families))];
  return el("ul", { class: "zoo-legend" }, ...used.map((family) => el("li", {}, symbol(family), words[`family.${family}`])));
}

function originOf(player, { badges }) {
  const started = player.events.find((event) => event.type === "EngineStarted");
  if (!started || !badges) return [];
  const kind = player.about?.recorded ? "recorded" : "measured";
  const where = `${started.device_name}, ${started.recorded.slice(0, 10)}`;
  return [el("span", { class: `badge badge-${kind}` }, fill("{{kind}} · {{where}}", { kind: badges[kind], where }))];
}
