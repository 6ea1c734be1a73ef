"""The lab on SmolLM2-135M, from the worker that loads it to the words on the page: what the engine gives is shown."""

import dataclasses
from collections.abc import Iterator, Sequence
from unittest import mock

import pytest
from playwright.sync_api import Page, expect
from sample_app import served, wait_for

import app
from engine import Drafted, Engine, Event, Finished, Prefilled, Sampled, Submitted, Verified
from engine.weights import LoadedModel
from lessons import live, page
from lessons.live_lab_prompts import preset
from lessons.live_lab_race import Settings, race
from lessons.words import load

pytestmark = [pytest.mark.browser, pytest.mark.model, pytest.mark.slow]

T = load("live_lab", "en")
ENGINE = {"model": "smollm2-135m", "dtype": "float32"}
NUM_TOKENS = 24
DRAFTS = 4
PATIENCE = 120  # seconds: 270 MB are read, converted and packed, and somebody else may be using the processor
TOLD = (Submitted, Prefilled, Drafted, Verified, Sampled, Finished)
OWN = {"step", "clock", "seconds"}  # when something happened differs from run to run, what happened does not


@pytest.fixture(scope="module")
def url(smollm2: LoadedModel) -> Iterator[str]:
    """Address of the lab with the worker as app.py starts it; `smollm2` sees to it that the weights are there."""
    with mock.patch.object(page, "CHAPTERS", (("speculation", ("live_lab",)),)):
        application = app.build(ENGINE["model"])
    live.start(ENGINE)
    with served(application) as address:
        wait_for(lambda: live.status().state in ("ready", "failed"), PATIENCE)
        assert live.status().state == "ready", live.status()
        yield address
    live.start_with(None)


def facts(events: Sequence[Event]) -> list[tuple[str, dict[str, object]]]:
    """What was told of one request, in order, without its times."""
    found = []
    for event in events:
        if isinstance(event, TOLD):
            values = {field.name: getattr(event, field.name) for field in dataclasses.fields(event)}
            found.append((type(event).__name__, {key: value for key, value in values.items() if key not in OWN}))
    return found


def test_a_greedy_race_with_prompt_lookup_shows_what_the_engine_gives(
    page: Page, url: str, smollm2: LoadedModel
) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.add_init_script("localStorage.setItem('inference-reader', JSON.stringify({'live_lab.tour': true}))")
    page.goto(f"{url}/?lesson=live_lab&n={NUM_TOKENS}&k={DRAFTS}&t=0", wait_until="commit")
    expect(page.locator(".race-outcome")).to_have_text(T("stage.race.empty"))
    prompt = preset("copy").prompt
    page.get_by_label(T("control.prompt"), exact=True).fill(prompt)
    page.get_by_label(T("control.drafter"), exact=True).click()
    page.get_by_role("option", name=T("drafter.ngram"), exact=True).click()
    page.locator("#lab-run").click()
    expect(page.locator(".transport-state")).to_have_text("Ran just now on this machine", timeout=PATIENCE * 1000)

    ran = live.events(page.evaluate("window.inferencePage.playerFor('live_lab').runId"))
    settings = Settings(prompt=prompt, drafter="ngram", draft_length=DRAFTS, temperature=0.0, length=NUM_TOKENS)
    engine = Engine(live.configure(ENGINE), smollm2)
    for request in race(settings):  # each alone, without the lab's turns
        told = facts([event for event in ran if getattr(event, "request_id", "") == request.id])
        assert told == facts(list(engine.run([request]))), request.id

    identical = T("stage.ledger.identity.yes", length=NUM_TOKENS)
    assert identical == "Identical: yes, all 24 tokens."
    expect(page.locator("#lab-ledger")).to_contain_text(identical)
    expect(page.locator("#lab-sentence")).to_contain_text(identical)
    for lane in ("vanilla", "speculative"):
        fates = [event.fate for event in ran if isinstance(event, Sampled) and event.request_id == lane]
        assert set(fates) - {"resampled", "bonus"} == ({"target"} if lane == "vanilla" else {"target", "accepted"})
        assert lane == "speculative" or len(set(fates)) == 1
        tokens = page.locator(f".race-{lane} .race-token:not([data-index='-1'])")
        expect(tokens).to_have_count(NUM_TOKENS)
        for fate in set(fates):
            shown = page.locator(f".race-{lane} .race-token.fate-{fate}:not([data-index='-1'])")
            expect(shown).to_have_count(fates.count(fate))
