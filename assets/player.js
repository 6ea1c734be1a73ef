// The player: one run on a page, the cursor in it, and who watches. One EventSource per page serves all players.
// Knows nothing of drawing nor of Gradio: stages subscribe, the transport bar gives orders.

import { apply, emptyState } from "./fold.js";
import { readFrom } from "./wire.js";

export { el, fill, formatNumber, formatSeconds, reducedMotion, rich } from "./dom.js";

const CHECKPOINT = 1000; // events between two kept copies of the state
const SHARE = 0.2; // of the time that drawing may take during a live run: the engine often shares the processor
const players = new Map();

/** The player of a channel; there is one per name and page. */
export function playerFor(channel) {
  if (!players.has(channel)) players.set(channel, new Player(channel));
  return players.get(channel);
}

/** Follow a run without Gradio: {runId, channel} → its player. */
export function attach(element, { runId, channel = "page" } = {}) {
  const player = playerFor(channel);
  element.dataset.channel = channel;
  if (runId) player.load(runId);
  return player;
}

export class Player {
  constructor(channel) {
    this.channel = channel;
    this.speed = 1;
    this.watchers = new Set();
    this.restsUntil = 0; // milliseconds
    this.clear();
  }

  clear() {
    Object.assign(this, {
      runId: "", events: [], marks: [], cursor: 0, place: 0, ending: "", message: "", about: null,
      isFollowing: true, isPlaying: false, isComplete: false, isLost: false, wasLive: false,
      isEmpty: false, hasBegun: false,
    });
    this.times = []; // when each event is shown in a replay at speed 1, in seconds from the start
    this.clocks = new Map(); // seconds that each request has used of its own
    this.checkpoints = [];
    this.folded = { cursor: 0, state: emptyState() };
  }

  // ---- the run ----

  load(runId) {
    if (runId === this.runId) return;
    this.clear();
    this.runId = runId;
    readFrom(this);
    this.changed();
  }

  /** No run belongs to what the page says: the stages stand empty. */
  unload() {
    this.clear();
    this.isEmpty = true;
    this.changed();
  }

  /** New events from the wire. */
  take(events) {
    for (const event of events) {
      this.mark(event);
      this.times.push(this.timeOf(event));
      this.events.push(event);
    }
    if (this.isFollowing) this.cursor = this.events.length;
    this.changed();
  }

  /** News about the run: "about", "place", "done", "lost", "gone". */
  hear(name, data) {
    if (name === "about") {
      this.about = data;
      this.wasLive = !data.recorded;
    }
    if (name === "place") this.place = data.place;
    if (name === "done") this.finish(data.ending);
    if (name === "gone") this.message = data.message;
    this.isLost = name === "lost";
    this.changed();
  }

  finish(ending) {
    this.ending = ending;
    this.isComplete = true;
    this.place = 0;
    const last = this.events.at(-1);
    if (last && this.marks.at(-1)?.cursor !== this.events.length) this.marks.push(this.markAt(this.events.length, last));
    if (this.isFollowing) this.cursor = this.events.length;
    this.isFollowing = false;
  }

  /** A mark stands where one step of the engine ends and the next begins. */
  mark(event) {
    const last = this.events.at(-1);
    if (last && event.step !== last.step) this.marks.push(this.markAt(this.events.length, last));
  }

  markAt(cursor, last) {
    const start = this.marks.at(-1)?.cursor ?? 0;
    const rounds = this.events.slice(start, cursor).filter((event) => event.type === "RoundFinished")
      .map(({ request_id, round }) => ({ request_id, round }));
    const { request_id = "", round = 0 } = rounds[0] ?? {};
    return { cursor, step: last.step, time: this.times.at(-1), rounds, request_id, round };
  }

  /**
   * Seconds since the first request was submitted: what the engine did before is no part of the run. In a race every
   * request is shown at its own pace: time passes as on the one that has used most of its own.
   */
  timeOf(event) {
    const last = this.events.at(-1);
    const previous = this.times.at(-1) ?? 0;
    this.hasBegun ||= last?.type === "Submitted";
    const used = this.hasBegun ? Math.max(0, event.clock - last.clock) : 0;
    if (this.about?.mode !== "race") return previous + used;
    const owner = event.request_id ?? event.request_ids?.[0] ?? "";
    this.clocks.set(owner, (this.clocks.get(owner) ?? 0) + used);
    return Math.max(previous, this.clocks.get(owner));
  }

