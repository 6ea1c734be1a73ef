"""The live lab without a browser: what is raced, what is said of a race, and the words of it all."""

import dataclasses
import re
from html import unescape
from pathlib import Path
from unittest import mock

import gradio as gr
import pytest
from fake_engine import FakeEngine
from odd_races import NONSENSE, spoilt, stopped
from toy_race import Costs, Toy, toy_race

from engine import EngineError, Request, RoundFinished, SamplingParams
from engine import events as told
from lessons import asking, live, live_lab, live_lab_controls, live_lab_figures
from lessons.frame import Slider, reconcile
from lessons.live_lab_account import RaceAccount, race_account
from lessons.live_lab_prompts import PRESETS, Preset, preset
from lessons.live_lab_proof import LINES
from lessons.live_lab_race import Settings, is_ours, preset_of, race, raced, remarks, settings_of
from lessons.proof import Line, is_checked
from lessons.runs import origin, recorded, recorded_run
from lessons.words import LANGUAGES, load
from lessons.worker import Worker

ASSETS = Path(__file__).parent.parent / "assets"
STAGES = ("race", "ribbon", "inspector", "ledger", "caches", "presets")
T = load("live_lab", "en")


def account_of(**toy: object) -> RaceAccount:
    return race_account(toy_race(Toy(**toy)))


# ---- what is said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "worst"),
    [(Costs(draft=0.05), "draft"), (Costs(draft=0.0002, verify=0.2), "verify")],
)
def test_the_term_that_lost_is_named(costs: Costs, worst: str) -> None:
    account = account_of(costs=costs, sharpness=0.95)
    assert account.measured < 1
    assert account.explained.worst == worst
    assert T(f"conclusion.lost.{worst}", measured=account.measured, cured=account.explained.cured[worst]) in (
        live_lab_figures.conclusion(T, account)
    )


def test_a_useless_draft_loses_by_acceptance() -> None:
    account = account_of(sharpness=0.0, draft_length=8, costs=Costs(draft=0.002, verify=0.026))
    assert account.measured < 1
    assert account.explained.worst == "acceptance"


@pytest.mark.parametrize("measured", [0.996, 1.0, 1.004])
def test_half_a_percent_is_no_difference(measured: float) -> None:
    account = dataclasses.replace(account_of(), measured=measured)
    even = T("conclusion.even", saved=account.passes_saved)
    assert even in live_lab_figures.conclusion(T, account)
    assert even not in live_lab_figures.conclusion(T, dataclasses.replace(account, measured=measured + 0.01))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_conclusion_can_be_said(language: str) -> None:
    t = load("live_lab", language)
    fast = account_of(costs=Costs(draft=0.0001, verify=0.026), sharpness=0.95)
    assert fast.measured > 1
    assert live_lab_figures.conclusion(t, fast)
    for worst in ("acceptance", "draft", "verify", "other"):
        explained = dataclasses.replace(fast.explained, worst=worst)
        lost = dataclasses.replace(fast, measured=0.5, explained=explained)
        assert "0.50" in live_lab_figures.conclusion(t, lost)


