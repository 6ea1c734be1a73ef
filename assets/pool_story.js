// Pool story: what the step at the cursor did to the blocks, in sentences; and the steps worth a visit.
// Knows nothing of pictures.

import { el, fill } from "./dom.js";

const MOST = 9; // sentences shown

/** Sentences for the block events of one step, copies first in weight: {kind, text}. */
export function sentencesOf(step, words) {
  const lines = [];
  const freed = new Map();
  for (const event of step) {
    const key = KEYS[event.type];
    if (event.type === "BlockFreed") freed.set(event.request_id, (freed.get(event.request_id) ?? 0) + 1);
    else if (event.type === "Submitted" && event.parent) lines.push(line("fork", event, words));
    else if (event.type === "Prefilled") lines.push(line(event.num_reused ? "reused" : "prefilled", event, words));
    else if (key) lines.push(line(key, event, words));
  }
  for (const [id, count] of freed) lines.push(line("freed", { request_id: id, count }, words));
  return lines;
}

const KEYS = {
  BlockTaken: "taken", BlockShared: "shared", BlockCopied: "copied", BlockHashed: "hashed", BlockHit: "hit", BlockEvicted: "evicted", Preempted: "preempted",
};

function line(kind, event, words) {
  const hash = event.hash?.slice(0, 4) ?? "";
  return { kind, text: fill(words[`story.${kind}`], { ...event, id: event.request_id, hash }) };
}

export function makeStory(words, onMoment) {
  const title = el("h4", { class: "blocks-title" });
  const list = el("ol", { class: "blocks-story" });
  const jumps = el("div", { class: "blocks-moments", role: "group", "aria-label": words["moments.label"] });
  const node = el("div", { class: "blocks-told" }, title, list);
  let shown = "";
  let known = "";

  /** number: which step of the run this is. */
  function draw(step, cursor, number) {
    const key = `${cursor} ${step.length}`;
    if (key === shown) return;
    shown = key;
    const lines = sentencesOf(step, words);
    title.textContent = step.length ? fill(words["story.title"], { step: number }) : words["story.before"];
    const order = ["preempted", "copied", "hit", "fork"];
    const sorted = [...lines].sort((left, right) => rank(order, left.kind) - rank(order, right.kind));
    const items = sorted.slice(0, MOST).map(({ kind, text }) => el("li", { class: `is-${kind}` }, text));
    const rest = lines.length - MOST;
    if (rest > 0) items.push(el("li", { class: "is-rest" }, fill(words["story.more"], { count: rest })));
    if (!lines.length && step.length) items.push(el("li", { class: "is-rest" }, words["story.nothing"]));
    list.replaceChildren(...items);
  }

  function drawMoments(moments, cursor) {
    const key = `${moments.map((moment) => moment.cursor)}|${cursor}`;
    if (key === known) return;
    known = key;
    jumps.replaceChildren(el("span", {}, words["moments.label"]), ...moments.slice(0, 14).map((moment) =>
      el("button", { type: "button", class: `blocks-moment is-${moment.kind}`, "aria-pressed": String(moment.cursor === cursor), onclick: () => onMoment(moment) },
        fill(words[`moment.${moment.kind}`], moment))));
    jumps.hidden = moments.length === 0;
  }
  return { node, jumps, draw, drawMoments };
}

function rank(order, kind) {
  const at = order.indexOf(kind);
  return at < 0 ? order.length : at;
}