  // ---- what watchers see ----

  get duration() { return this.times.at(-1) ?? 0; }
  get time() { return this.cursor ? this.times[this.cursor - 1] : 0; }
  get state() { return this.stateAt(this.cursor); }
  get isLive() { return this.wasLive && !this.isComplete; }

  /** The fold of the first `cursor` events. Going back starts from the last kept copy before it. */
  stateAt(cursor) {
    if (cursor < this.folded.cursor) {
      const kept = this.checkpoints.findLast((copy) => copy.cursor <= cursor);
      this.folded = kept ? { cursor: kept.cursor, state: copyOf(kept.state) } : { cursor: 0, state: emptyState() };
    }
    while (this.folded.cursor < cursor) {
      apply(this.folded.state, this.events[this.folded.cursor]);
      this.folded.cursor += 1;
      const due = this.folded.cursor % CHECKPOINT === 0 && (this.checkpoints.at(-1)?.cursor ?? 0) < this.folded.cursor;
      if (due) this.checkpoints.push({ cursor: this.folded.cursor, state: copyOf(this.folded.state) });
    }
    return this.folded.state;
  }

  /** Call back at once, and then at most once per frame when something changed. Returns how to end that. */
  subscribe(watcher) {
    this.watchers.add(watcher);
    this.tell(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** A fault of one watcher is reported and stops no other: what a reader opens may hold anything. */
  tell(watcher) {
    try {
      watcher(this.events, this.cursor, this.state, this);
    } catch (problem) {
      reportError(problem);
    }
  }

  changed() {
    if (this.isDue) return;
    this.isDue = true;
    const rest = this.restsUntil - performance.now();
    if (rest > 0) setTimeout(() => this.redraw(), rest);
    else this.redraw();
  }

  redraw() {
    requestAnimationFrame((now) => {
      this.isDue = false;
      if (this.isPlaying) this.advance(now);
      const start = performance.now();
      for (const watcher of [...this.watchers]) this.tell(watcher);
      const took = performance.now() - start;
      this.restsUntil = this.isLive ? start + took / SHARE : 0;
    });
  }

  // ---- orders ----

  play() {
    if (this.isComplete && this.cursor >= this.events.length) this.cursor = 0;
    this.isFollowing = false;
    this.isPlaying = this.events.length > 0;
    this.lastFrame = null;
    this.shown = this.time;
    this.changed();
  }

  advance(now) {
    this.shown += this.lastFrame === null ? 0 : ((now - this.lastFrame) / 1000) * this.speed;
    this.lastFrame = now;
    while (this.cursor < this.events.length && this.times[this.cursor] <= this.shown) this.cursor += 1;
    if (this.cursor >= this.events.length) {
      this.shown = this.duration;
      if (this.isComplete) this.isPlaying = false;
      else if (this.speed >= 1) this.follow();
    }
    if (this.isPlaying) this.changed();
  }

  pause() {
    this.isFollowing = false;
    this.isPlaying = false;
    this.changed();
  }

  seek(cursor) {
    this.pause();
    this.cursor = Math.max(0, Math.min(Math.round(cursor), this.events.length));
  }

  seekMark(index) {
    const last = this.marks.length - 1;
    this.seek(index < 0 ? 0 : (this.marks[Math.min(index, last)]?.cursor ?? 0));
  }

  /** The index of the last mark at or before the cursor, −1 before the first. */
  get markIndex() {
    return this.marks.findLastIndex((mark) => mark.cursor <= this.cursor);
  }

  step(direction) {
    const isBetween = direction < 0 && this.marks[this.markIndex]?.cursor < this.cursor;
    this.seekMark(this.markIndex + (isBetween ? 0 : direction));
  }

  follow() {
    this.isPlaying = false;
    this.isFollowing = !this.isComplete;
    this.cursor = this.events.length;
    this.changed();
  }

  setSpeed(speed) {
    this.speed = speed;
    if (this.isFollowing && !this.isComplete && speed < 1) this.play();
    this.changed();
  }

  restart() {
    this.cursor = 0;
    this.play();
  }
}

/** A deep copy that keeps prototypes (the fold's maps have none). */
function copyOf(value) {
  if (Array.isArray(value)) return value.map(copyOf);
  if (value === null || typeof value !== "object") return value;
  const copy = Object.create(Object.getPrototypeOf(value));
  for (const key of Object.keys(value)) copy[key] = copyOf(value[key]);
  return copy;
}
