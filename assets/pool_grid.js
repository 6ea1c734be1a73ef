// Pool grid: the physical blocks as tiles: who owns them, how full they are, how often they are counted, their hash.
// Knows nothing of tables or stories; `pick` is the block that the reader points at.

import { el, fill } from "./dom.js";
import { spell } from "./glyphs.js";

const WITH_TEXT = 4; // slots of a block that still have room for their token's text
const LETTERS = 4; // owners named on a tile

export function makeGrid(words, onPick) {
  const node = el("ul", { class: "blocks-grid", "aria-label": words["grid.label"] });
  const tiles = new Map();
  for (const [type, isOver] of [["mouseover", true], ["mouseleave", false]]) {
    node.addEventListener(type, (event) => onPick(isOver ? idOf(event) : null));
  }

  function draw(view, tags) {
    node.classList.toggle("has-text", view.size <= WITH_TEXT);
    const wanted = new Set(view.blocks.map((block) => block.id));
    for (const [id, tile] of tiles) {
      if (wanted.has(id)) continue;
      tile.remove();
      tiles.delete(id);
    }
    view.blocks.forEach((block, at) => {
      const key = keyOf(block, tags.get(block.id));
      let tile = tiles.get(block.id);
      if (tile?.dataset.key !== key) {
        const fresh = drawTile(block, tags.get(block.id), words);
        fresh.dataset.key = key;
        if (tile?.classList.contains("is-picked")) fresh.classList.add("is-picked");
        tile?.replaceWith(fresh);
        tiles.set(block.id, fresh);
        tile = fresh;
      }
      if (node.children[at] !== tile) node.insertBefore(tile, node.children[at] ?? null);
    });
  }

  function mark(pick) {
    for (const [id, tile] of tiles) tile.classList.toggle("is-picked", id === pick?.block);
    for (const slot of node.querySelectorAll(".blocks-slot.is-picked")) slot.classList.remove("is-picked");
    if (pick?.slot >= 0) tiles.get(pick.block)?.querySelectorAll(".blocks-slot")[pick.slot]?.classList.add("is-picked");
  }
  return { node, draw, mark, tile: (id) => tiles.get(id) };
}

function idOf(event) {
  const tile = event.target.closest(".blocks-tile");
  return tile ? Number(tile.dataset.block) : null;
}

function keyOf(block, tag) {
  const text = block.size <= WITH_TEXT ? textsOf(block).join("\u0000") : "";
  return [block.kind, block.held, block.refs, block.hash, block.owners.map((owner) => owner.id).join(), tag?.kind, tag?.source, text].join("|");
}

function drawTile(block, tag, words) {
  const head = el("div", { class: "blocks-head" },
    el("b", {}, String(block.id)),
    block.refs > 1 ? el("span", { class: "blocks-refs" }, `×${block.refs}`) : null,
    block.hash ? el("code", { class: "blocks-hash" }, `#${block.hash.slice(0, 4)}`) : null);
  const slots = el("div", { class: "blocks-slots", style: `--size:${block.size}` }, ...slotsOf(block));
  const foot = el("div", { class: "blocks-foot" }, ...(block.owners.length ? lettersOf(block) : [words[`grid.${block.kind}`] ?? ""]));
  const flag = tag ? el("span", { class: `blocks-tag is-${tag.kind}` }, fill(words[`tag.${tag.kind}`], { source: tag.source })) : null;
  const title = titleOf(block, words);
  return el("li", { class: `blocks-tile is-${block.kind}${tag ? ` was-${tag.kind}` : ""}`, "data-block": block.id, title, "aria-label": title }, flag, head, slots, foot);
}

/** The filled part in bands, one per owner, with a box per slot above it. */
function slotsOf(block) {
  const share = block.held / block.size;
  const bands = block.owners.map((owner) => el("i", { class: `owner-${owner.owner}` }));
  const texts = textsOf(block);
  const boxes = Array.from({ length: block.size }, (_, at) => {
    const box = el("span", { class: `blocks-slot${at < block.held ? " is-held" : ""}` });
    if (block.size <= WITH_TEXT) box.textContent = at < block.held ? spell((texts[at] ?? "").trim() || texts[at] || "").map((run) => run.text).join("") : "";
    return box;
  });
  return [el("div", { class: "blocks-fill", style: `--share:${share}` }, ...bands), ...boxes];
}

function textsOf(block) {
  const owner = block.owners[0];
  return owner?.entries.find((entry) => entry.block === block.id)?.pieces ?? [];
}

function lettersOf(block) {
  const letters = block.owners.slice(0, LETTERS).map((owner) => el("span", { class: `blocks-letter owner-${owner.owner}` }, owner.id));
  const rest = block.owners.length - LETTERS;
  return rest > 0 ? [...letters, `+${rest}`] : letters;
}

function titleOf(block, words) {
  const values = { block: block.id, held: block.held, size: block.size, refs: block.refs, hash: block.hash, owners: block.owners.map((owner) => owner.id).join(", ") };
  const said = fill(words[`block.${block.kind}`], values);
  return block.hash && block.kind === "used" ? `${said} ${fill(words["block.hash"], values)}` : said;
}
