"""The live lab's stages in a real browser, from made-up runs: nothing lost, nothing invented, nothing executed."""

import dataclasses

import pytest
from playwright.sync_api import Page, expect
from stage_page import mounted, seek
from toy_language import PIECES, STRANGE
from toy_race import Costs, Toy, toy_race

from engine import Drafted, Event, Inspected, RoundFinished, Sampled, Submitted, Verified, fold
from lessons.live_lab_account import race_account
from lessons.words import load

pytestmark = pytest.mark.browser

LANES = ("vanilla", "speculative")
ALL = ("race", "inspector", "ribbon", "caches", "ledger")
TOYS = {
    "sampled": Toy(seed=3),
    "greedy": Toy(seed=4, temperature=0.0),
    "lookup": Toy(seed=4, is_point_mass=True, drafter="ngram", costs=Costs(draft=0.0002)),
    "wide": Toy(seed=5, draft_length=16, num_tokens=40),
}
T = load("live_lab", "en")


@pytest.fixture(params=TOYS)
def events(request: pytest.FixtureRequest) -> list[Event]:
    return toy_race(TOYS[request.param])


def of(events: list[Event], kind: type[Event], name: str = "speculative") -> list:
    return [event for event in events if isinstance(event, kind) and event.request_id == name]


def texts(page: Page, selector: str) -> list[str]:
    return page.evaluate(f"[...document.querySelectorAll('{selector}')].map((node) => node.textContent)")


# ---- the race ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", LANES)
def test_every_output_token_is_there_once_with_its_fate(page: Page, events: list[Event], lane: str) -> None:
    mounted(page, events, ["race"])
    shown = page.evaluate(
        """(lane) => [...document.querySelectorAll(`.race-${lane} .race-token:not([data-index="-1"])`)].map((node) =>
             [Number(node.dataset.index), [...node.classList].find((name) => name.startsWith("fate-"))])""",
        lane,
    )
    assert shown == [[event.index, f"fate-{event.fate}"] for event in of(events, Sampled, lane)]


def test_every_draft_that_died_is_a_ghost_where_it_died(page: Page, events: list[Event]) -> None:
    mounted(page, events, ["race"])
    ghosts = page.evaluate(
        """[...document.querySelectorAll(".race-ghost")].map((node) => [Number(node.dataset.round),
             Number(node.dataset.draft), [...node.classList].find((name) => name.startsWith("is-")),
             Number(node.parentNode.querySelector(".fate-resampled")?.dataset.round)])"""
    )
    expected = [
        [event.round, at, f"is-{verdict}", event.round]
        for event in of(events, Verified)
        for verdict_wanted in ("rejected", "unreached")
        for at, verdict in enumerate(event.verdicts)
        if verdict == verdict_wanted
    ]
    assert ghosts == expected


@pytest.mark.parametrize("lane", LANES)
def test_without_ghosts_and_glyphs_a_lane_reads_as_the_text(page: Page, events: list[Event], lane: str) -> None:
    mounted(page, events, ["race"])
    read = page.evaluate(
        """(lane) => {
             const copy = document.querySelector(`.race-${lane} .race-text`).cloneNode(true);
             copy.querySelectorAll(".race-ghost, .glyph").forEach((node) => node.remove());
             return copy.textContent;
           }""",
        lane,
    )
    text = "".join(event.label for event in of(events, Sampled, lane))
    assert read == text.replace("\t", "").replace("\u202e", "")  # both have a glyph in their place


def test_html_of_a_model_or_a_reader_is_text_and_nothing_else(page: Page) -> None:
    nasty = "<img src=x onerror=document.title='hacked'><script>document.title='hacked'</script>"

    def spoiled(event: Event) -> Event:
        names = {field.name for field in dataclasses.fields(event)}
        changes = {"piece": nasty, "label": nasty} if "piece" in names else {}
        if "pieces" in names:
            changes["pieces"] = (nasty,) * len(event.pieces)
        return dataclasses.replace(event, **changes)

    mounted(page, [spoiled(event) for event in toy_race()], ALL)
    assert page.locator("main img, main script").count() == 0
    assert page.title() == "stages"
    assert nasty in page.locator(".race-vanilla .race-token").first.text_content()
    assert nasty in page.locator(".inspector-token").text_content()