def test_two_greedy_texts_that_differ_are_called_wrong() -> None:
    account = dataclasses.replace(account_of(temperature=0.0), differs_at=4)
    assert live_lab_figures.identity(T, account) == T("conclusion.wrong", index=5)
    assert live_lab_figures.identity(T, dataclasses.replace(account, differs_at=-1)).startswith("Identical: yes")
    sampled_texts = account_of()
    assert live_lab_figures.identity(T, sampled_texts) == T("conclusion.differ", index=sampled_texts.differs_at + 1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_stopped_race_is_identical_so_far(language: str) -> None:
    t = load("live_lab", language)
    account = race_account(stopped(toy_race(Toy(temperature=0.0)), 9))
    assert live_lab_figures.identity(t, account) == t("conclusion.sofar", length=9)


@pytest.mark.parametrize("change", NONSENSE, ids=str)
def test_of_a_file_full_of_nonsense_the_page_says_that_there_is_nothing_to_compare(change: dict) -> None:
    with mock.patch.object(live, "find", return_value=recorded(spoilt(toy_race(), change))):
        found = live_lab_figures.findings(T, "any", {"acceptance": 0.5, "speedup": 1.0})
    assert T("run.nothing") in found.text
    assert found.ladder is found.positions is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_error_that_ended_a_run_is_said_with_its_values_and_escaped_once(language: str) -> None:
    t, run = load("live_lab", language), recorded(toy_race())
    run.end("bad_parameter", EngineError("bad_parameter", "", name="<b>top_p"))
    with mock.patch.object(live, "find", return_value=run):
        text = live_lab_figures.failure(t, run.id)
    assert "<b>" not in text
    assert "<b>top_p" in unescape(text)
    run.end("never_fits", EngineError("never_fits", "", tokens=912, slots=64))
    with mock.patch.object(live, "find", return_value=run):
        text = live_lab_figures.failure(t, run.id)
    assert "912" in text
    assert "64" in text


@pytest.mark.parametrize("language", LANGUAGES)
def test_remarks_have_nothing_that_html_would_read(language: str) -> None:
    t = load("live_lab", language)
    texts = [*t.group("remark.").values(), t("run.nothing"), t("stage.race.empty")]
    assert not any(set("<>&") & set(text) for text in texts)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_holds_guesses_only_where_there_are_some(language: str) -> None:
    t, account = load("live_lab", language), account_of()
    bare = live_lab_figures.reconcile_rows(t, account, {}, "recorded")
    full = live_lab_figures.reconcile_rows(t, account, {"acceptance": 0.4, "speedup": 2.0}, "measured")
    assert (len(bare), len(full)) == (4, 6)
    assert all(row.measured_kind == "recorded" for row in bare)
    assert reconcile(t, full).count("<tr>") == 7


def test_charts_are_pure_and_show_the_account() -> None:
    account = account_of()
    ladder, positions = live_lab_figures.ladder_plot(T, account), live_lab_figures.positions_plot(T, account)
    assert list(ladder.data[0].y) == [account.textbook, account.with_verify, account.predicted, account.measured]
    assert list(positions.data[0].x) == [1, 2, 3, 4]
    assert list(positions.data[0].y) == pytest.approx([a / n for a, n in account.by_position])
    assert live_lab_figures.ladder_plot(T, account) == ladder


def test_the_label_of_a_line_stands_beside_the_bars() -> None:
    account = account_of()
    for chart in (live_lab_figures.ladder_plot(T, account), live_lab_figures.positions_plot(T, account)):
        (label,) = chart.layout.annotations
        assert (label.x, label.xref.split()[-1], label.xanchor) == (1, "domain", "left")
        assert chart.layout.margin.r > 60


def test_device_and_date_of_a_run_are_known() -> None:
    assert origin(toy_race()) == "a made-up machine, 2026-11-30"
    assert origin([]) == ""


# ---- what is raced -----------------------------------------------------------------------------------------------


def test_vanilla_is_the_same_request_without_drafts() -> None:
    vanilla, speculative = race(Settings(seed=7, top_p=0.9, temperature=1.2, draft_length=5))
    assert (vanilla.id, speculative.id) == ("vanilla", "speculative")
    assert (vanilla.params.draft_length, vanilla.drafter) == (0, None)
    assert (speculative.params.draft_length, speculative.drafter) == (5, PRESETS[0].drafter)
    for name in ("seed", "top_p", "temperature", "max_new_tokens"):
        assert getattr(vanilla.params, name) == getattr(speculative.params, name)
    assert vanilla.prompt == speculative.prompt
    assert vanilla.cache_salt != speculative.cache_salt


@pytest.mark.parametrize(("text", "temperature"), [("same", None), ("0", 0.0), ("1.5", 1.5)])
def test_the_draft_s_temperature_is_its_own_or_the_target_s(text: str, temperature: float | None) -> None:
    assert race(Settings(draft_temperature=text))[1].params.draft_temperature == temperature


@pytest.mark.parametrize(("is_chat", "prompt_format"), [(True, "chat"), (False, "plain")])
def test_the_chat_template_can_be_switched_off(is_chat: bool, prompt_format: str) -> None:
    assert {request.prompt_format for request in race(Settings(is_chat=is_chat))} == {prompt_format}


@pytest.mark.parametrize(
    "change", [{"temperature": -1}, {"top_p": 2}, {"draft_length": 99}, {"rule": "magic"}, {"seed": 2**70}]
)
def test_values_that_cannot_be_are_refused_with_a_code(change: dict) -> None:
    with pytest.raises(EngineError) as refusal:
        race(dataclasses.replace(Settings(), **change))
    assert refusal.value.code == "bad_parameter"


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        ({"prompt": " "}, "data-of='prompt'"),
        ({"prompt": "word " * 20_000}, "data-of='prompt'"),
        ({"seed": 2**70}, "data-of='seed'"),
        ({"prompt": "Hi"}, "role='alert'"),  # there is no model: no setting is to blame
    ],
    ids=["empty", "long", "seed", "no model"],
)
def test_a_refusal_says_which_setting_must_be_changed(change: dict, blamed: str) -> None:
    with mock.patch.object(asking, "warn") as toast, mock.patch.object(live, "_worker", Worker(None)):
        _, refusal, remark = live_lab.started(T, dataclasses.replace(Settings(), **change))
    assert blamed in refusal
    assert ("data-of" in refusal) == ("data-of" in blamed)
    assert not remark
    toast.assert_called_once()


