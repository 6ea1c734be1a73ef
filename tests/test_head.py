"""Trained heads: the engine's arithmetic against training's own, on a toy; files; what a head that fits not is told."""

import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine import Engine, EngineConfig, EngineError, Request, SamplingParams
from engine.draft_lm import LmShape
from engine.drafters.eagle import EagleDrafter
from engine.events import Drafted, Sampled, Verified
from engine.head import SHIPPED, Head, HeadShape, read
from engine.medusa import MedusaShape
from engine.train import heads
from engine.train.eagle import Aims
from engine.train.features import TOP
from engine.train.loop import Class
from lessons.live_lab_controls import DRAFTERS
from tests.toys import toy_engine, toy_head, toy_pupil

LAYERS = {"eagle": (4,), "eagle3": (1, 2, 4), "unshifted": (4,)}
PROMPT = [1, 2, 3, 1, 2, 7, 4]


def class_of(features: torch.Tensor, token_ids: list[int]) -> Class:
    """A batch of one sequence, with nothing to learn."""
    rows = (1, len(token_ids))
    nothing = torch.zeros(*rows, TOP)
    ids = torch.tensor([token_ids])
    return Class(ids, features[None], nothing.long(), nothing, torch.ones(rows, dtype=torch.bool))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("length", [1, 2, 5])
def test_the_engine_drafts_what_the_head_in_training_would(name: str, length: int) -> None:
    """An independent implementation: whole sequences in PyTorch with training-time test, against cached slots."""
    engine = toy_engine()
    pupil = toy_pupil(engine.model, LAYERS[name])
    pupil.aims = Aims(is_shifted=name != "unshifted")
    events = list(engine.run([Request(PROMPT, SamplingParams(12, draft_length=length), name)]))
    tokens = PROMPT + [event.token_id for event in events if isinstance(event, Sampled)]
    other = toy_engine()
    list(other.run([Request(tokens, SamplingParams(2, draft_length=1), name)]))  # its features, in one pass
    kept = other._admission._extra_drafters[name]().features[0]
    features = kept.read(range(len(tokens)))
    checked = 0
    for drafted in (event for event in events if isinstance(event, Drafted)):
        known = len(PROMPT) + drafted_after(events, drafted)
        chain = tokens[:known]
        for step, token in enumerate(drafted.token_ids):
            padded = [*chain, *[0] * (64 - len(chain))]
            felt = torch.zeros(64, features.shape[1])
            felt[: known - 1] = features[: known - 1]
            with torch.no_grad():
                predicted = pupil.unroll(class_of(felt, padded), step + 1)[step][0, len(chain) - 1]
            assert token == int(predicted)
            chain.append(token)
            checked += 1
    assert checked >= 4 * length


def drafted_after(events: list, drafted: Drafted) -> int:
    """Output tokens that were known when this draft was made."""
    before = events[: events.index(drafted)]
    return sum(isinstance(event, Sampled) for event in before)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("length", [1, 2, 4, 8, 16])
def test_greedy_text_is_that_of_plain_decoding(name: str, length: int) -> None:
    plain = toy_engine().generate(PROMPT, SamplingParams(40, draft_length=0))
    drafted = toy_engine().generate(PROMPT, SamplingParams(40, draft_length=length), name)
    assert drafted.token_ids == plain.token_ids


def test_a_head_proposes_only_ids_of_its_own_vocabulary() -> None:
    events = toy_engine().run([Request(PROMPT, SamplingParams(40, temperature=1.5, seed=2), "eagle")])
    drafted = [token for event in events if isinstance(event, Drafted) for token in event.token_ids]
    assert drafted
    assert max(drafted) < 6


def test_a_warm_prefix_drafts_what_a_cold_one_does() -> None:
    """The head's keys and values, and the features, come with the blocks that are found."""
    request = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 1, 7, 3]
    engine = toy_engine()
    cold = list(engine.run([Request(request, SamplingParams(12), "eagle")]))
    warm = list(engine.run([Request(request, SamplingParams(12), "eagle")]))
    drafts = [[event.token_ids for event in run if isinstance(event, Drafted)] for run in (cold, warm)]
    assert drafts[0] == drafts[1]
    assert any(type(event).__name__ == "BlockHit" for event in warm)


