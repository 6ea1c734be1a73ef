// Caches: how many tokens each request's caches hold at this moment, and the block table that says where they lie.
// Knows nothing of what the tokens are.

import { el, fill } from "../player.js";
import { SPECULATIVE, VANILLA } from "../account.js";

export function mount(element, { words, player }) {
  const rows = [VANILLA, SPECULATIVE].map((id) => makeRow(id, words));
  element.replaceChildren(el("h3", { class: "caches-title" }, words["caches.title"]), el("div", { class: "caches-rows" }, ...rows.map((row) => row.node)));
  const stop = player.subscribe((events, cursor, state) => rows.forEach((row) => row.draw(state)));
  return { update() {}, destroy: stop };
}

function makeRow(id, words) {
  const lengths = el("p", { class: "caches-lengths" });
  const table = el("ol", { class: "caches-table", "aria-label": fill(words["caches.table"], { lane: words[`race.${id}`] }) });
  const node = el("div", { class: `caches-row caches-${id}` }, el("h4", {}, words[`race.${id}`]), lengths, table);

  function draw(state) {
    const request = state.requests[id];
    const size = state.engine?.block_size ?? 16;
    const blocks = state.tables[id] ?? [];
    const isFreed = request?.status === "finished" && blocks.length === 0;
    lengths.textContent = request ? lengthsOf(request, isFreed, words) : "";
    blocks.forEach((block, at) => {
      const held = Math.max(0, Math.min(size, request.cache_length - at * size));
      if (!table.children[at]) table.append(el("li", {}, el("i", {}), el("span", {})));
      const box = table.children[at];
      const key = `${block} ${held}`;
      if (box.dataset.key === key) return;
      box.dataset.key = key;
      box.title = fill(words["caches.block"], { block, held, size });
      box.querySelector("i").style.height = `${(100 * held) / size}%`;
      box.querySelector("span").textContent = String(block);
    });
    while (table.children.length > blocks.length) table.lastChild.remove();
  }
  return { node, draw };
}

function lengthsOf(request, isFreed, words) {
  if (isFreed) return words["caches.freed"];
  const values = { target: request.cache_length, draft: request.draft_cache_length, known: request.prompt_length + request.tokens.length };
  if (request.submitted?.draft_length) return fill(words["caches.both"], values);
  return fill(words["caches.target"], { target: values.target, known: values.known });
}