def test_every_setting_has_the_name_that_the_engine_refuses_it_by() -> None:
    names = dict(zip(live_lab_controls.LINKED, live_lab_controls.REFUSED_AS, strict=True))
    assert names["n"] in asking.subject(EngineError("never_fits", ""))
    assert names["prompt"] == asking.subject(EngineError("prompt_over_limit", ""))
    assert names["drafter"] == asking.subject(EngineError("drafter_failed", ""))
    known = {field.name for kind in (SamplingParams, Request) for field in dataclasses.fields(kind)}
    assert set(names.values()) - known == {"mode"}


def test_a_negative_seed_is_as_good_as_any() -> None:
    assert {request.params.seed for request in race(Settings(seed=-5))} == {-5}


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"prompt": " \n"}, "remark.empty"),
        ({"draft_length": 0}, "remark.no_drafts"),
        ({"length": 1}, "remark.one"),
        ({"drafter": "ngram", "draft_temperature": "0.6"}, "remark.lookup"),
        ({"temperature": 0.0, "rule": "typical"}, "remark.greedy"),
        ({"rule": "typical"}, "remark.lossy"),
        ({"top_p": 0.0}, "remark.top_p"),
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_reader_is_told_beforehand(change: dict, key: str, language: str) -> None:
    t = load("live_lab", language)
    assert t(key) in remarks(t, dataclasses.replace(Settings(), **change))


def test_a_draft_longer_than_the_text_is_remarked_on_and_ordinary_settings_are_not() -> None:
    assert remarks(T, Settings(length=4, draft_length=8)) == [T("remark.short", k=8, most=3)]
    assert not remarks(T, Settings())


def test_a_run_is_one_of_the_lab_if_two_race_in_it_and_nobody_else() -> None:
    events = toy_race()
    assert is_ours(events)
    assert not is_ours([event for event in events if getattr(event, "request_id", "") != "vanilla"])
    assert not is_ours(live.events(live.replay("drafters")))


def test_a_recorded_race_is_fair() -> None:
    """Whoever has used less of its own time goes next: the two clocks stay within one round of each other."""
    clocks = {"vanilla": 0.0, "speculative": 0.0}
    ended: set[str] = set()
    for event in raced(FakeEngine(), Settings(length=40)):
        if isinstance(event, RoundFinished):
            assert ended or clocks[event.request_id] == min(clocks.values())
            clocks[event.request_id] = event.request_clock
        if isinstance(event, told.Finished):
            ended.add(event.request_id)
    assert ended == set(clocks)


# ---- links -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def controls() -> list[gr.components.Component]:
    with gr.Blocks():
        return live_lab_controls.place(T)


@pytest.mark.parametrize("item", PRESETS, ids=lambda item: item.name)
def test_a_link_to_a_preset_s_settings_is_known_as_the_preset(item: Preset, controls: list) -> None:
    values = dataclasses.astuple(settings_of(item))
    query = {name: str(value) for name, value in zip(live_lab_controls.LINKED, values, strict=True)}
    query["chat"] = "true"
    assert preset_of(live_lab_controls.settings_in(query, controls)) is item
    assert preset_of(live_lab_controls.settings_in(query | {"seed": "7"}, controls)) is None