def test_what_cannot_be_seen_has_a_glyph(page: Page) -> None:
    shown = page.evaluate(
        """async (texts) => {
             const { spell } = await import(`${location.origin}/glyphs.js`);
             return texts.map((text) => spell(text).map((run) => run.text).join(""));
           }""",
        ["a\nb", "\t", "  ", " the", "\u202e", "\u0000", "\u200b", "⟨F0⟩", "天", "👩\u200d🚀"],
    ) if mounted(page, toy_race(), []) else []  # fmt: skip
    assert shown == ["a↵b", "⇥", "␣␣", " the", "⟨U+202E⟩", "␀", "⟨U+200B⟩", "⟨F0⟩", "天", "👩\u200d🚀"]
    assert set(STRANGE) < set(PIECES)


def test_a_draft_waits_until_it_is_verified(page: Page) -> None:
    events = toy_race(TOYS["sampled"])
    mounted(page, events, ["race"])
    at = next(i for i, event in enumerate(events) if isinstance(event, Drafted) and event.round == 3)
    seek(page, at + 1)
    waiting = page.locator(".race-pending")
    expect(waiting).to_have_count(len(events[at].token_ids))
    assert [text.strip() for text in waiting.all_text_contents()] == [piece.strip() for piece in events[at].pieces]
    seek(page, len(events))
    expect(waiting).to_have_count(0)


def test_going_back_and_forth_draws_what_a_fresh_page_draws(page: Page, events: list[Event]) -> None:
    """The picture at a cursor depends on the cursor alone: scrubbing equals the fold."""
    mounted(page, events, ["race", "ribbon", "caches", "ledger"])
    page.evaluate("window.drawn = () => [...document.querySelectorAll('.race-text')].map((node) => node.innerHTML)")
    cursors = [*range(0, len(events) + 1, 37), len(events)]
    forward = []
    for cursor in cursors:
        seek(page, cursor)
        forward.append(page.evaluate("drawn()"))
    for cursor, picture in reversed(list(zip(cursors, forward, strict=True))):
        seek(page, cursor)
        assert page.evaluate("drawn()") == picture, cursor
        state = fold(events[:cursor])
        for lane in LANES:
            tokens = state.requests[lane].tokens if lane in state.requests else ()
            shown = page.locator(f".race-{lane} .race-token:not([data-index='-1'])")
            assert shown.count() == len(tokens), (cursor, lane)


