// Candidate trees in numbers: depths, paths, the mask, what is moved, values, and a place for each node in a picture.
// Knows nothing of runs nor of drawing. `parents[0]` is −1, the root; every other parent comes before its child. The
// first four are the twins of engine/tree.py, and a test holds them equal.

/** How many steps each node lies below the root. */
export function depths(parents) {
  const depth = [];
  parents.forEach((parent, node) => depth.push(node === 0 ? 0 : depth[parent] + 1));
  return depth;
}

/** The nodes from the root down to this one. */
export function pathTo(parents, node) {
  return node <= 0 ? [0] : [...pathTo(parents, parents[node]), node];
}

/** Who sees whom: mask[row][column] is true where the column is an ancestor of the row, or the row itself. */
export function mask(parents) {
  return parents.map((_, row) => {
    const path = new Set(pathTo(parents, row));
    return parents.map((_, column) => path.has(column));
  });
}

/** Where the accepted path's keys and values lie and where they belong, from the root's slot: [from, to] pairs. */
export function moves(path) {
  return path.map((node, depth) => [node, depth]).filter(([node, depth]) => node !== depth);
}

/** Of each node the nodes right below it. */
export function children(parents) {
  const below = parents.map(() => []);
  parents.forEach((parent, node) => { if (node > 0) below[parent].push(node); });
  return below;
}

/** Of each node the product of the confidences on its path; the root's is 1. */
export function valuesOf(parents, confidences) {
  const values = [];
  parents.forEach((parent, node) => values.push(node === 0 ? 1 : values[parent] * confidences[node]));
  return values;
}

/** The nodes below the root by value, the largest first, the earlier first where two are equal. */
export function ranking(values) {
  return values.map((_, node) => node).slice(1).sort((one, other) => values[other] - values[one] || one - other);
}

/** A row for each node so that branches never cross: leaves one below the other, a parent amid its children. */
export function places(parents) {
  const below = children(parents);
  const rows = parents.map(() => 0);
  let next = 0;
  const visit = (node) => {
    below[node].forEach(visit);
    const [first, last] = [below[node][0], below[node].at(-1)];
    rows[node] = below[node].length ? (rows[first] + rows[last]) / 2 : next++;
  };
  visit(0);
  return { rows, num_rows: Math.max(1, next) };
}
