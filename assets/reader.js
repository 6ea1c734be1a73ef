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

export function exportJson() {
  return JSON.stringify(all(), null, 2);
}

/** Replace the state by an exported one; throws if the text is no JSON object. */
export function importJson(text) {
  const state = JSON.parse(text);
  if (state === null || typeof state !== "object" || Array.isArray(state)) throw new TypeError("not an exported state");
  keep(state);
}
