"""The browser's fold (assets/fold.js) equals Python's at every event of made-up, engine-made and recorded runs."""

import json
import random
import shutil
from pathlib import Path

import pytest
from block_world import World, random_act
from page_watch import Watch
from playwright.sync_api import sync_playwright

from engine import trace
from engine.request import Request, SamplingParams
from engine.state import State, plain
from tests.toys import toy_engine

ASSETS = Path(__file__).parent.parent / "assets"
RECORDED = sorted((ASSETS / "traces").glob("*.jsonl.gz"))
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
CHUNK = 500  # events whose views travel together
PARTS = ("step", "clock", "tables", "ref_counts")

SET_UP = """async (source) => {
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    window.fold = await import(address);
    window.events = [];
}"""
# What one event can have changed: the small parts of the state, and the ends of the lists that only grow.
VIEWS = """([first, last, parts]) => {
    if (first === 0) window.state = window.fold.emptyState();
    const views = [];
    for (const event of window.events.slice(first, last)) {
        window.fold.apply(window.state, event);
        const view = Object.fromEntries(parts.map((name) => [name, window.state[name]]));
        view.sizes = [window.state.hashes, window.state.filled, window.state.order].map((m) => Object.keys(m).length);
        const request = window.state.requests[event.request_id];
        if (request) {
            const { submitted, token_ids, text, tokens, rounds, ...small } = request;
            view.sizes.push(token_ids.length, tokens.length, rounds.length, text.length);
            view.request = { ...small, token_ids: token_ids.slice(-1), tokens: tokens.slice(-1) };
            view.request.rounds = rounds.slice(-1);
        }
        views.push(JSON.stringify(view));
    }
    return views;
}"""
WHOLE = "(cursor) => JSON.stringify(window.fold.fold(window.events, cursor))"


@pytest.fixture(scope="module")
def page():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        watch = Watch()
        page = watch.follow(browser.new_page())
        page.route("**/*", lambda route: route.abort() if route.request.url.startswith("http") else route.continue_())
        page.set_content("<title>fold</title>")
        page.evaluate(SET_UP, (ASSETS / "fold.js").read_text(encoding="utf-8"))
        yield page
        browser.close()
        watch.check()


def view_of(state, event):
    """The same view as in VIEWS."""
    view = {name: plain(getattr(state, name)) for name in PARTS}
    view["sizes"] = [len(state.hashes), len(state.filled), len(state.order)]
    request = state.requests.get(getattr(event, "request_id", None))
    if request:
        text_units = len(request.text.encode("utf-16-le", "surrogatepass")) // 2
        view["sizes"] += [len(request.token_ids), len(request.tokens), len(request.rounds), text_units]
        small = ("status", "prompt_length", "cache_length", "draft_cache_length", "num_reused", "num_passes", "clock")
        view["request"] = {name: getattr(request, name) for name in small} | {"finished": plain(request.finished)}
        view["request"] |= {name: plain(getattr(request, name)[-1:]) for name in ("token_ids", "tokens", "rounds")}
    return view


def assert_same_fold(page, events):
    """Compares a view after every event, and the whole state at forty of them and at the end."""
    page.evaluate("() => { window.events = []; }")
    for first in range(0, len(events), CHUNK):
        lines = json.dumps([trace.encode(event) for event in events[first : first + CHUNK]])
        page.evaluate("(lines) => { window.events.push(...JSON.parse(lines)); }", lines)
    state = State()
    whole = set(range(0, len(events), max(1, len(events) // 40))) | {len(events)}
    for first in range(0, len(events), CHUNK):
        views = page.evaluate(VIEWS, [first, first + CHUNK, list(PARTS)])
        for cursor, (event, view) in enumerate(zip(events[first : first + CHUNK], views, strict=True), start=first):
            if cursor in whole:
                assert json.loads(page.evaluate(WHOLE, cursor)) == state.as_dict()
            trace.apply(state, event)
            assert json.loads(view) == view_of(state, event), f"after event {cursor}: {event!r}"
    assert json.loads(page.evaluate(WHOLE, len(events))) == state.as_dict() == trace.fold(events).as_dict()


def test_the_fold_touches_neither_page_nor_network():
    source = (ASSETS / "fold.js").read_text(encoding="utf-8")
    for word in ("document", "window", "globalThis", "fetch", "import "):
        assert word not in source.replace("no network", "")


@pytest.mark.browser
@pytest.mark.parametrize(("num_blocks", "block_size"), [(14, 4), (40, 3)])
def test_the_two_folds_agree_on_random_operations_of_the_block_pool(page, num_blocks, block_size):
    world, dice = World(num_blocks, block_size), random.Random(block_size)
    for _ in range(800):
        random_act(world, dice)
    assert_same_fold(page, world.events)


@pytest.mark.browser
def test_the_two_folds_agree_on_runs_of_an_engine(page):
    engine = toy_engine(num_blocks=48, watch={"distributions"})
    params = SamplingParams(max_new_tokens=20, temperature=0.8, seed=3)
    requests = [
        Request([1, 2, 3, 1, 2, 4, 1, 2, 3], params, "ngram", n=2, id="7"),  # a name that is a number
        Request([1, 2, 3, 1, 2, 4, 1, 2, 5], params, "tree", id="__proto__"),  # and one that JavaScript uses itself
        Request([5, 6], params, id="constructor"),
    ]
    events = []
    for event in engine.run(requests):
        events.append(event)
        if type(event).__name__ == "RoundFinished" and event.request_id == "constructor" and event.round == 4:
            engine.fork("constructor", 4)
    events += engine.run([Request([1, 2, 3, 1, 2, 4, 1, 2, 3], params, "tree", id="warm")])  # finds the first's blocks
    kinds = {type(event).__name__ for event in events}
    assert kinds >= {"Submitted", "Verified", "Inspected", "BlockShared", "BlockHit", "BlockCopied", "Finished"}
    assert_same_fold(page, events)


@pytest.mark.browser
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_the_two_folds_agree_on_every_recorded_run(page, path):
    assert_same_fold(page, trace.load(path))


@pytest.mark.browser
def test_a_type_of_event_that_the_page_does_not_know_changes_only_step_and_clock(page):
    unknown = [{"type": "Guessed", "step": 3, "clock": 0.5, "request_id": "a"}, {"type": "toString", "step": 4}]
    script = "(events) => { window.events = events; return JSON.stringify(window.fold.fold(events)); }"
    state = json.loads(page.evaluate(script, unknown))
    assert state["step"] == 4
    assert (state["order"], state["tables"]) == ([], {})
