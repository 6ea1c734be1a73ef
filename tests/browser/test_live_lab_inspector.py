"""The live lab's inspector in a real browser: every number is the trace's, and no coin is shown that was not thrown."""

import re

import pytest
from playwright.sync_api import Page, expect
from shared_pages import SharedPages
from stage_page import mounted
from toy_race import TOYS, of, toy_race

from engine import Inspected, Sampled, Verified
from lessons.words import load

pytestmark = pytest.mark.browser

ALL = ("race", "inspector", "ribbon", "caches", "ledger")
T = load("live_lab", "en")

PICK_ALL = """async (selector) => {
  const found = [];
  for (const node of document.querySelectorAll(selector)) {
    node.click();
    await settled();
    const one = (name) => {
      const data = document.querySelector(`.inspector-${name}`);
      return data ? Number(data.value) : null;
    };
    const rows = [...document.querySelectorAll(".inspector-rows li")].map((row) => ({
      isSubject: row.classList.contains("is-subject"),
      figures: Object.fromEntries([...row.querySelectorAll("data")].map((one) => [one.className, Number(one.value)])),
    }));
    const { round, draft, index } = node.dataset;
    found.push({ round: Number(round), draft: Number(draft), index: Number(index),
      p: one("p"), q: one("q"), u: one("u"), chance: one("chance"), residual: one("residual"),
      verdict: document.querySelector(".inspector-verdict").textContent, rows });
  }
  return found;
}"""


def inspected(shared: SharedPages, name: str, language: str = "en") -> Page:
    """A page with a race and the inspector, opened once for all tests that pick what they look at."""
    return shared.page(
        f"{name} {language}", lambda page, _: mounted(page, toy_race(TOYS[name]), ["race", "inspector"], language)
    )


@pytest.mark.parametrize("name", ["sampled", "lookup"])
def test_every_draft_s_numbers_are_the_trace_s(shared: SharedPages, name: str) -> None:
    events, page = toy_race(TOYS[name]), inspected(shared, name)
    verified = {event.round: event for event in of(events, Verified)}
    picked = page.evaluate(PICK_ALL, ".race-speculative .race-token:not([data-draft='-1'])")
    assert len(picked) == sum(len(event.token_ids) for event in verified.values())
    for item in picked:
        event, at = verified[item["round"]], item["draft"]
        assert item["q"] == event.q[at]
        assert item["p"] == event.p[at]
        assert item["u"] == event.u[at]
        if event.u[at] is not None:
            assert item["chance"] == pytest.approx(min(1, event.p[at] / event.q[at]))
            kept = item["u"] < item["chance"]
            assert kept == (event.verdicts[at] == "accepted")
            assert item["verdict"].startswith("Kept" if kept else "Refused")
        else:
            assert item["verdict"].startswith("Never looked at")


def test_the_bars_are_the_trace_s_laws_and_hold_the_token(shared: SharedPages) -> None:
    events, page = toy_race(TOYS["sampled"]), inspected(shared, "sampled")
    laws = {(event.round, event.position): event for event in of(events, Inspected)}
    picked = page.evaluate(PICK_ALL, ".race-speculative .fate-resampled")
    assert picked
    for item in picked:
        round_tokens = [event.index for event in of(events, Sampled) if event.round == item["round"]]
        law = laws[item["round"], round_tokens.index(item["index"])]
        assert 0 < len(item["rows"]) <= 10
        assert sum(row["isSubject"] for row in item["rows"]) == 1
        for row in item["rows"]:
            for kind in ("p", "q", "residual"):
                assert row["figures"][f"inspector-law-{kind}"] in getattr(law, kind)
        subject = next(row for row in item["rows"] if row["isSubject"])
        assert item["residual"] == subject["figures"]["inspector-law-residual"] > 0


def test_at_temperature_zero_no_coin_is_shown(shared: SharedPages) -> None:
    page = inspected(shared, "greedy")
    for item in page.evaluate(PICK_ALL, ".race-speculative .race-token:not([data-draft='-1'])"):
        assert item["u"] is item["chance"] is None
        rejected = "argmax differs" in item["verdict"]
        assert rejected or "most probable" in item["verdict"] or "Never looked at" in item["verdict"]
    assert page.locator(".inspector-bar").count() == 0