def test_new_tokens_are_appended_and_old_ones_left_alone(page: Page) -> None:
    events = toy_race(TOYS["sampled"])
    mounted(page, events, ["race"])
    seek(page, len(events) // 2)
    page.evaluate("document.querySelectorAll('.race-round').forEach((node, at) => { node.dataset.mark = at; })")
    marked = page.locator(".race-round[data-mark]").count()
    seek(page, len(events))
    assert page.locator(".race-round[data-mark]").count() >= marked - 1  # the round in progress may be drawn anew
    assert page.locator(".race-round").count() > marked


def test_ghosts_can_be_hidden(page: Page) -> None:
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-ghost").first).to_be_visible()
    page.get_by_role("button", name=T("stage.race.ghosts"), exact=True).last.click()
    expect(page.locator(".race-ghost").first).to_be_hidden()


def test_arrow_keys_go_from_token_to_token_and_tab_finds_one_per_lane(page: Page) -> None:
    mounted(page, toy_race(), ["race", "inspector"])
    assert page.locator(".race-text [tabindex='0']").count() == 2
    first = page.locator(".race-speculative .race-token").first
    first.focus()
    for key, at in (("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("End", -1), ("Home", 0)):
        page.keyboard.press(key)
        token = page.locator(".race-speculative .race-token").nth(at)
        expect(token).to_be_focused()
        expect(token).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    below = page.evaluate("document.activeElement.getBoundingClientRect().top")
    assert below > first.bounding_box()["y"] + 10


# ---- the inspector -----------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("name", ["sampled", "lookup"])
def test_every_draft_s_numbers_are_the_trace_s(page: Page, name: str) -> None:
    events = toy_race(TOYS[name])
    mounted(page, events, ["race", "inspector"])
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


def test_the_bars_are_the_trace_s_laws_and_hold_the_token(page: Page) -> None:
    events = toy_race(TOYS["sampled"])
    mounted(page, events, ["race", "inspector"])
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


def test_at_temperature_zero_no_coin_is_shown(page: Page) -> None:
    events = toy_race(TOYS["greedy"])
    mounted(page, events, ["race", "inspector"])
    for item in page.evaluate(PICK_ALL, ".race-speculative .race-token:not([data-draft='-1'])"):
        assert item["u"] is item["chance"] is None
        rejected = "argmax differs" in item["verdict"]
        assert rejected or "most probable" in item["verdict"] or "Never looked at" in item["verdict"]
    assert page.locator(".inspector-bar").count() == 0


def test_a_point_mass_has_a_one_hot_q(page: Page) -> None:
    mounted(page, toy_race(TOYS["lookup"]), ["race", "inspector"])
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


# ---- ribbon, caches, ledger --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lane", LANES)
def test_the_ribbon_has_every_round_with_what_it_kept_and_lost(page: Page, events: list[Event], lane: str) -> None:
    mounted(page, events, ["ribbon"])
    shown = page.evaluate(
        """(lane) => [...document.querySelectorAll(`.ribbon-${lane} .ribbon-round`)].map((round) =>
             ["kept", "lost"].map((part) => round.querySelector(`.ribbon-${part}`).childElementCount))""",
        lane,
    )
    kept = {bill.round: 0 for bill in of(events, RoundFinished, lane)}
    for event in of(events, Sampled, lane):
        kept[event.round] += 1
    lost = {event.round: len(event.verdicts) - event.num_accepted for event in of(events, Verified, lane)}
    assert shown == [[number, lost.get(name, 0)] for name, number in kept.items()]


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


def test_caches_and_tables_are_as_they_were(page: Page, events: list[Event]) -> None:
    mounted(page, events, ["caches"])
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


def test_the_ledger_s_arithmetic_is_python_s_at_every_moment(page: Page, events: list[Event]) -> None:
    mounted(page, events, ["ledger"])
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


def test_the_ledger_says_what_lost_and_whether_the_texts_are_the_same(page: Page) -> None:
    mounted(page, toy_race(TOYS["greedy"]), ["ledger"])
    expect(page.locator(".ledger-reason")).to_contain_text("too dear")
    expect(page.locator(".ledger-identity")).to_have_text("Identical: yes, all 64 tokens.")


def test_texts_above_temperature_zero_may_differ(page: Page) -> None:
    mounted(page, toy_race(TOYS["sampled"]), ["ledger"])
    expect(page.locator(".ledger-identity")).to_have_text(T("stage.ledger.identity.law"))


# ---- the tour ----------------------------------------------------------------------------------------------------


def test_the_tour_runs_once_and_can_be_dismissed(page: Page) -> None:
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-step")).to_have_text("1 of 6")
    page.get_by_role("button", name="next").click()
    page.get_by_role("button", name="next").click()
    expect(page.locator("#race")).to_have_attribute("data-spotlight", "accepted")
    page.get_by_role("button", name="skip the tour").click()
    expect(page.locator(".race-tour")).to_be_hidden()
    mounted(page, toy_race(), ["race"])
    expect(page.locator(".race-tour")).to_be_hidden()
    page.get_by_role("button", name="tour", exact=True).click()
    expect(page.locator(".race-tour")).to_be_visible()


def test_a_spotlight_dims_all_other_fates(page: Page) -> None:
    mounted(page, toy_race(TOYS["sampled"]), ["race"])
    page.get_by_role("button", name="bonus").click()
    opacity = "(node) => Number(getComputedStyle(node).opacity)"
    page.wait_for_timeout(400)
    assert page.locator(".race-text .fate-bonus").first.evaluate(opacity) == 1
    assert page.locator(".race-text .fate-accepted").first.evaluate(opacity) < 0.5


def test_another_run_starts_from_nothing(page: Page) -> None:
    first, second = toy_race(TOYS["sampled"]), toy_race(TOYS["greedy"])
    mounted(page, first, ALL)
    picked = page.locator(".race-ghost").first
    picked.click()
    mounted(page, second, ALL)
    assert page.locator(".race-speculative .race-token:not([data-index='-1'])").count() == len(of(second, Sampled))
    assert len(of(second, Submitted)) == 1
