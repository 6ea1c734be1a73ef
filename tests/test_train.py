"""Training drafters: what is kept, what is computed again, and that an interrupted training ends as any does."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from engine import EngineError
from engine.bench.prompts import KINDS
from engine.bench.suite import SUITE, TUNING
from engine.model import Model
from engine.train import answers as store
from engine.train import features, prompts
from engine.train.__main__ import main
from engine.train.answers import Answers, is_held_out
from engine.train.data import TEMPERATURE, questions
from engine.train.eagle import Aims, EagleHead
from engine.train.features import Lesson, Teacher
from engine.train.heads import draft_vocabulary
from engine.train.loop import Plan, examine, mean_accepted_length, train
from engine.train.shipped_text import paragraphs
from engine.train.thin_prompts import thin_prompt
from engine.train.words import Words
from tests.toys import VOCAB_SIZE, toy_model, toy_pupil

MEASURED = {prompt for suite in (KINDS, SUITE, TUNING) for prompts in suite.values() for prompt in prompts}


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(toy_model(), "float32")


def some_answers(sha256: str, num: int = 9) -> Answers:
    """Random sequences of 6 to 14 tokens, a third of each the prompt."""
    chance = np.random.default_rng(0)
    lengths = chance.integers(6, 15, num).astype(np.uint16)
    token_ids = chance.integers(0, VOCAB_SIZE, lengths.sum()).astype(np.uint16)
    kinds = np.zeros(num, np.uint8)
    return Answers(sha256, token_ids, lengths, (lengths // 3).astype(np.uint16), kinds, np.zeros(num, np.float32))


@pytest.fixture
def lessons(model: Model) -> list[Lesson]:
    answers = some_answers(model.sha256, 24)
    teacher = Teacher(model, 15)
    return [teacher.teach(answers.sequence(i).tolist(), int(answers.num_prompt[i])) for i in range(len(answers))]


# ---- prompts and answers --------------------------------------------------------------------------------------------


def test_prompts_are_many_different_and_none_is_measured_on() -> None:
    own = prompts.own_prompts()
    assert len(own) > 2_000
    assert len(set(own)) == len(own)
    assert own == prompts.own_prompts()
    assert not set(own) & MEASURED


def test_prompts_of_thin_kinds_take_turns_and_none_is_measured_on() -> None:
    passages = [
        "The river is deep and cold. It runs past the old mill on every day of the year.",
        "Plants make food from light, water and air. All of this happens in their green leaves.",
        "Bread is baked at night.",
    ]
    made = [thin_prompt(passages, number) for number in range(3_000)]
    assert made == [thin_prompt(passages, number) for number in range(3_000)]
    assert len(set(made)) > 1_000
    assert not set(made) & MEASURED
    assert not any("{" in prompt for prompt in made)
    assert {sum("一" <= letter <= "龥" for letter in prompt) > 3 for prompt in made[2::6]} == {True}  # Chinese
    assert any(prompt.endswith("It runs past the old mill on every day of the year.") for prompt in made[0::6])
    assert thin_prompt(["", "?", "!"], 1)  # answers without a word that could be asked about


def test_shipped_text_is_prose_of_some_length() -> None:
    found = paragraphs()
    assert len(found) > 100
    assert all(40 <= len(text.split()) <= 130 and text.endswith(".") for text in found)
    assert not set(found) & MEASURED


def test_questions_come_from_all_sources_and_are_the_same_each_time(model: Model) -> None:
    spoken = SimpleNamespace(tokenizer=SimpleNamespace(decode=lambda ids: f"The answer was {len(ids)} tokens long."))
    done = some_answers(model.sha256)
    made = questions(done, spoken, 100, 40)
    assert made == questions(done, spoken, 100, 40)
    assert Counter(one.source for one in made) == {"own": 8, "model": 8, "thin": 16, "passage": 4, "python": 4}
    assert {one.temperature for one in made} == {0.0, TEMPERATURE}
    assert all(one.text for one in made if one.source != "model")


def test_answers_come_back_as_they_were_saved(tmp_path: Path) -> None:
    answers = some_answers("a" * 64)
    store.save(answers, tmp_path / "answers.npz")
    found = store.load(tmp_path / "answers.npz")
    assert found.sha256 == answers.sha256
    assert [found.sequence(i).tolist() for i in range(9)] == [answers.sequence(i).tolist() for i in range(9)]
    assert found.num_answer_tokens == sum(len(answers.answer(i)) for i in range(9))
    assert [path.name for path in tmp_path.iterdir()] == ["answers.npz"]


def test_what_holds_no_answers_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.npz"
    store.save(some_answers("a" * 64), path)
    whole = path.read_bytes()
    for broken in (b"", whole[: len(whole) // 2], b"words"):
        path.write_bytes(broken)
        with pytest.raises(EngineError) as caught:
            store.load(path)
        assert caught.value.code == "bad_answers"


def test_answers_of_two_models_do_not_mix() -> None:
    with pytest.raises(EngineError) as caught:
        some_answers("a" * 64).with_more(some_answers("b" * 64))
    assert caught.value.code == "other_weights"


def test_more_answers_hold_out_the_same_ones() -> None:
    assert [index for index in range(60) if is_held_out(index)] == [20, 41]


# ---- features -------------------------------------------------------------------------------------------------------


def test_shards_are_computed_once_and_hold_what_the_target_says(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(features, "default_store", lambda: tmp_path)
    monkeypatch.setattr(features, "SHARD", 4)
    answers = some_answers(model.sha256)
    assert [round(share, 2) for share in features.make_shards(answers, model)] == [0.33, 0.67, 1.0]
    written = {path: path.stat().st_mtime_ns for path in features.folder(answers).iterdir()}
    (first := min(written)).unlink()
    list(features.make_shards(answers, model))
    again = {path: path.stat().st_mtime_ns for path in features.folder(answers).iterdir()}
    assert again.keys() == written.keys()
    assert [path for path in again if again[path] != written[path]] == [first]
    direct = Teacher(model, 15).teach(answers.sequence(5).tolist(), int(answers.num_prompt[5]))
    stored = features.read_shard(answers, 1)[1]
    assert stored.num_prompt == direct.num_prompt
    for name in ("token_ids", "features", "top_ids", "top_probs"):
        assert torch.equal(getattr(stored, name), getattr(direct, name))


def test_a_lesson_has_laws_from_the_last_prompt_token_on(lessons: list[Lesson]) -> None:
    lesson = lessons[0]
    assert not lesson.top_probs[: lesson.num_prompt - 1].any()
    assert torch.allclose(lesson.top_probs[lesson.num_prompt - 1 :].float().sum(1), torch.ones(1), atol=2e-3)


# ---- learning -------------------------------------------------------------------------------------------------------


def learned(pupil: EagleHead) -> list[torch.Tensor]:
    return [value.detach().clone() for value in pupil.parameters()]


@pytest.mark.parametrize("aims", [Aims(), Aims(steps=3, feature_weight=0.0), Aims(is_shifted=False)])
def test_a_head_learns(model: Model, lessons: list[Lesson], aims: Aims, tmp_path: Path) -> None:
    pupil = toy_pupil(model, (4,))
    pupil.aims = aims
    plan = Plan(passes=60, size=8, rate=3e-3, warmup=5)
    before = examine(pupil, lessons, 2)[0]
    done = train(pupil, lessons, plan, tmp_path / "toy.pt")
    assert (done["step"], done["tokens"]) == (180, 60 * sum(len(x.token_ids) - x.num_prompt + 1 for x in lessons))
    assert examine(pupil, lessons, 2)[0] > before + 0.1


def test_an_interrupted_training_ends_as_a_whole_one(
    model: Model, lessons: list[Lesson], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(passes=3, size=8, warmup=2)
    whole = toy_pupil(model, (4,))
    train(whole, lessons, plan, tmp_path / "whole.pt")

    class Interrupted(Exception):
        pass

    part, calls = toy_pupil(model, (4,)), []
    kept_loss = part.loss

    def loss(batch):
        calls.append(1)
        if len(calls) == 5:
            raise Interrupted
        return kept_loss(batch)

    part.loss = loss
    monkeypatch.setattr("engine.train.loop.SECONDS_BETWEEN_SAVES", 0.0)
    with pytest.raises(Interrupted):
        train(part, lessons, plan, tmp_path / "part.pt")
    resumed = toy_pupil(model, (4,))
    train(resumed, lessons, plan, tmp_path / "part.pt")
    assert all(torch.equal(one, other) for one, other in zip(learned(whole), learned(resumed), strict=True))


def test_chains_are_examined_along_what_the_target_prefers() -> None:
    """Worked by hand: the target prefers 1 2 3 4 after each token of 0 1 2 3; the pupil errs at row 2 of step 0."""
    ids = torch.tensor([0, 1, 2, 3])
    top_ids = torch.zeros(4, features.TOP, dtype=torch.int32)
    top_ids[:, 0] = torch.tensor([1, 2, 3, 4])
    lesson = Lesson(ids, 1, torch.zeros(4, 2), top_ids, torch.full((4, features.TOP), 1 / 32).half())

    class Pupil:
        words = Words(10, torch.arange(10), torch.zeros(10, 2))

        def unroll(self, batch, steps):
            return [torch.tensor([[1, 2, 9, 4]]), torch.tensor([[9, 2, 3, 9]])][:steps]

    # Step 0: 3 of 4 right. Chains begun at rows 0 and 1 go on at rows 1 and 2, both right; the one of row 3 has ended.
    assert examine(Pupil(), [lesson], 2) == pytest.approx([3 / 4, 1.0])
    assert mean_accepted_length([0.5, 0.5]) == pytest.approx(1 + 0.5 + 0.25)


def test_the_draft_vocabulary_is_what_answers_need_most(lessons: list[Lesson]) -> None:
    ids = draft_vocabulary(lessons, VOCAB_SIZE, 5)
    mass = torch.zeros(VOCAB_SIZE)
    for lesson in lessons:
        for token in lesson.token_ids[lesson.num_prompt :].tolist():
            mass[token] += 1
        for row, probs in zip(lesson.top_ids.tolist(), lesson.top_probs.tolist(), strict=True):
            for token, prob in zip(row, probs, strict=True):
                mass[token] += prob
    assert ids.tolist() == sorted(mass.argsort(descending=True)[:5].tolist())


# ---- the command line -----------------------------------------------------------------------------------------------


def test_steps_are_listed_and_an_unknown_one_is_named(capsys: pytest.CaptureFixture) -> None:
    assert main([]) == 0
    assert "eagle3" in capsys.readouterr().out
    assert main(["eagle9"]) == 2
    assert "There is no 'eagle9'" in capsys.readouterr().err
