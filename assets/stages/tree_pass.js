// One real pass over a candidate tree, step by step: grown, expanded, cut, laid on rows, accepted, cache moved.
// Knows nothing of drafters nor of acceptance: the events of a round say what happened, assets/tree.js does the counting.

import { el, fill } from "../player.js";
import { mask, moves, pathTo } from "../tree.js";
import { drawMask, focusedRow, markRow, sentenceOf } from "../tree_mask.js";
import { drawTree, short } from "../tree_view.js";
import { drawSlots } from "../tree_slots.js";
import { hasTree, passOf } from "../tree_rounds.js";

const LAST_STEPS = ["rerank", "pass", "accept", "keep"];

export function mount(element, { words, player }) {
  const parts = {
    rounds: el("div", { class: "tree-rounds", role: "group", "aria-label": words.rounds }),
    steps: el("div", { class: "tree-steps", role: "group", "aria-label": words.steps }),
    tree: el("div", { class: "tree-host" }), matrix: el("div", { class: "tree-mask" }), slots: el("div", { class: "tree-slots" }),
    told: el("p", { class: "tree-told", "aria-live": "polite" }), pointed: el("p", { class: "tree-pointed" }),
  };
  const side = el("div", { class: "tree-side" }, parts.matrix, parts.pointed, parts.slots);
  const empty = el("p", { class: "tree-empty" }, words.empty);
  const all = el("div", { class: "tree-all" }, parts.rounds, parts.steps, parts.told, el("div", { class: "tree-pair" }, parts.tree, side));
  element.replaceChildren(all, empty);
  let step = "accept";
  let pass = null;
  let drawn = "";
  let openedRun = "";

  function follow(_, cursor, state) {
    const request = state.requests[state.order[0]];
    const passes = (request?.rounds ?? []).filter(hasTree);
    openOnce();
    empty.hidden = passes.length > 0;
    all.hidden = !passes.length;
    if (!passes.length) return;
    const last = passes.at(-1);
    const key = `${player.runId} ${last.round} ${player.isComplete}`;
    if (key === drawn) return;
    drawn = key;
    pass = passOf(request, last);
    drawRounds();
    draw();
  }

  /** A recorded run opens on a telling round: the longest accepted path, and of those one whose cache was moved. */
  function openOnce() {
    if (!player.isComplete || !player.about?.recorded || openedRun === player.runId) return;
    openedRun = player.runId;
    const best = roundsOf(player.events).sort((one, other) => other.accepted - one.accepted || other.isMoved - one.isMoved || one.round - other.round)[0];
    if (best) goTo(best.round);
  }

  function goTo(round) {
    const mark = player.marks.findIndex((one) => one.rounds.some((done) => done.round === round));
    if (mark >= 0) player.seekMark(mark);
  }

  function drawRounds() {
    const found = roundsOf(player.events);
    parts.rounds.replaceChildren(el("span", { class: "tree-rounds-name" }, words.rounds), ...found.map(({ round, accepted, rows }) => {
      const bar = el("i", {});
      bar.style.height = `${4 + 6 * accepted}px`;
      const label = fill(words.round, { round, accepted, rows });
      const button = el("button", { type: "button", class: "tree-round", title: label, "aria-label": label, "aria-pressed": String(round === pass.round) }, bar);
      button.addEventListener("click", () => goTo(round));
      return button;
    }));
  }

  function stepsOf() {
    const levels = pass.levels.map((_, level) => (level === 0 ? "grow" : `expand${level}`));
    return [...levels, ...LAST_STEPS];
  }

  function draw() {
    const steps = stepsOf();
    if (!steps.includes(step)) step = "rerank";
    const at = steps.indexOf(step);
    parts.steps.replaceChildren(...steps.map((name, index) => {
      const label = name.startsWith("expand") ? fill(words.expand, { level: name.slice(6) }) : words[name];
      const button = el("button", { type: "button", class: "tree-step", "data-step": name, "aria-pressed": String(index === at) }, `${index + 1} ${label}`);
      button.addEventListener("click", () => { step = name; draw(); });
      return button;
    }), el("button", { type: "button", class: "tree-next", disabled: at === steps.length - 1, onclick: () => { step = steps[at + 1]; draw(); } }, words.next));
    parts.told.textContent = told(step);
    drawTree(parts.tree, nodesAt(step), { point: pointNode });
    const isLaid = ["pass", "accept", "keep"].includes(step);
    all.classList.toggle("is-unlaid", !isLaid);
    drawMask(parts.matrix, { nodes: pass.rows.map((row) => rowLook(row, step)), sees: mask(pass.rowParents) }, words, pointRow);
    drawSlots(parts.slots, pass, words, step === "keep");
    pointRow(-1);
  }

  // ---- looks ----

  function nodesAt(name) {
    const at = stepsOf().indexOf(name);
    return pass.nodes.map((node) => {
      const isShown = node.level <= at || at >= pass.levels.length;
      const order = name.startsWith("expand") && node.order && node.level <= at ? { tag: `${node.order}`, tagClass: "is-order" } : {};
      const rank = at >= pass.levels.length && node.rank ? { tag: `${node.rank}`, tagClass: "is-rank" } : {};
      const number = node.isNext ? undefined : node.level === 0 ? "" : short(node.value);
      return { parent: node.parent, label: node.label, number, title: titleOf(node), ...order, ...rank, classes: [...looks(node, name, at), isShown ? "" : "is-hidden"].join(" ") };
    });
  }

  function looks(node, name, at) {
    if (node.level === 0) return ["is-root"];
    if (node.isNext) return ["accept", "keep"].includes(name) ? ["is-next", `fate-${node.fate}`] : ["is-hidden"];
    if (node.isMore) return [at >= pass.levels.length ? "is-cut" : "", "is-more"];
    if (at < pass.levels.length) return [node.order && node.level < at ? "is-expanded" : ""];
    if (!node.rank) return ["is-cut"];
    if (["accept", "keep"].includes(name)) return [`is-${node.verdict}`];
    return ["is-kept"];
  }

  function rowLook(row, name) {
    return { label: row.label, position: row.position, classes: ["accept", "keep"].includes(name) && row.verdict ? `is-${row.verdict}` : "" };
  }

  function titleOf(node) {
    if (node.isNext || node.level === 0 || node.isMore) return node.label;
    return fill(words.node, { token: node.label.trim() || "␣", confidence: short(node.confidence), value: short(node.value) });
  }

  // ---- pointing: a row of the matrix and its node belong together ----

  function pointNode(node) {
    pointRow(node < 0 ? -1 : pass.rows.findIndex((row) => row.node === node));
  }

  function pointRow(pointed) {
    const row = pointed < 0 ? focusedRow(parts.matrix) : pointed;
    markRow(parts.matrix, row);
    const seen = row < 0 ? [] : pathTo(pass.rowParents, row).map((one) => pass.rows[one].node);
    for (const chip of parts.tree.querySelectorAll(".tree-chip")) chip.classList.toggle("is-seen", seen.includes(Number(chip.dataset.node)));
    parts.pointed.textContent = row < 0 ? words.point : sentenceOf(pass.rows, mask(pass.rowParents), row, words);
  }

  // ---- words ----

  function told(name) {
    const names = (nodes) => nodes.map((node) => `${node.label.trim() || "␣"} ${short(node.value)}`).join(", ");
    if (name === "grow") return fill(words.told_grow, { count: pass.levels[0].length, token: pass.nodes[0].label.trim() });
    if (name.startsWith("expand")) {
      const level = Number(name.slice(6));
      const chosen = pass.nodes.filter((node) => node.order && node.level === level);
      return fill(words.told_expand, { count: chosen.length, names: names(chosen), new_nodes: pass.levels[level].length });
    }
    const values = { grown: pass.numGrown, kept: pass.rows.length - 1, num_rows: pass.rows.length, root: pass.rows[0].position };
    if (name === "rerank" || name === "pass") return fill(words[`told_${name}`], values);
    const moved = moves(pass.path);
    if (name === "accept") return fill(words[`told_accept_${pass.next.fate}`], { accepted: pass.path.length - 1, next: pass.next.label.trim() || "␣", expected: pass.expected.toFixed(2), got: pass.path.length });
    const pairs = moved.map(([from, to]) => `${from} → ${to}`).join(", ");
    return fill(moved.length ? words.told_keep : words.told_keep_none, { moved: moved.length, pairs, cached: pass.cached, kept: pass.path.length, freed: pass.rows.length - pass.path.length });
  }

  const stop = player.subscribe(follow);
  const resize = new ResizeObserver(() => { if (pass && element.clientWidth !== resize.width) { resize.width = element.clientWidth; draw(); } });
  resize.width = element.clientWidth;
  resize.observe(element);
  return { update() {}, destroy() { stop(); resize.disconnect(); } };
}

/** Of the run's first request every round with a tree: its number, how many drafts were accepted, rows of its pass. */
function roundsOf(events) {
  const first = events.find((event) => event.type === "Submitted")?.request_id;
  const grown = new Set(events.filter((event) => event.type === "TreeGrown" && event.request_id === first).map((event) => event.round));
  return events.filter((event) => event.type === "Verified" && event.request_id === first && grown.has(event.round))
    .map((event) => ({ round: event.round, accepted: event.num_accepted, rows: event.token_ids.length + 1, isMoved: isMoved(event.verdicts) }));
}

/** Whether an accepted draft's slot is not the one of its depth. */
function isMoved(verdicts) {
  const accepted = verdicts.flatMap((verdict, draft) => (verdict === "accepted" ? [draft] : []));
  return accepted.some((draft, depth) => draft !== depth);
}