def test_a_saved_head_is_read_again_and_a_broken_one_is_refused(tmp_path) -> None:
    engine = toy_engine()
    heads.save("eagle", toy_pupil(engine.model, (4,)), engine.model.sha256, tmp_path)
    path = tmp_path / "eagle.safetensors"
    found = read(path)
    assert (found.kind, found.target, found.shape.layers) == ("eagle", engine.model.sha256, (4,))
    EagleDrafter(Head(found, engine.model, engine.cache))
    tensors = {name: tensor.clone() for name, tensor in found.tensors.items()}  # the file is mapped, not read
    whole = path.read_bytes()
    for broken in (whole[:-8], whole[:20], b"", b"\x00" * 64):
        path.write_bytes(broken)
        assert refused(path) == "bad_head"
    tensors["down"] = tensors["down"][:, 1:].contiguous()
    save_file(tensors, path, {"head": json.dumps({"kind": "x", "target": "y", "shape": {"hidden": 1}})})
    assert refused(path) == "bad_head"
    assert refused(tmp_path / "missing.safetensors") == "bad_head"


def refused(path) -> str:
    with pytest.raises(EngineError) as caught:
        read(path)
    return caught.value.code


def test_a_head_of_other_weights_is_refused() -> None:
    engine = toy_engine()
    file = toy_head(engine.model, (4,))
    other = type(file)(file.kind, "f" * 64, file.shape, file.tensors)
    with pytest.raises(EngineError) as caught:
        Head(other, engine.model, engine.cache)
    assert caught.value.code == "other_weights"


# ---- the head that is shipped ---------------------------------------------------------------------------------------


CARDS = sorted(path for path in SHIPPED.glob("*.json") if path.stem != "ngram_table")


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_the_card_of_a_shipped_drafter_is_that_of_its_file(path: Path) -> None:
    card, file = json.loads(path.read_text(encoding="utf-8")), path.with_suffix(".safetensors")
    assert card["file_sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    shape = {"medusa": MedusaShape, "draft_lm": LmShape}.get(path.stem, HeadShape)
    assert card["target_sha256"] == read(file, shape).target
    assert file.stat().st_size < 10_000_000
    assert card["answers"] > card["held_out_answers"] > 0
    for found in card["held_out"].values():
        assert 0 < found["acceptance"][0] < 1
        assert all(0 <= share < 1 for share in found["acceptance"])  # later ones may never be right


@pytest.mark.model
def test_the_shipped_head_drafts_for_the_default_model_and_changes_no_token() -> None:
    engine = Engine(EngineConfig(prefix_caching=False))
    prompt = engine.tokenizer.chat("Give me three tips for a good night's sleep.")
    plain = engine.generate(prompt, SamplingParams(64, draft_length=0))
    for length in (1, 2, 4, 8):
        events = list(engine.run([Request(prompt, SamplingParams(64, draft_length=length), "eagle")]))
        assert tuple(event.token_id for event in events if isinstance(event, Sampled)) == plain.token_ids
        accepted = [event.num_accepted for event in events if isinstance(event, Verified)]
        assert sum(accepted) > len(accepted) / 4  # a head without a clue is right once in thousands


@pytest.mark.model
def test_every_drafter_that_the_lab_offers_drafts_and_changes_no_token() -> None:
    engine = Engine(EngineConfig(prefix_caching=False))
    prompt = engine.tokenizer.chat("Repeat these words five times: salt, pepper, sugar, and flour.")
    plain = engine.generate(prompt, SamplingParams(40, draft_length=0))
    for name in DRAFTERS:
        events = list(engine.run([Request(prompt, SamplingParams(40, draft_length=4), name)]))
        assert tuple(event.token_id for event in events if isinstance(event, Sampled)) == plain.token_ids, name
        has_drafted = any(isinstance(event, Drafted) for event in events)
        assert has_drafted != (name in ("magicdec", "triforce")), (
            name
        )  # these have nothing to leave out of a short text
