// The reader's own state: predictions, progress, theme. One localStorage key, exportable as JSON.
// Knows nothing of pages; where storage is refused (private windows, some frames) it lasts as long as the page.

const KEY = "inference-reader";
let fallbackCopy = {};

function all() {
  try {
    return JSON.parse(localStorage.getItem(KEY) ?? "{}") ?? {};
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

export function read(key, fallback = null) {
  const state = all();
  return Object.hasOwn(state, key) ? state[key] : fallback;
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
  if (!isRecord(state) || !isRecord(state.predictions ?? {})) throw new TypeError("not an exported state");
  keep(state);
}

function isRecord(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}
