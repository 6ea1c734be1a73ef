// The wire: the page's one EventSource. Players that want to read queue up; the newest wish goes first, and a stream
// that was put aside resumes where it stopped. Knows nothing of what the events mean.

const unfinished = []; // players that still want events, the one being read last
let source = null;

/** Read a player's run from where it stands, before all others. */
export function readFrom(player) {
  drop(player);
  unfinished.push(player);
  open();
}

/** Where the server is, seen from this page. */
export function address(path) {
  return new URL((window.inferencePage?.root ?? "/") + path, document.baseURI);
}

function drop(player) {
  const index = unfinished.indexOf(player);
  if (index >= 0) unfinished.splice(index, 1);
}

function open() {
  source?.close();
  source = null;
  while (unfinished.at(-1)?.runId === "") unfinished.pop(); // it left its run for none
  const player = unfinished.at(-1);
  if (player) listen(player, player.runId);
}

function listen(player, runId) {
  const url = address(`stream/${encodeURIComponent(runId)}`);
  const aside = unfinished.slice(0, -1).map((other) => other.runId).filter(Boolean);
  url.searchParams.set("from", player.events.length);
  url.searchParams.set("lang", window.inferencePage?.language ?? "en");
  if (aside.length) url.searchParams.set("also", aside.join(",")); // they wait here, and count as watched
  const own = new EventSource(url);
  source = own;
  const close = () => {
    own.close();
    drop(player);
    open();
  };
  const isStale = () => {
    if (source === own && player.runId !== runId) close();
    return source !== own;
  };
  own.onmessage = (message) => {
    if (isStale()) return;
    const fresh = Number(message.lastEventId) - player.events.length; // a resumed stream may repeat what is here
    const events = JSON.parse(message.data);
    if (fresh > 0) player.take(events.slice(Math.max(0, events.length - fresh)));
  };
  for (const name of ["about", "place"]) {
    own.addEventListener(name, (message) => isStale() || player.hear(name, JSON.parse(message.data)));
  }
  own.addEventListener("done", (message) => {
    if (isStale()) return;
    const end = JSON.parse(message.data);
    player.hear("done", end);
    if (end.message) player.hear("gone", end); // why it failed, in the reader's language: shown as a refusal is
    close();
  });
  own.onerror = async () => {
    if (isStale()) return;
    if (own.readyState !== EventSource.CLOSED) {
      player.hear("lost");
      return;
    }
    close();
    const message = await refusal(url); // an EventSource does not show a refusal's words
    if (player.runId === runId) player.hear("gone", { message });
  };
}

async function refusal(url) {
  try {
    const answer = await fetch(url);
    if (!answer.ok) return await answer.text();
    await answer.body?.cancel(); // a whole stream, which nobody reads
    return "";
  } catch {
    return "";
  }
}
