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
  const player = unfinished.at(-1);
  if (player) listen(player, player.runId);
}

function listen(player, runId) {
  const url = address(`stream/${encodeURIComponent(runId)}`);
  url.searchParams.set("from", player.events.length);
  url.searchParams.set("lang", window.inferencePage?.language ?? "en");
  const own = new EventSource(url);
  source = own;
  const isStale = () => source !== own || player.runId !== runId;
  const close = () => {
    own.close();
    drop(player);
    open();
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
    player.hear("done", JSON.parse(message.data));
    close();
  });
  own.onerror = async () => {
    if (isStale()) return;
    if (own.readyState !== EventSource.CLOSED) {
      player.hear("lost");
      return;
    }
    close();
    player.hear("gone", { message: await sentence(url) }); // an EventSource does not show a refusal's words
  };
}

async function sentence(url) {
  try {
    const answer = await fetch(url);
    return answer.ok ? "" : await answer.text();
  } catch {
    return "";
  }
}