def test_a_point_mass_has_a_one_hot_q(shared: SharedPages) -> None:
    page = inspected(shared, "lookup")
    picked = page.evaluate(PICK_ALL, ".race-speculative .race-ghost.is-rejected")
    assert picked
    for item in picked:
        assert "point mass" in item["verdict"]
        assert {row["figures"]["inspector-law-q"] for row in item["rows"]} == {0, 1}
        assert next(row for row in item["rows"] if row["isSubject"])["figures"]["inspector-law-q"] == 1


def test_the_way_to_the_proof_takes_the_laws_along(page: Page) -> None:
    mounted(
        page, toy_race(TOYS["sampled"]), ["race", "inspector"], options={"inspector": {"proof": "lesson=acceptance"}}
    )
    link = page.locator(".inspector-why a")
    expect(link).to_have_text(T("stage.inspector.why"))
    query = page.evaluate("Object.fromEntries(new URL(document.querySelector('.inspector-why a').href).searchParams)")
    assert query["lesson"] == "acceptance"
    for law in ("p", "q"):
        entries = [float(entry) for entry in query[law].split(", ")]
        assert len(entries) == 8
        assert sum(entries) == pytest.approx(1, abs=1e-3)


def test_with_nothing_picked_a_doubtful_refusal_is_shown_and_marked(page: Page) -> None:
    mounted(page, toy_race(TOYS["sampled"]), ALL)
    expect(page.locator(".inspector-verdict")).to_contain_text("Refused")
    expect(page.locator(".race-ghost.is-picked")).to_have_count(1)
    expect(page.locator(".ribbon-round.is-picked")).to_have_count(1)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_at_temperature_zero_nothing_is_said_to_be_drawn(shared: SharedPages, language: str) -> None:
    t, page = load("live_lab", language), inspected(shared, "greedy", language)
    page.locator(".race-vanilla .race-token").first.click()
    verdict = page.locator(".inspector-verdict")
    expect(verdict).to_have_text(t("stage.verdict.first.greedy"))
    page.locator(".race-speculative .race-ghost.is-rejected").first.click()
    expect(verdict).to_contain_text("p = 0")
    expect(verdict).to_contain_text("q = 1")
    assert page.locator(".inspector-bar").count() == 0


WATCH_A_REPLAY = """async () => {
  player.restart();
  const seen = [];
  while (player.isPlaying) {
    await new Promise(requestAnimationFrame);
    const rounds = player.state.requests.speculative?.rounds ?? [];
    const where = document.querySelector(".inspector-where")?.textContent;
    seen.push([rounds.at(-1)?.round ?? -1, where ? Number(/round (\\d+)/.exec(where)[1]) : -1]);
  }
  return seen;
}"""


def test_a_token_is_shown_when_the_replay_reaches_it_and_not_before(page: Page) -> None:
    mounted(page, toy_race(TOYS["sampled"]), ["inspector"])
    expect(page.locator(".inspector-where")).to_contain_text("round")
    seen = page.evaluate(WATCH_A_REPLAY)
    assert seen[0][1] == -1, "the panel is empty while the columns are"
    assert all(shown <= latest for latest, shown in seen)
    assert any(shown > 0 for _, shown in seen), "and opens on the way"


def test_on_a_narrow_screen_the_panel_comes_up_over_the_page(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    mounted(page, toy_race(TOYS["sampled"]), ["race", "ribbon", "ledger", "inspector"])
    page.wait_for_function("[...document.querySelectorAll('link')].every((link) => link.sheet)")
    panel, is_lifted = page.locator(".stage-inspector"), re.compile("is-lifted")
    assert panel.bounding_box()["y"] > 844
    page.locator(".race-speculative .race-token").nth(3).click()
    expect(panel).to_have_class(is_lifted)
    for part in (panel, page.locator(".inspector-verdict")):
        box = part.bounding_box()
        assert 0 < box["y"] < box["y"] + min(box["height"], 60) <= 844
    token = page.locator(".race-token.is-picked").bounding_box()
    assert token["y"] + token["height"] <= panel.bounding_box()["y"]
    page.get_by_role("button", name=T("stage.inspector.close")).click()
    expect(panel).not_to_have_class(is_lifted)
    assert panel.bounding_box()["y"] > 844
