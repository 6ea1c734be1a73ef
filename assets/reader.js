// The reader's own state: predictions, progress, theme. One localStorage key, exportable as JSON.
// Knows nothing of pages; where storage is refused (private windows, some frames) it lasts as long as the page.

const KEY = "inference-reader";
let fallbackCopy = {};

function all() {
  try {
    const state = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return isRecord(state) ? state : {};
  } catch {
    return fallbackCopy;
  }
}

function keep(state) {
  fallbackCopy = state;
  try {
    localStorage.setItem(KEY, JSON.stringify(state));
  } catch {
    // nothing to do: it is kept for this page
  }
}

/** What is kept under the key; the fallback where that is nothing, or of another kind than the fallback. */
export function read(key, fallback = null) {
  const state = all();
  const value = Object.hasOwn(state, key) ? state[key] : null;
  const isOfKind = fallback === null || (typeof value === typeof fallback && isRecord(value) === isRecord(fallback));
  return value !== null && isOfKind ? value : fallback;
}

export function write(key, value) {
  keep({ ...all(), [key]: value });
}

/** All of it, under the key's name, so that no other JSON is taken for it. */
export function exportJson() {
  return JSON.stringify({ [KEY]: all() }, null, 2);
}

/** Replace the state by an exported one; throws, and changes nothing, if the text is none. */
export function importJson(text) {
  const state = JSON.parse(text)?.[KEY];
  const isState = isRecord(state) && (!Object.hasOwn(state, "predictions") || isRecord(state.predictions));
  if (!isState) throw new TypeError("not an exported state");
  keep(state);
}

function isRecord(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
