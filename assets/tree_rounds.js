// A round with a tree, put together from its events: every grown node, the rows of its pass, the accepted path, the next token.
// Knows nothing of pictures. Row 0 is the root, row 1 + i is draft i.

import { children, depths } from "./tree.js";

const MOST_LEAVES = 26; // beyond, the cut leaves of a parent are drawn as one

/** Whether a round of the fold has a tree, and its pass over the tree's chosen nodes; an opened run may lack a part. */
export function hasTree({ grown, drafted, verified, sampled }) {
  return Boolean(grown && drafted && verified && sampled.length) && verified.verdicts.length === grown.ranked.length;
}

/** {round, nodes, levels, rows, rowParents, path, next, expected, cached, numGrown} of a round of the fold. */
export function passOf(request, round) {
  const { grown, drafted, verified } = round;
  const position = request.prompt_length + round.sampled[0] - 1;
  const before = position - request.prompt_length;
  const rootLabel = before < 0 ? request.submitted.pieces.at(-1) : request.tokens[before].label;
  const rowOf = new Map([...grown.ranked].sort((a, b) => a - b).map((node, index) => [node, index + 1])); // drafts keep the tree's order
  const root = { parent: -1, label: rootLabel, value: 1, level: 0, confidence: 1, verdict: "accepted" };
  const parents = [-1, ...grown.parents.map((parent) => parent + 1)];
  const level = depths(parents);
  const nodes = [root, ...grown.token_ids.map((_, node) => ({
    parent: parents[node + 1], label: grown.pieces[node], value: grown.values[node], level: level[node + 1],
    confidence: grown.values[node] / (grown.parents[node] < 0 ? 1 : grown.values[grown.parents[node]] || 1),
    order: grown.expanded.indexOf(node) + 1, rank: grown.ranked.indexOf(node) + 1,
    verdict: rowOf.has(node) ? verified.verdicts[rowOf.get(node) - 1] : "", row: rowOf.get(node) ?? -1,
  }))];
  const levels = Array.from({ length: Math.max(...level) }, (_, index) => nodes.filter((node) => node.level === index + 1));
  const rowParents = [-1, ...drafted.parents.map((parent) => parent + 1)];
  const path = [0];
  verified.verdicts.forEach((verdict, draft) => { if (verdict === "accepted") path.push(draft + 1); });
  const { label, fate } = request.tokens[round.sampled.at(-1)];
  const last = nodes.findIndex((node) => node.row === path.at(-1));
  const next = { label, fate, parent: Math.max(0, last), level: 1 + (last > 0 ? nodes[last].level : 0), isNext: true };
  const shown = folded([...nodes, next]);
  const expected = 1 + grown.ranked.reduce((sum, node) => sum + grown.values[node], 0);
  const rowDepth = depths(rowParents);
  const rows = rowParents.map((_, row) => ({
    label: row ? drafted.pieces[row - 1] : rootLabel, position: position + rowDepth[row], verdict: row ? verified.verdicts[row - 1] : "accepted",
    node: row ? shown.findIndex((node) => node.row === row) : 0,
  }));
  return { round: round.round, nodes: shown, levels, rows, rowParents, path, next, expected, cached: round.bill?.num_cached ?? 0, numGrown: grown.token_ids.length };
}

/** Where there are too many leaves, those of one parent that were neither kept nor expanded become one node. */
function folded(nodes) {
  const below = children(nodes.map((node) => node.parent));
  const isIdle = (node) => !node.isNext && node.level > 0 && !node.rank && !node.order;
  if (nodes.filter((_, index) => !below[index].length).length <= MOST_LEAVES) return nodes;
  const kept = [];
  const place = new Map();
  const added = new Set();
  nodes.forEach((node, index) => {
    const isFirst = isIdle(node) && !added.has(node.parent);
    if (isIdle(node) && !isFirst) return;
    if (isFirst) added.add(node.parent);
    place.set(index, kept.length);
    const idle = below[node.parent]?.filter((other) => isIdle(nodes[other])) ?? [];
    const value = Math.max(...idle.map((other) => nodes[other].value));
    const look = isFirst && idle.length > 1 ? { ...node, label: `+${idle.length}`, value, isMore: true } : node;
    kept.push({ ...look, parent: node.parent < 0 ? -1 : place.get(node.parent) });
  });
  return kept;
}
