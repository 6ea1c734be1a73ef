// The zoo's scatter: tokens per pass against speed-up. Rays through the origin say what a round costs.
// Knows nothing of runs: rows in, SVG out. Colour and shape say the family; points of one drafter are joined.

import { el, fill } from "./dom.js";

/** A drafter's name in the reader's language: that of its variant ("eagle3:lookup"), or else of its kind. */
export function nameOf(drafter, words) {
  return words[`name.${drafter.replace(":", "_")}`] ?? words[`name.${drafter.split(":")[0]}`] ?? drafter;
}

const HEIGHT = 340;
const EDGE = { left: 44, right: 62, top: 30, bottom: 40 };
const COSTS = [1, 1.5, 2, 4, 8];
const SHAPES = { lookup: "circle", self: "square", model: "triangle", head: "diamond", jacobi: "cross", plain: "ring" };

/** The picture of rows with {name, tau, speedUp, family, label}, as wide as `width`. */
export function scatterOf(rows, { words, width, picked }) {
  const points = rows.filter((row) => row.speedUp !== null);
  const most = { x: Math.max(2, ...points.map((row) => row.tau)) * 1.12, y: Math.max(1.4, ...points.map((row) => row.speedUp)) * 1.15 };
  const x = (tau) => EDGE.left + ((width - EDGE.left - EDGE.right) * (tau - 0.8)) / (most.x - 0.8);
  const y = (speed) => HEIGHT - EDGE.bottom - ((HEIGHT - EDGE.top - EDGE.bottom) * speed) / most.y;
  const svg = el("svg", { class: "zoo-scatter", viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": words["scatter.label"] });
  svg.append(...axes(words, width, most, x, y), ...rays(words, most, x, y), ...paths(points, x, y), ...marks(points, x, y, { words, picked, width }));
  return svg;
}

function axes(words, width, most, x, y) {
  const parts = [line("zoo-axis", x(0.8), y(0), x(most.x), y(0)), line("zoo-axis", x(0.8), y(0), x(0.8), y(most.y))];
  for (let tau = 1; tau <= most.x; tau += most.x > 7 ? 2 : 1) parts.push(text("zoo-tick", x(tau), HEIGHT - EDGE.bottom + 16, tau, "middle"));
  for (let speed = 0; speed <= most.y; speed += most.y > 3 ? 1 : 0.5) parts.push(text("zoo-tick", EDGE.left - 8, y(speed) + 4, speed, "end"));
  parts.push(text("zoo-title", (x(0.8) + x(most.x)) / 2, HEIGHT - 4, words["scatter.x"], "middle"));
  parts.push(text("zoo-title", 4, 12, words["scatter.y"], "start"));
  parts.push(line("zoo-one", x(0.8), y(1), x(most.x), y(1)), text("zoo-one-text", x(most.x) + 4, y(1) + 4, words["scatter.plain"], "start"));
  return parts;
}

/** S = τ / t: all drafters whose round costs t plain steps lie on one ray. */
function rays(words, most, x, y) {
  return COSTS.flatMap((cost) => {
    const end = Math.min(most.x, most.y * cost);
    const label = fill(words["scatter.ray"], { cost });
    const isAtTop = end < most.x;
    return [
      line(`zoo-ray ${cost === 1 ? "zoo-free" : ""}`, x(0.8), y(0.8 / cost), x(end), y(end / cost)),
      text("zoo-ray-text", x(end) + (isAtTop ? -4 : 4), y(end / cost) + (isAtTop ? 12 : 4), label, isAtTop ? "end" : "start"),
    ];
  });
}

function paths(points, x, y) {
  const drafters = [...new Set(points.map((row) => row.drafter))];
  const groups = drafters.map((drafter) => points.filter((row) => row.drafter === drafter));
  return groups.filter((group) => new Set(group.map((row) => row.draftLength)).size > 1).map((group) => {
    const sorted = [...group].sort((a, b) => a.draftLength - b.draftLength);
    return el("polyline", { class: "zoo-path", points: sorted.map((row) => `${x(row.tau)},${y(row.speedUp)}`).join(" ") });
  });
}

function marks(points, x, y, { words, picked, width }) {
  const taken = [];
  return [...points].sort((a, b) => b.speedUp - a.speedUp).flatMap((row) => {
    const [left, top] = [x(row.tau), y(row.speedUp)];
    const isRight = left > width * 0.62;
    let place = top + 4;
    while (row.family !== "plain" && taken.some((one) => Math.abs(one.place - place) < 13 && Math.abs(one.left - left) < 110)) place += 13;
    place = Math.min(place, HEIGHT - EDGE.bottom - 4);
    if (row.family !== "plain") taken.push({ place, left });
    const mark = shape(SHAPES[row.family] ?? "circle", left, top);
    mark.setAttribute("class", `zoo-mark zoo-family-${row.family}${row.name === picked ? " is-picked" : ""}`);
    mark.append(titled(fill(words["scatter.point"], { name: row.label, tau: row.tau, speed: row.speedUp, cost: row.roundCost })));
    if (row.family === "plain") return [mark]; // the dashed line says its name
    return [mark, text(`zoo-name${row.name === picked ? " is-picked" : ""}`, left + (isRight ? -9 : 9), place, row.label, isRight ? "end" : "start")];
  });
}

/** A family's mark at a place; also used in the table. */
export function shape(kind, left, top, size = 6) {
  const at = (...pairs) => pairs.map(([dx, dy]) => `${left + dx * size},${top + dy * size}`).join(" ");
  if (kind === "circle" || kind === "ring") return el("circle", { cx: left, cy: top, r: size * 0.9 });
  if (kind === "square") return el("rect", { x: left - size * 0.85, y: top - size * 0.85, width: size * 1.7, height: size * 1.7 });
  if (kind === "triangle") return polygon(at([0, -1.1], [1.05, 0.8], [-1.05, 0.8]));
  if (kind === "diamond") return polygon(at([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]));
  return polygon(at([-0.35, -1.1], [0.35, -1.1], [0.35, -0.35], [1.1, -0.35], [1.1, 0.35], [0.35, 0.35], [0.35, 1.1], [-0.35, 1.1], [-0.35, 0.35], [-1.1, 0.35], [-1.1, -0.35], [-0.35, -0.35]));
}

/** A family's mark alone, for the table and the legend. */
export function symbol(family) {
  const mark = shape(SHAPES[family] ?? "circle", 8, 8);
  mark.setAttribute("class", `zoo-mark zoo-family-${family}`);
  return el("svg", { class: "zoo-symbol", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, mark);
}

const polygon = (points) => el("path", { d: `M${points.replaceAll(" ", "L")}Z` });
const line = (kind, x1, y1, x2, y2) => el("line", { class: kind, x1, y1, x2, y2 });
const text = (kind, x, y, words, anchor) => el("text", { class: kind, x, y, "text-anchor": anchor }, String(words));

function titled(words) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", "title");
  node.textContent = words;
  return node;
}
