"""The harness of drafters: definitions by hand, who is chosen, others beside us, and the record that it writes."""

import json

import pytest

from engine import Request, SamplingParams, drafter_card
from engine.bench import drafters
from engine.bench.drafters import VANILLA, Race, against_others, best_by_category, chosen, digests_of, mean_speed_up
from engine.bench.tally import Tally, run
from engine.events import Drafted, RoundFinished, Sampled, Verified
from tests.toys import toy_engine

PROMPTS = {"one": ["a", "bc"], "two": ["def"]}


@pytest.fixture
def engine():
    engine = toy_engine()
    engine.tokenizer.chat = lambda text: [1, 2, 3, 1, 2, len(text)]
    return engine


def test_a_tally_counts_what_the_events_say(engine) -> None:
    request = Request([1, 2, 3, 1, 2], SamplingParams(20, draft_length=3), "layer_skip")
    tally, events = Tally(), list(toy_engine().run([request]))
    run(engine, request, tally)
    drafted = [token for event in events if isinstance(event, Drafted) for token in event.token_ids]
    later = [event for event in events if isinstance(event, RoundFinished) and event.round]
    verified = [event for event in events if isinstance(event, Verified)]
    assert tally.num_tokens == len([event for event in events if isinstance(event, Sampled)]) == len(tally.texts[0])
    assert (tally.num_rounds, tally.num_round_tokens) == (len(later), tally.num_tokens - 1)
    assert tally.num_drafted == len(drafted) > 10
    assert tally.num_accepted == sum(event.verdicts.count("accepted") for event in verified) == sum(tally.right)
    assert tally.asked[0] == len(verified)


def test_figures_are_ratios_to_plain_decoding_in_the_same_repeat() -> None:
    plain = Tally(seconds=[2.0, 4.0, 3.0], whole_seconds=[4.0] * 3, num_tokens=10, texts=[(1, 2)])
    texts = {"num_rounds": 4, "num_round_tokens": 9, "num_drafted": 8, "num_accepted": 5, "seconds_draft": 0.8}
    other = Tally(seconds=[1.0, 2.0, 3.0], whole_seconds=[2.0] * 3, num_tokens=10, texts=[(1, 2)], **texts)
    found = other.figures(plain, True)
    assert (found["speed_up"], found["lowest"], found["highest"]) == (2.0, 1.0, 2.0)
    assert (found["tau"], found["draft_acceptance_rate"], found["is_identical"]) == (2.25, 0.625, True)
    assert found["draft_cost"] == pytest.approx(0.8 / 8 / 0.3)  # a plain step takes 3.0 / 10 seconds
    assert found["whole_call_tokens_per_second"] == 5.0
    assert other.whole_figures(plain) == {
        "speed_up": 2.0, "lowest": 2.0, "highest": 2.0, "whole_call_tokens_per_second": 5.0,
    }  # fmt: skip


def test_times_of_passes_are_medians_of_equally_many_rows() -> None:
    plain, other = Tally(passes={1: [1.0, 2.0, 9.0]}), Tally(passes={1: [2.0] * 10, 3: [3.0] * 11, 4: [9.0] * 9})
    assert other.times_of_passes(plain) == {"1": 1.0, "3": 1.5}
    assert other.times_of_passes(Tally()) == {}


def test_a_pass_has_a_row_for_the_known_token_and_for_each_draft(engine) -> None:
    request = Request([1, 2, 3, 1, 2], SamplingParams(20, draft_length=3), "layer_skip")
    tally = Tally()
    run(engine, request, tally)
    assert sum(map(len, tally.passes.values())) == tally.num_rounds
    assert sum((rows - 1) * len(seconds) for rows, seconds in tally.passes.items()) == tally.num_drafted
    assert max(tally.passes) == 4


def test_drafting_of_a_round_is_told_in_plain_steps_without_the_round_that_reads_the_prompt(engine) -> None:
    plain, other = Tally(rounds=[2.0, 1.0, 4.0]), Tally(drafting=[0.2, 0.9, 0.1])
    assert other.draft_round_cost(plain) == pytest.approx(0.1)
    assert Tally().draft_round_cost(plain) is None
    request, tally = Request([1, 2, 3, 1, 2], SamplingParams(20, draft_length=3), "layer_skip"), Tally()
    for _ in range(2):
        run(engine, request, tally)
    assert len(tally.rounds) == tally.num_rounds
    assert len(tally.drafting) == sum(len(seconds) for rows, seconds in tally.passes.items() if rows > 1) - 2


