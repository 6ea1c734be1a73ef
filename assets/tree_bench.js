// A tree built by hand, in numbers: what ticking a node implies, what the ticked nodes are worth, and which would be best.
// Knows nothing of the page. A tree is {parents, confidences, names, chosen}, lists by node; node 0 is the root.

import { pathTo, ranking, valuesOf } from "./tree.js";

/** Trees to begin with, made anew at each call. */
export const presets = {
  worked: () => made([-1, 0, 0, 0, 1, 1, 2, 2], [1, 0.6, 0.3, 0.1, 0.7, 0.2, 0.9, 0.05], ["?", "A", "B", "C", "A1", "A2", "B1", "B2"], [0, 1, 2, 4, 6]),
  chain: () => made([-1, 0, 1, 2, 3], [1, 0.6, 0.7, 0.7, 0.7], ["?", "A", "A1", "A11", "A111"], [0, 1, 2, 3, 4]),
  bush: () => made([-1, 0, 0, 0, 0, 0, 0], [1, 0.4, 0.2, 0.15, 0.1, 0.05, 0.05], ["?", "A", "B", "C", "D", "E", "F"], [0, 1, 2, 3, 4, 5, 6]),
};

function made(parents, confidences, names, chosen) {
  return { parents, confidences, names, chosen: parents.map((_, node) => chosen.includes(node)) };
}

/** The ticks after one node's was changed: its ancestors come along, or its descendants go. */
export function close(tree, node) {
  const isWanted = !tree.chosen[node];
  const path = pathTo(tree.parents, node);
  return tree.chosen.map((was, one) => (isWanted ? was || path.includes(one) : was && !pathTo(tree.parents, one).includes(node)));
}

/** The ticks for the so many most valuable nodes: none of them lacks its parent. */
export function best(tree, size) {
  const kept = new Set([0, ...ranking(valuesOf(tree.parents, tree.confidences)).slice(0, size)]);
  return tree.parents.map((_, node) => kept.has(node));
}

/** The ticked nodes as a tree of their own: {nodes, parents}. */
export function chosenTree(tree) {
  const nodes = tree.parents.map((_, node) => node).filter((node) => tree.chosen[node]);
  const place = new Map(nodes.map((node, row) => [node, row]));
  return { nodes, parents: nodes.map((node) => (node ? place.get(tree.parents[node]) : -1)) };
}

/**
 * Expected tokens 1 + Σ values of the ticked nodes; bestSame: of the best choice of as many; sizes[m]: tokens per plain
 * step of the best m nodes, times[m] being the time of a pass over 1 + m rows; bestSize: the m for which that is most.
 */
export function scores(tree, values, times) {
  const total = (nodes) => nodes.reduce((sum, node) => sum + values[node], 1);
  const order = ranking(values);
  const ticked = order.filter((node) => tree.chosen[node]);
  const sizes = [0, ...order.keys()].map((_, size) => total(order.slice(0, size)) / times[size]).slice(0, times.length);
  return { expected: total(ticked), bestSame: total(order.slice(0, ticked.length)), sizes, bestSize: sizes.indexOf(Math.max(...sizes)) };
}
