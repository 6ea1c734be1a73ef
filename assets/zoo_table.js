// The zoo's table: a row for each drafter, bars for its speed and for its tokens per pass, so that both rankings are seen.
// Knows nothing of runs: rows in, DOM out. Drafters that did not run stand below, with the reason.

import { el, fill } from "./dom.js";
import { symbol } from "./zoo_scatter.js";

const COLUMNS = ["speed", "tau", "alpha", "drafted", "cost", "same"];
const SORTED = { speed: "speedUp", tau: "tau" };

/** rows: see zoo_account.js, with label and family; missing: [{label, reason}]; sort: "speed" or "tau". */
export function tableOf(rows, missing, { words, sort, picked, onSort, onPick }) {
  const key = sort === "speed" && rows.some((row) => row.speedUp !== null) ? "speedUp" : "tau";
  const sorted = [...rows].sort((a, b) => b[key] - a[key]);
  const most = { speed: Math.max(1, ...rows.map((row) => row.speedUp ?? 0)), tau: Math.max(1, ...rows.map((row) => row.tau)) };
  const body = el("tbody", {}, ...sorted.map((row) => rowOf(row, rows, most, words, { picked, onPick })), ...missing.map((one) => missingRow(one)));
  return el("table", { class: "figures zoo-table" }, el("thead", {}, headOf(words, sort, onSort)), body);
}

function headOf(words, sort, onSort) {
  const cells = COLUMNS.map((name) => {
    if (!SORTED[name]) return el("th", { scope: "col", title: words[`column.${name}.title`] }, words[`column.${name}`]);
    const button = el("button", { type: "button", "data-sort": name, onclick: () => onSort(name), title: words["column.sort"] }, words[`column.${name}`], name === sort ? " ▾" : "");
    return el("th", { scope: "col", "aria-sort": name === sort ? "descending" : "none" }, button);
  });
  return el("tr", {}, el("th", { scope: "col" }, words["column.name"]), ...cells);
}

function rowOf(row, rows, most, words, { picked, onPick }) {
  const name = el("button", { type: "button", class: "zoo-pick", onclick: () => onPick(row.name), "aria-pressed": String(row.name === picked) }, symbol(row.family), row.label);
  const note = row.isFinished ? null : el("span", { class: "zoo-running" }, `${row.numTokens}/${row.longest}`);
  const cells = {
    speed: row.speedUp === null ? ["–"] : bar(row.speedUp / most.speed, `${row.speedUp.toFixed(2)}×`, rank(row, rows, "speedUp"), row.speedUp >= 1 ? "good" : "bad"),
    tau: bar(row.tau / most.tau, row.tau.toFixed(2), rank(row, rows, "tau"), "tau"),
    alpha: [row.alpha === null ? "–" : `${(100 * row.alpha).toFixed(0)} %`],
    drafted: [row.drafted.toFixed(1)],
    cost: [row.draftCost === null ? "–" : row.draftCost.toFixed(row.draftCost < 0.1 ? 3 : 2)],
    same: [row.isLossy ? `✗ ${words["lossy.text"]}` : row.isSame === null ? "–" : row.isSame ? `✓ ${words.same}` : `✗ ${words.differs}`],
  };
  const rest = COLUMNS.map((column) => el("td", { class: `zoo-${column} num${column === "same" && (row.isLossy || row.isSame === false) ? " is-wrong" : ""}` }, ...cells[column]));
  return el("tr", { "data-name": row.name, class: row.name === picked ? "is-picked" : "" }, el("th", { scope: "row" }, name, note), ...rest);
}

function bar(share, text, place, kind) {
  const fillPart = el("i", { class: `zoo-fill zoo-fill-${kind}` });
  fillPart.style.width = `${Math.max(1, 100 * share)}%`;
  return [el("span", { class: "zoo-bar" }, fillPart), el("span", { class: "zoo-value" }, text), el("span", { class: "zoo-rank" }, place)];
}

/** A row's place by that number, the largest first; plain decoding takes no part. */
function rank(row, rows, key) {
  if (row.family === "plain") return "";
  return `${1 + rows.filter((other) => other.family !== "plain" && other[key] > row[key]).length}.`;
}

function missingRow({ label, reason, family }) {
  return el("tr", { class: "zoo-missing" }, el("th", { scope: "row" }, symbol(family), label), el("td", { colspan: COLUMNS.length }, reason));
}

/** One sentence on the two rankings: who is first in each. */
export function verdictOf(rows, words) {
  const racing = rows.filter((row) => row.family !== "plain" && row.speedUp !== null);
  if (racing.length < 2) return "";
  const best = (key) => racing.reduce((one, other) => (other[key] > one[key] ? other : one));
  const [fastest, longest] = [best("speedUp"), best("tau")];
  const values = { fastest: fastest.label, speed: fastest.speedUp, longest: longest.label, tau: longest.tau, its: longest.speedUp };
  return fill(words[fastest === longest ? "verdict.one" : "verdict.two"], values);
}