def test_a_record_names_the_files_that_were_measured() -> None:
    head, table = (drafter_card(name)["file_sha256"] for name in ("eagle3", "ngram_table"))
    assert digests_of("eagle3:chain") == {"eagle3": head}
    assert digests_of("eagle3:lookup") == {"eagle3": head, "ngram_table": table}
    assert digests_of("eagle2") == {"eagle": drafter_card("eagle")["file_sha256"]}
    assert digests_of("triforce:64") == digests_of("draft_lm")
    assert digests_of("ngram") == {}


def timed(**seconds: float) -> dict:
    return {(name, int(name != "none")): Tally([s], [s], num_tokens=12) for name, s in seconds.items()}


def test_lengths_and_modes_are_chosen_by_speed() -> None:
    tallies = {"one": timed(none=4.0, a=2.0, b=1.0), "two": timed(none=1.0, a=2.0, b=8.0)}
    for kinds in tallies.values():
        kinds["a", 2] = Tally([1.0], [1.0], num_tokens=12)
    assert mean_speed_up(tallies, ("a", 1)) == pytest.approx(1.0)
    assert chosen(tallies, ["a", "b"]) == [("a", 2), ("b", 1)]
    assert best_by_category(tallies, [("a", 1), ("b", 1)]) == {"one": ("b", 1), "two": VANILLA}
    for kinds, rates in zip(tallies.values(), ((2.0, 3.0), (0.5, 0.25)), strict=True):
        kinds["peer", 0], kinds["slow peer", 0] = (Tally([s], [s], num_tokens=12) for s in rates)
    found = against_others(tallies, {"one": ("b", 1), "two": VANILLA}, ["peer", "slow peer"])
    assert found == {"one": {"fastest": "peer", "ratio": 2.0}, "two": {"fastest": "slow peer", "ratio": 0.25}}


def test_everybody_takes_part_in_every_repeat_and_greedy_texts_are_the_same(engine) -> None:
    calls = []

    def peer(prompt: list[int], num_new: int) -> tuple[int, float]:
        calls.append((tuple(prompt), num_new))
        return 5, 0.5

    tallies = Race(engine, SamplingParams(9), {"peer": peer}).run([("layer_skip", 2), ("ngram", 3)], PROMPTS, 2)
    assert len(calls) == 6
    for category, kinds in tallies.items():
        assert {len(tally.seconds) for tally in kinds.values()} == {2}
        assert kinds["layer_skip", 2].texts == kinds["ngram", 3].texts == kinds[VANILLA].texts
        assert kinds["peer", 0].num_tokens == 5 * len(PROMPTS[category])
        assert all(own <= whole for own, whole in zip(
            kinds["ngram", 3].seconds, kinds["ngram", 3].whole_seconds, strict=True))  # fmt: skip


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_the_command_writes_one_record(engine, monkeypatch, tmp_path, capsys, temperature) -> None:
    monkeypatch.setattr(drafters, "Engine", lambda config: engine)
    monkeypatch.setattr(drafters, "TUNING", PROMPTS)
    monkeypatch.setattr(drafters, "SUITE", PROMPTS)
    monkeypatch.setattr(drafters, "_peers", lambda options: {"transformers x": lambda prompt, num_new: (num_new, 1e9)})
    out = tmp_path / "drafters.json"
    options = ["--drafters", "ngram", "layer_skip", "--repeats", "2", "--num-new", "6", "--out", str(out)]
    assert drafters.main([*options, "--temperature", str(temperature)]) == 0
    written = json.loads(out.read_text(encoding="utf-8"))
    assert [name.split()[0] for name in written["drafters"]] == ["ngram", "layer_skip"]
    for kinds in written["drafters"].values():
        assert set(kinds) == {"overall", "one", "two"}
        assert kinds["one"]["is_identical"] is (True if temperature == 0 else None)
    assert set(written["best_modes"]["by_category"]) == set(PROMPTS)
    assert all(one["ratio"] > 1e6 for one in written["best_modes"]["against transformers"].values())
    assert set(written["others"]) == {"transformers x"}
    assert written["weights_sha256"] == {}
    assert "× plain decoding" in capsys.readouterr().out
