"""A bare page with stages on it, drawn from a list of events; for tests of the browser's part without server or Gradio.

Knows nothing of what the stages show. Files come from assets/ by interception; nothing else can be reached.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route

from engine import Event, encode
from lessons.words import load

ASSETS = Path(__file__).parent.parent / "assets"
TYPES = {".js": "text/javascript", ".css": "text/css"}
ADDRESS = "http://localhost/"
STYLES = "".join(f'<link rel="stylesheet" href="{name}.css">' for name in ("palette", "app", "parts"))

MOUNT = """async ({events, names, words, language, options, mode}) => {
  const { playerFor } = await import(`${location.origin}/player.js`);
  const player = window.player = playerFor("test");
  player.clear();
  player.runId = "made-up";
  player.hear("about", { id: "made-up", mode, recorded: true });
  player.take(events);
  player.hear("done", { ending: "finished" });
  window.told = [];
  for (const name of names) {
    const style = document.createElement("link");
    Object.assign(style, { rel: "stylesheet", href: `/stages/${name}.css` });
    const styled = new Promise((done) => { style.onload = style.onerror = done; });  // not every stage has a style
    document.head.append(style);
    await styled;
    const module = await import(`${location.origin}/stages/${name}.js`);
    const element = document.createElement("div");
    element.className = `stage stage-${name}`;
    element.id = name;
    document.querySelector("main").append(element);
    const trigger = (kind, data) => window.told.push([kind, data]);
    module.mount(element, { words, options: options[name] ?? {}, player, trigger, language });
  }
  await settled();
}"""
SHOW = """async ([name, words]) => {
  const module = await import(`${location.origin}/stages/${name}.js`);
  const element = document.createElement("div");
  element.id = name;
  document.querySelector("main").append(element);
  module.mount(element, { words, options: {}, player, language: "en", trigger() {} });
  await settled();
}"""
SETTLED = "window.settled = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"


def _serve(route: Route) -> None:
    path = ASSETS / urlsplit(route.request.url).path.removeprefix("/")
    if path.is_file():
        route.fulfill(path=path, content_type=TYPES.get(path.suffix, "text/plain"))
    else:
        title = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>stages</title>{STYLES}"
        route.fulfill(body=f"{title}<script>{SETTLED}</script><main></main>", content_type="text/html; charset=utf-8")


def mounted(
    page: Page,
    events: Sequence[Event],
    names: Sequence[str],
    language: str = "en",
    options: dict[str, dict] | None = None,
    lesson: str = "live_lab",
    mode: str = "race",
) -> Page:
    """The page with these stages on one player, which shows the events as a finished recorded race."""
    page.route("**/*", _serve)
    page.goto(ADDRESS)
    page.evaluate(
        MOUNT,
        {
            "events": json.loads(json.dumps([encode(event) for event in events])),
            "names": list(names),
            "words": load(lesson, language).group("stage."),
            "language": language,
            "options": options or {},
            "mode": mode,
        },
    )
    return page


def seek(page: Page, cursor: int) -> None:
    """Put the cursor after so many events and wait until it is drawn."""
    page.evaluate("async (cursor) => { player.seek(cursor); await settled(); }", cursor)


def shown(page: Page, name: str, lesson: str = "live_lab") -> None:
    """One more stage on the page, on the same player as it is now."""
    page.evaluate(SHOW, [name, load(lesson, "en").group("stage.")])
