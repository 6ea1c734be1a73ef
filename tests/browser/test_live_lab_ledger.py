"""The live lab's ribbon, caches and ledger in a real browser: rounds, tables as they were, Python's arithmetic."""

import pytest
from odd_races import in_chunks, stopped
from playwright.sync_api import Page, expect
from shared_pages import SharedPages
from stage_page import mounted, seek
from toy_race import TOYS, of, toy_race

from engine import Event, RoundFinished, Sampled, Verified, fold
from lessons.live_lab_account import race_account
from lessons.words import load

pytestmark = pytest.mark.browser

LANES = ("vanilla", "speculative")
ALL = ("race", "inspector", "ribbon", "caches", "ledger")
T = load("live_lab", "en")


RACES = {name: toy_race(toy) for name, toy in TOYS.items()} | {"chunks": in_chunks(toy_race(TOYS["sampled"]))}
IDENTITY = """async () => (await import(`${location.origin}/account.js`)).account(player.state).identity"""


def race_page(shared: SharedPages, name: str) -> Page:
    """A page with a race at its end, opened once for all tests that leave it there."""
    return shared.page(name, lambda page, _: mounted(page, RACES[name], ["ribbon", "caches", "ledger"]))


@pytest.fixture(params=RACES)
def race(request: pytest.FixtureRequest, shared: SharedPages) -> tuple[Page, list[Event]]:
    """Each race's page, and its events."""
    return race_page(shared, request.param), RACES[request.param]


def texts(page: Page, selector: str) -> list[str]:
    return page.evaluate(f"[...document.querySelectorAll('{selector}')].map((node) => node.textContent)")


@pytest.mark.parametrize("lane", LANES)
def test_the_ribbon_has_every_round_with_what_it_kept_and_lost(race: tuple[Page, list[Event]], lane: str) -> None:
    page, events = race
    shown = page.evaluate(
        """(lane) => [...document.querySelectorAll(`.ribbon-${lane} .ribbon-round`)].map((round) =>
             ["kept", "lost"].map((part) => round.querySelector(`.ribbon-${part}`).childElementCount))""",
        lane,
    )
    bills = of(events, RoundFinished, lane)
    kept = {bill.round: 0 for bill in bills}
    for event in of(events, Sampled, lane):
        kept[event.round] += 1
    lost = {event.round: len(event.verdicts) - event.num_accepted for event in of(events, Verified, lane)}
    parts = [[0, 0]] * (len(bills) - len(kept))  # of a prompt, before the one that gives a token
    assert shown == parts + [[number, lost.get(name, 0)] for name, number in kept.items()]


def test_a_click_on_a_round_goes_there_and_keys_go_on(page: Page) -> None:
    events = toy_race(TOYS["sampled"])
    mounted(page, events, ALL)
    bills = [(at, event) for at, event in enumerate(events) if isinstance(event, RoundFinished)]
    at, bill = [item for item in bills if item[1].request_id == "speculative"][6]
    page.locator(".ribbon-speculative .ribbon-round").nth(6).click()
    assert page.evaluate("player.cursor") == at + 1
    expect(page.locator(".ribbon-speculative .ribbon-round.is-ahead")).to_have_count(
        sum(item[1].request_id == "speculative" for item in bills) - 7
    )
    expect(page.locator(".race-speculative .race-round")).to_have_count(7)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".race-speculative .race-round")).to_have_count(8)
    expect(page.locator(".inspector-where")).to_contain_text(f"round {bill.round + 1}")


def test_caches_and_tables_are_as_they_were(race: tuple[Page, list[Event]]) -> None:
    page, events = race
    for cursor in range(20, len(events), 61):
        seek(page, cursor)
        state = fold(events[:cursor])
        for lane in LANES:
            table = [str(block) for block in state.tables.get(lane, ())]
            assert texts(page, f".caches-{lane} .caches-table li") == table, (cursor, lane)
            request = state.requests[lane]
            if table:
                assert f"{request.cache_length} of them" in texts(page, f".caches-{lane} .caches-lengths")[0]
    seek(page, len(events))
    assert page.locator(".caches-table li").count() == 0


def test_the_ledger_s_arithmetic_is_python_s_at_every_moment(race: tuple[Page, list[Event]]) -> None:
    page, events = race
    for cursor in [*range(30, len(events), 83), len(events)]:
        own = page.evaluate(
            """async (cursor) => {
                 const { account } = await import(`${location.origin}/account.js`);
                 return account(player.stateAt(cursor));
               }""",
            cursor,
        )
        account = race_account(events[:cursor])
        if account is None or own["speedup"] is None:
            assert account is None
            assert own["speedup"] is None
            continue
        assert own["rounds"]["tau"] == pytest.approx(account.tau)
        assert own["rounds"]["saved"] == account.passes_saved
        positions = [(place["accepted"], place["lookedAt"]) for place in own["rounds"]["positions"]]
        assert positions == list(account.by_position)
        assert (own["vanilla"]["ttft"], own["speculative"]["tpot"]) == pytest.approx(
            (account.vanilla.ttft, account.speculative.tpot)
        )
        assert own["costs"]["verifyRatio"] == pytest.approx(account.verify_ratio)
        for name in ("measured", "predicted", "textbook", "expected"):
            assert own["speedup"][name] == pytest.approx(getattr(account, name)), name
        assert own["speedup"]["cured"] == pytest.approx(account.explained.cured)
        assert own["speedup"]["worst"] == account.explained.worst
        assert own["identity"]["differsAt"] == account.differs_at
        assert own["costs"]["c"] == pytest.approx(account.c)


def test_the_ledger_says_what_lost_and_whether_the_texts_are_the_same(shared: SharedPages) -> None:
    page = race_page(shared, "greedy")
    expect(page.locator(".ledger-reason")).to_contain_text("too dear")
    expect(page.locator(".ledger-identity")).to_have_text("Identical: yes, all 64 tokens.")


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_a_stopped_race_is_identical_so_far_in_python_and_on_the_page(page: Page, reason: str) -> None:
    events = stopped(toy_race(TOYS["greedy"]), 9, reason)
    mounted(page, events, ["ledger"])
    expect(page.locator(".ledger-identity")).to_have_text(T("stage.ledger.identity.sofar", length=9))
    account = race_account(events)
    own = page.evaluate(IDENTITY)
    assert (own["differsAt"], own["areFinished"], own["length"]) == (account.differs_at, account.are_finished, 9)


def test_texts_above_temperature_zero_may_differ(shared: SharedPages) -> None:
    page = race_page(shared, "sampled")
    expect(page.locator(".ledger-identity")).to_have_text(T("stage.ledger.identity.law"))
