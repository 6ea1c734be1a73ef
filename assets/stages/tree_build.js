// A candidate tree in the reader's hands: grow it, set confidences, tick what is verified; mask and worth follow at once.
// Knows nothing of models: a value is the product of confidences, pass times are given in `options`.

import { el, fill } from "../player.js";
import { best, chosenTree, close, presets, scores } from "../tree_bench.js";
import { depths, mask, pathTo, valuesOf } from "../tree.js";
import { drawMask, focusedRow, markRow, sentenceOf } from "../tree_mask.js";
import { hasTree, passOf } from "../tree_rounds.js";
import { drawTree, short } from "../tree_view.js";

const MOST_NODES = 15; // below the root, the widest pass that was measured

export function mount(element, { words, options, player }) {
  const parts = {
    bar: el("div", { class: "tree-steps" }), tree: el("div", { class: "tree-host" }), editor: el("div", { class: "bench-editor" }),
    facts: el("dl", { class: "bench-facts" }), sizes: el("div", { class: "bench-sizes" }), matrix: el("div", { class: "tree-mask" }),
    pointed: el("p", { class: "tree-pointed" }), told: el("p", { class: "tree-told", role: "status" }),
  };
  const left = el("div", { class: "bench-left" }, parts.tree, parts.editor, parts.matrix, parts.pointed);
  const side = el("div", { class: "tree-side" }, parts.facts, parts.sizes);
  element.replaceChildren(parts.bar, parts.told, el("div", { class: "tree-pair" }, left, side));
  let tree = presets.worked();
  let selected = -1;
  let shown = null; // rows of the mask → nodes

  function drawBar() {
    const button = (name, onclick, disabled = false) => el("button", { type: "button", class: "tree-step", "data-preset": name, onclick, disabled }, words[name]);
    const take = (made) => () => { tree = made; selected = -1; say(""); draw(); };
    parts.bar.replaceChildren(
      ...Object.keys(presets).map((name) => button(name, () => take(presets[name]())())),
      button("taken", () => { const made = takenFrom(player); if (made) take(made)(); else say(words.nothing_to_take); }),
      button("best", () => { const size = tree.chosen.filter(Boolean).length - 1; tree.chosen = best(tree, size); say(""); draw(); }),
    );
  }

  function say(text) { parts.told.textContent = text || words.intro; }

  function draw() {
    const values = valuesOf(tree.parents, tree.confidences);
    const nodes = tree.parents.map((parent, node) => ({
      parent, label: tree.names[node], number: node ? short(values[node]) : "", box: node ? tree.chosen[node] : undefined,
      boxLabel: fill(words.tick, { token: tree.names[node] }), title: node ? fill(words.node, { token: tree.names[node], confidence: short(tree.confidences[node]), value: short(values[node]) }) : words.root,
      classes: `${node === 0 ? "is-root" : tree.chosen[node] ? "is-kept" : "is-cut"}${node === selected ? " is-selected" : ""}`,
    }));
    drawTree(parts.tree, nodes, { pick: select, tick, point: pointNode });
    drawEditor(values);
    drawFacts(values);
    drawMatrix();
  }

  function select(node) {
    selected = node;
    draw();
    parts.tree.querySelector(`[data-node="${node}"] .tree-body`)?.focus();
  }

  function tick(node) {
    tree.chosen = close(tree, node);
    draw();
    parts.tree.querySelector(`[data-node="${node}"] .tree-box`)?.focus();
  }

  // ---- one node ----

  function drawEditor(values) {
    if (selected < 0) return parts.editor.replaceChildren(el("p", { class: "tree-pointed" }, words.select));
    const name = el("strong", {}, tree.names[selected]);
    const add = el("button", { type: "button", class: "tree-step", disabled: tree.parents.length > MOST_NODES || roomBelow(selected) < 0.005, onclick: () => grow(selected) }, words.add);
    if (selected === 0) return parts.editor.replaceChildren(name, add);
    const most = Math.max(0.01, roomBelow(tree.parents[selected]) + tree.confidences[selected]);
    const slider = el("input", { type: "range", min: 0.01, max: most.toFixed(2), step: 0.01, value: tree.confidences[selected], "aria-label": fill(words.confidence, { token: tree.names[selected] }) });
    const said = el("output", {}, short(tree.confidences[selected]));
    slider.addEventListener("input", () => {
      tree.confidences[selected] = Number(slider.value);
      said.textContent = short(tree.confidences[selected]);
      const now = valuesOf(tree.parents, tree.confidences);
      drawFacts(now);
      for (const chip of parts.tree.querySelectorAll(".tree-chip")) {
        const node = Number(chip.dataset.node);
        if (node) chip.querySelector(".tree-number").textContent = short(now[node]);
      }
    });
    const remove = el("button", { type: "button", class: "tree-step", onclick: () => cut(selected) }, words.remove);
    parts.editor.replaceChildren(name, el("label", {}, words.given_parent, " ", slider, said), add, remove, el("span", { class: "tree-pointed" }, fill(words.value_is, { value: short(values[selected]) })));
    return undefined;
  }

  /** What the children of a node leave of its probability. */
  function roomBelow(node) {
    return 1 - tree.parents.reduce((sum, parent, child) => sum + (parent === node ? tree.confidences[child] : 0), 0);
  }

  function grow(parent) {
    const number = tree.parents.filter((one) => one === parent).length + 1;
    const base = parent === 0 ? "" : tree.names[parent];
    tree.parents.push(parent);
    tree.confidences.push(Math.max(0.01, Math.round(roomBelow(parent) * 50) / 100));
    tree.names.push(parent === 0 ? String.fromCharCode(64 + Math.min(26, number)) : `${base}${number}`);
    tree.chosen.push(false);
    tree.chosen = close(tree, tree.parents.length - 1);
    select(tree.parents.length - 1);
  }

  function cut(node) {
    const gone = tree.parents.map((_, one) => pathTo(tree.parents, one).includes(node));
    const place = [];
    let next = 0;
    gone.forEach((isGone, one) => { place[one] = isGone ? -1 : next++; });
    const keep = (list) => list.filter((_, one) => !gone[one]);
    tree = { parents: keep(tree.parents).map((parent) => (parent < 0 ? -1 : place[parent])), confidences: keep(tree.confidences), names: keep(tree.names), chosen: keep(tree.chosen) };
    selected = -1;
    draw();
  }

  // ---- what it is worth ----

  function drawFacts(values) {
    const num = tree.chosen.filter(Boolean).length - 1;
    const { expected, sizes, bestSize, bestSame } = scores(tree, values, options.times);
    const rate = expected / options.times[num];
    const badge = (kind) => el("span", { class: `badge badge-${kind}`, title: options.sources[kind] }, options.badges[kind]);
    const fact = (label, value, kind) => [el("dt", {}, label), el("dd", {}, el("strong", {}, value), " ", badge(kind))];
    parts.facts.replaceChildren(
      ...fact(fill(words.expected, { count: num }), expected.toFixed(2), "theory"),
      ...fact(fill(words.time, { count: num + 1 }), `${options.times[num].toFixed(2)}×`, "recorded"),
      ...fact(words.rate, rate.toFixed(2), "theory"),
    );
    const verdict = expected > bestSame - 1e-9 ? words.is_best : fill(words.is_not_best, { best: bestSame.toFixed(2) });
    const tallest = Math.max(...sizes);
    const bars = sizes.map((size, count) => {
      const bar = el("i", { class: `bench-bar${count === bestSize ? " is-best" : ""}${count === num ? " is-now" : ""}`, title: fill(words.size, { count, rate: size.toFixed(2) }) });
      bar.style.height = `${(100 * size) / tallest}%`;
      return el("span", {}, bar, el("b", {}, String(count)));
    });
    parts.sizes.replaceChildren(el("p", { class: "tree-pointed" }, `${verdict} ${fill(words.best_size, { count: bestSize })}`), el("div", { class: "bench-bars", role: "img", "aria-label": fill(words.best_size, { count: bestSize }) }, ...bars));
  }

  // ---- the mask ----

  function drawMatrix() {
    shown = chosenTree(tree);
    const depth = depths(shown.parents);
    const nodes = shown.nodes.map((node, row) => ({ label: tree.names[node], position: row ? `+${depth[row]}` : "+0" }));
    drawMask(parts.matrix, { nodes, sees: mask(shown.parents) }, words, pointRow);
    pointRow(-1);
  }

  function pointNode(node) { pointRow(node < 0 ? -1 : shown.nodes.indexOf(node)); }

  function pointRow(pointed) {
    const row = pointed < 0 ? focusedRow(parts.matrix) : pointed;
    markRow(parts.matrix, row);
    const seen = row < 0 ? [] : pathTo(shown.parents, row).map((one) => shown.nodes[one]);
    for (const chip of parts.tree.querySelectorAll(".tree-chip")) chip.classList.toggle("is-seen", seen.includes(Number(chip.dataset.node)));
    const depth = depths(shown.parents);
    const rows = shown.nodes.map((node, one) => ({ label: tree.names[node], position: depth[one] }));
    parts.pointed.textContent = row < 0 ? words.point : sentenceOf(rows, mask(shown.parents), row, words);
  }

  drawBar();
  say("");
  draw();
  const resize = new ResizeObserver(() => { if (element.clientWidth !== resize.width) { resize.width = element.clientWidth; draw(); } });
  resize.width = element.clientWidth;
  resize.observe(element);
  return { update() {}, destroy() { resize.disconnect(); } };
}

/** The verified nodes and the expanded ones of the round that the page shows; null where there is none. */
function takenFrom(player) {
  const request = player.state.requests[player.state.order[0]];
  const round = (request?.rounds ?? []).findLast(hasTree);
  if (!round) return null;
  const pass = passOf(request, round);
  const kept = pass.nodes.map((node, index) => index).filter((index) => index === 0 || pass.nodes[index].rank || pass.nodes[index].order).slice(0, MOST_NODES + 1);
  const place = new Map(kept.map((index, at) => [index, at]));
  return {
    parents: kept.map((index) => (index ? place.get(pass.nodes[index].parent) : -1)), confidences: kept.map((index) => Math.min(1, pass.nodes[index].confidence)),
    names: kept.map((index) => pass.nodes[index].label), chosen: kept.map((index) => index === 0 || Boolean(pass.nodes[index].rank)),
  };
}