def test_a_link_without_settings_sets_none_and_one_with_nonsense_the_first(controls: list) -> None:
    assert live_lab_controls.settings_in({"lesson": "live_lab"}, controls) is None
    assert live_lab_controls.settings_in({"k": "many"}, controls) == Settings()
    assert live_lab_controls.settings_in({"k": "7"}, controls) == Settings(draft_length=7)
    assert live_lab_controls.settings_in({"k": "7", "seed": "-3"}, controls) == Settings(draft_length=7, seed=-3)
    for odd in ({"seed": "1e999"}, {"seed": "1e300"}, {"seed": str(10**22)}, {"t": "nan"}, {"n": "2.5"}):
        assert live_lab_controls.settings_in({"k": "7"} | odd, controls) == Settings(draft_length=7)


@pytest.mark.parametrize(("typed", "counted"), [(None, 4), (99, 16), (-4, 0), (float("nan"), 4), ("x", 4), (7, 7)])
def test_a_slider_s_field_counts_as_the_nearest_value_while_it_is_typed_in(typed: object, counted: int) -> None:
    with gr.Blocks():
        slider = Slider(0, 16, 4, step=1, label="K")
    assert slider.preprocess(typed) == counted
    assert slider.get_block_name() == "slider"


@pytest.mark.parametrize("odd", [{"prompt": None}, {"mode": None}, {"draft_temperature": []}, {"mode": "x"}])
def test_settings_that_no_page_sends_count_as_not_set(odd: dict[str, object]) -> None:
    settings = Settings(**odd)
    assert len(race(dataclasses.replace(settings, prompt="Hi"))) == 2
    assert settings.mode == "race"


# ---- presets, words, derivations ---------------------------------------------------------------------------------


def test_every_preset_has_words_settings_that_can_be_and_a_demo() -> None:
    names = [item.name for item in PRESETS]
    assert len(set(names)) == len(names)
    for item in PRESETS:
        assert f"stage.preset.{item.name}" in T
        assert f"stage.preset.{item.name}.proves" in T
        assert race(settings_of(item))[1].drafter == item.drafter
        assert hasattr(live_lab, "demo" if item is PRESETS[0] else f"demo_{item.name}")
    assert preset("no such") is PRESETS[0]


@pytest.mark.parametrize("item", PRESETS, ids=lambda item: item.name)
def test_what_is_recorded_is_what_the_preset_says(item: object) -> None:
    run = recorded_run("live_lab" if item is PRESETS[0] else f"live_lab.{item.name}")
    assert run is not None
    submitted = next(event for event in run.events if isinstance(event, told.Submitted) and event.draft_length)
    assert (submitted.drafter, submitted.draft_length) == (item.drafter, item.draft_length)
    assert (submitted.temperature, submitted.max_new_tokens) == (item.temperature, item.length)
    account = race_account(run.events)
    assert account.measured > 0
    if item.temperature == 0:
        assert account.differs_at == -1, "greedy speculation must give the greedy text"


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_that_a_stage_asks_for_is_written(name: str, language: str) -> None:
    words = load("live_lab", language).group("stage.")
    sources = [ASSETS / "stages" / f"{name}.js", *ASSETS.glob(f"{name}_*.js")]
    text = "".join(path.read_text(encoding="utf-8") for path in sources)
    literal = set(re.findall(r'words\["([a-z0-9_.]+)"\]', text))
    begun = set(re.findall(r"words\[`([a-z0-9_.]*)\$\{", text)) - {""}
    assert literal <= words.keys()
    assert all(any(key.startswith(start) for key in words) for start in begun)


def test_every_line_of_the_derivation_is_proved_and_a_wrong_one_is_not() -> None:
    assert [line.key for line in LINES if not is_checked(line)] == ["vanilla", "speculative"]  # definitions
    left, right = LINES[3].sides(2)[0]
    assert not is_checked(Line("wrong", "", lambda _: [(left, right + 1)]))
    for language in LANGUAGES:
        t = load("live_lab", language)
        assert all(t(f"derive.{line.key}") for line in LINES)
