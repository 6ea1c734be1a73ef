// Blocks: the pool of a run at the cursor: tables on the left, physical blocks on the right, the story of the step below.
// Follows a player, or draws the events that it is handed as its value ({events: […]}), a moment of a pool without a run.

import { el, fill, reducedMotion } from "../player.js";
import { fold } from "../fold.js";
import { makeGrid } from "../pool_grid.js";
import { makeStory } from "../pool_story.js";
import { makeTables, makeText } from "../pool_tables.js";
import { blocksToShow, eventsOfStep, momentsOf, tagsOf, viewOf } from "../pool_view.js";

export function mount(element, { words, options, value, player, trigger }) {
  const page = layout(element, words, {
    choose(id) { chosen = id; redraw(); },
    fork(id, position) { trigger("act", { act: "fork", run: player?.runId ?? "", request: id, at: position + 1 }); },
    moment({ cursor }) { player?.seek(cursor); },
  });
  const ids = idsOf();
  let chosen = "";
  let now = null;
  let settings = options;
  let lastCursor = 0;
  let opened = "";

  /** A recorded run opens where there is most to see, not at its end, when every block has been given back. */
  function open(events) {
    if (!player?.about?.recorded || !player.isComplete || opened === player.runId) return;
    opened = player.runId;
    const moments = momentsOf(events, player.marks);
    const first = moments.find((moment) => moment.kind === "copied") ?? moments.find((moment) => moment.kind === "hit");
    if (first && player.cursor === events.length) player.seek(first.cursor);
  }

  function draw(events, cursor, state) {
    open(events);
    now = [events, cursor, state];
    const view = viewOf(events, state, ids(events, player?.runId ?? ""));
    const step = eventsOfStep(events, cursor);
    const alive = view.sequences.filter((sequence) => sequence.entries.length);
    const reader = view.sequences.find((sequence) => sequence.id === chosen) ?? alive[0] ?? view.sequences[0];
    page.draw({ view, step, cursor, number: numberOf(player, step, cursor), reader, settings, badge: badgeOf(player, settings) });
    if (player) page.story.drawMoments(momentsOf(events, player.marks), cursor);
    if (cursor > lastCursor && lastCursor > 0) fly(step, page.grid);
    lastCursor = cursor;
  }
  function redraw() { if (now) draw(...now); }

  function drawValue(given) {
    const events = given?.events ?? [];
    draw(events, events.length, fold(events));
  }
  if (!player) drawValue(value);
  const stop = player ? player.subscribe((events, cursor, state) => draw(events, cursor, state)) : () => {};
  return {
    update(next, given) {
      settings = next ?? settings;
      if (player) redraw();
      else drawValue(given);
    },
    destroy: stop,
  };
}

/** Which step of the run this is, counted as the transport counts; of a pool without a run, which operation. */
function numberOf(player, step, cursor) {
  if (!player) return step[0]?.step ?? 0;
  const mark = player.marks.findIndex((one) => one.cursor >= cursor);
  return mark < 0 ? player.marks.length + 1 : mark + 1; // a step that still goes on has no mark yet
}

function layout(element, words, on) {
  const grid = makeGrid(words, (block) => point(block === null ? null : { block }));
  const tables = makeTables(words, (block) => point(block === null ? null : { block }), on.choose);
  const text = makeText(words, (pick) => point(pick ?? null, true), on.fork);
  const story = makeStory(words, on.moment);
  const counts = el("div", { class: "blocks-counts" });
  const label = el("p", { class: "blocks-label" });
  let held = null;
  function point(pick, isHeld = false) {
    if (isHeld) held = pick;
    for (const part of [grid, tables]) part.mark(pick ?? held);
  }
  element.replaceChildren(counts, story.jumps, el("div", { class: "blocks-columns" },
    el("section", { class: "blocks-left" }, el("h4", { class: "blocks-title" }, words["tables.title"]), tables.node),
    el("section", { class: "blocks-right" }, el("h4", { class: "blocks-title" }, words["grid.title"]), grid.node, keyOf(words), label), story.node), text.node);

  function draw({ view, step, cursor, number, reader, settings, badge }) {
    const mark = badge ? el("span", { class: `badge badge-${badge}` }, settings.badges?.[badge] ?? badge) : null;
    counts.replaceChildren(...[...countsOf(view, words), mark].filter(Boolean));
    label.textContent = labelOf(view, words);
    tables.draw(view, reader?.id);
    grid.draw(view, tagsOf(step));
    story.draw(step, cursor, number);
    text.draw(reader, view.size, Boolean(settings.can_fork));
    point(null);
  }
  return { draw, grid, story };
}

function countsOf({ totals, size }, words) {
  const values = { ...totals, size, share: totals.slots ? 1 - totals.empty / totals.slots : 1 };
  return ["used", "spared", "cached", "free", "empty"].map((name) =>
    el("span", { class: `blocks-count is-${name}`, title: words[`count.${name}.why`] }, el("b", {}, String(values[name])), ` ${fill(words[`count.${name}`], values)}`));
}

function labelOf(view, words) {
  if (!view.numBlocks) return "";
  const key = view.blocks.length < view.numBlocks ? "grid.part" : "grid.whole";
  return fill(words[key], { shown: view.blocks.length, total: view.numBlocks, size: view.size });
}

function keyOf(words) {
  const box = (kind) => el("span", { class: "blocks-key" }, el("i", { class: `blocks-swatch is-${kind}` }), words[`key.${kind}`]);
  return el("div", { class: "blocks-keys" }, ...["used", "shared", "cached", "free"].map(box));
}

/** What kind of numbers these are. */
function badgeOf(player, settings) {
  if (settings.badge) return settings.badge;
  if (!player?.about) return "";
  return player.about.recorded ? "recorded" : "measured";
}

/** The ids of the blocks to show; they change only when events come in. */
function idsOf() {
  let [source, length, ids] = [null, -1, []];
  return (events, runId) => {
    if (source !== runId || events.length !== length) [source, length, ids] = [runId, events.length, blocksToShow(events)];
    return ids;
  };
}

/** Show each copy of a step on its way from the old block to the new one. */
function fly(step, grid) {
  if (reducedMotion()) return;
  for (const { type, source, target } of step) {
    const [from, to] = type === "BlockCopied" ? [grid.tile(source), grid.tile(target)] : [];
    if (!from || !to) continue;
    const [start, end] = [from.getBoundingClientRect(), to.getBoundingClientRect()];
    const offset = `translate(${start.left - end.left}px, ${start.top - end.top}px)`;
    to.querySelector(".blocks-fill")?.animate([{ transform: offset, opacity: 0.4 }, { transform: "none", opacity: 1 }], { duration: 700, easing: "ease-in-out" });
  }
}
