// The address: what the reader set in a lesson and the run on the page, kept in the query, so that a reload, Back and the
// other language find them again. A text too long for a link stays in this tab, and the query says so.
// Knows nothing of what settings mean, nor of runs beyond their ids: the server judges both.

const [RUN, HERE] = ["run", "here"]; // our own names in a query: the run, and which texts this tab keeps
const TAB = "inference-texts"; // the key in sessionStorage
const PAUSE = 300; // milliseconds after the last change: browsers limit how often an address may be replaced
const opening = new URLSearchParams(location.search); // as the page was asked for
const queries = new Map(); // by lesson
let timer = 0;

/** The run that the page was asked to show again; "" where it was asked for none. */
export function runAskedFor(lesson) {
  return opening.get("lesson") === lesson ? (opening.get(RUN) ?? "") : "";
}

/** Whether the address sets one of these settings of the lesson: the server then says which run belongs to them. */
export function isLinked(lesson, names = []) {
  const query = new URLSearchParams(location.search);
  return query.get("lesson") === lesson && names.some((name) => query.has(name));
}

/** The run on the page, from now on; "" is the one that the lesson opens with. */
export function keepRun(lesson, runId) {
  const query = queryOf(lesson);
  if (runId) query.set(RUN, runId);
  else query.delete(RUN);
  if (query.size) query.set("lesson", lesson);
  write();
}

/** What the reader set, as far as it differs from the first values: {lesson, names, defaults, longest}. */
export function keepSettings(spec, values) {
  const { short, long } = parted(spec, values);
  const query = queryOf(spec.lesson);
  for (const name of [...spec.names, HERE]) query.delete(name);
  for (const [name, text] of short) query.set(name, text);
  if (long.length && keepTexts(spec.lesson, Object.fromEntries(long))) query.set(HERE, long.map(([name]) => name).join());
  if (query.size) query.set("lesson", spec.lesson);
  clearTimeout(timer);
  timer = setTimeout(write, PAUSE);
}

/** The values as they are, but the texts that this tab kept in their place. */
export function keptTexts(spec, names, values) {
  const wanted = opening.get("lesson") === spec.lesson ? (opening.get(HERE) ?? "").split(",") : [];
  const texts = textsOf(spec.lesson);
  return names.map((name, at) => (wanted.includes(name) && typeof texts[name] === "string" ? texts[name] : values[at]));
}

/** A link to the settings for others, without the run; `isWhole` tells whether all of them fit. */
export function linkTo(spec, values) {
  const { short, long } = parted(spec, values);
  const link = new URL(location.pathname, location.origin);
  for (const [name, text] of [["lesson", spec.lesson], ...short]) link.searchParams.set(name, text);
  return { link, isWhole: !long.length };
}

/** The lesson of another tab is in view. */
export function turnTo(lesson) {
  writeNow();
  queryOf(lesson).set("lesson", lesson);
  replace(queryOf(lesson));
}

/** Write what still waits to be written. */
export function writeNow() {
  if (timer) write();
}

function write() {
  clearTimeout(timer);
  timer = 0;
  const named = new URLSearchParams(location.search).get("lesson");
  const lessons = window.inferencePage?.lessons ?? [];
  const inView = queries.get(lessons.includes(named) ? named : lessons[0]);
  if (inView) replace(inView);
}

function replace(query) {
  history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
}

function queryOf(lesson) {
  if (!queries.has(lesson)) {
    const now = new URLSearchParams(location.search);
    queries.set(lesson, (now.get("lesson") ?? lesson) === lesson ? now : new URLSearchParams());
  }
  return queries.get(lesson);
}

/** [name, text] of all that differs from the first values: what fits a link, and what is too long for one. */
function parted(spec, values) {
  const differing = spec.names.map((name, at) => [name, values[at]])
    .filter(([, value], at) => value !== null && value !== undefined && value !== spec.defaults[at])
    .map(([name, value]) => [name, String(value)]);
  const fits = ([, text]) => text.length <= spec.longest;
  return { short: differing.filter(fits), long: differing.filter((one) => !fits(one)) };
}

/** Whether there was room for them. */
function keepTexts(lesson, texts) {
  try {
    sessionStorage.setItem(TAB, JSON.stringify({ ...allTexts(), [lesson]: texts }));
    return true;
  } catch {
    return false;
  }
}

function textsOf(lesson) {
  const texts = allTexts();
  return (Object.hasOwn(texts, lesson) && texts[lesson]) || {};
}

function allTexts() {
  try {
    return JSON.parse(sessionStorage.getItem(TAB)) ?? {};
  } catch {
    return {};
  }
}
