"""Trained drafters beside a target that lies on another device: nothing mixes the two, and nothing else changes."""

import dataclasses

import numpy as np
import pytest
import torch

from engine import Engine, EngineConfig, Request, SamplingParams
from engine.draft_lm import DraftLm
from engine.events import Drafted, Event, Sampled, TreeGrown, Verified
from engine.features import FeatureCache
from engine.head import Head
from engine.medusa import Medusa
from tests.elsewhere import ELSEWHERE, elsewhere
from tests.toys import file_of, toy_engine, toy_head, toy_lm, toy_medusa

TRAINED = ("eagle", "eagle2", "eagle3", "unshifted", "medusa", "lm", "specinfer", "triforce_lm", "lookup_eagle",
           "small")  # fmt: skip
PROMPT = [1, 2, 3, 1, 2, 7, 4] * 3
GREEDY = SamplingParams(16, ignore_eos=True)
DRAWN = SamplingParams(16, ignore_eos=True, temperature=1.0, seed=3)


def run(engine: Engine, drafter: str, params: SamplingParams) -> list[Event]:
    return list(engine.run([Request(PROMPT, params, drafter)]))


def said(events: list[Event], kind: type) -> list:
    """What tokens the events of that kind are about, in order."""
    found = [event for event in events if isinstance(event, kind)]
    return [event.token_id if kind is Sampled else (event.token_ids, event.parents) for event in found]


# ---- whole requests -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("params", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("drafter", TRAINED)
def test_drafts_and_text_are_those_of_the_cpu(drafter: str, params: SamplingParams) -> None:
    expected = run(toy_engine(), drafter, params)
    with elsewhere() as device:
        found = run(toy_engine(device=device), drafter, params)
    assert said(found, Sampled) == said(expected, Sampled)
    assert said(found, Drafted) == said(expected, Drafted) != []


def test_a_tree_grows_more_than_one_level_deep_there() -> None:
    with elsewhere() as device:
        grown = [event for event in run(toy_engine(device=device), "eagle2", GREEDY) if isinstance(event, TreeGrown)]
    assert any(event.expanded for event in grown)


@pytest.mark.parametrize("drafter", ["eagle2", "eagle3", "medusa", "specinfer"])
def test_samples_that_share_their_prompt_copy_features_there(drafter: str) -> None:
    """Blocks are copied on write, and the accepted path of a tree is moved, in every cache of the drafter."""
    requests = [Request(PROMPT, DRAWN, drafter, n=3) for _ in range(2)]
    expected = list(toy_engine().run(requests[:1]))
    with elsewhere() as device:
        found = list(toy_engine(device=device).run(requests[1:]))
    assert said(found, Sampled) == said(expected, Sampled)


# ---- where things lie, and as what ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "kept"), [("float32", "float32"), ("float16", "float16"), ("bfloat16", "bfloat16"),
                                             ("int8", "float16")])  # fmt: skip
def test_weights_are_kept_as_the_target_computes_there(dtype: str, kept: str) -> None:
    with elsewhere() as device:
        engine = toy_engine(device=device, dtype=dtype)
        model, cache = engine.model, engine.cache
        head = Head(toy_head(model, (1, 2, 4)), model, cache)
        medusa, lm = (make(model) for make in (toy_medusa, toy_lm))
        medusa, lm = Medusa(file_of(medusa, model), model, cache), DraftLm(file_of(lm, model), model)
        matrices = (head._weights.fuse, head._weights.words, head._mix, medusa._blocks, medusa._head, lm.head)
        assert [matrix.dtype for matrix in matrices] == [kept] * len(matrices)
        assert {str(matrix.data.device) for matrix in matrices} == {ELSEWHERE}
        assert {str(found.draft_ids.device) for found in (head, medusa, lm)} == {"cpu"}
        table = torch.tensor([[3, 1]], dtype=torch.int32)
        felt = head.given([12])
        x, logits = head.guess(felt, [2], head.rows(1, table, [13]), 1)
        slots, paths = (torch.from_numpy(np.array(numbers, np.int32)) for numbers in ([256, 257], [[256], [257]]))
        deeper, more = head.guess(x[torch.tensor([0, 0])], [1, 4], head.tree_rows(2, table, 2, slots, paths), 2)
        for state in (felt, x, deeper):
            assert (str(state.dtype), str(state.device)) == (f"torch.{kept}", ELSEWHERE)
        for told, rows in ((logits, 1), (more, 2), (medusa.logits(12), 3)):
            assert (told.dtype, str(told.device), tuple(told.shape)) == (torch.float32, "cpu", (rows, 6))
            assert told.isfinite().all()


def test_features_are_written_read_moved_and_copied_there() -> None:
    def used(device: str) -> torch.Tensor:
        kept = FeatureCache((1, 3), 4, 32, 8, "float16", torch.device(device))
        states = [torch.arange(12.0).view(3, 4).to(device), -torch.arange(12.0).view(3, 4).to(device)]
        kept.write(torch.tensor([0, 9, 17], dtype=torch.int32, device=device), states)
        kept.move([9, 17], [17, 3])
        kept.copy_block(0, 3, 4)
        found = kept.read(range(32))
        assert (found.dtype, str(found.device)) == (torch.float32, device)
        return found.cpu()

    with elsewhere() as device:
        far = used(device)
    assert torch.equal(far, used("cpu"))
    assert far[[3, 17, 24, 27]].abs().sum() > 0


def test_int8_stays_on_the_cpu_where_there_is_a_kernel_for_it() -> None:
    engine = toy_engine(dtype="float16")
    assert Head(toy_head(engine.model, (4,)), engine.model, engine.cache)._weights.words.dtype == "int8"


# ---- the device that is pretended -----------------------------------------------------------------------------------


def test_what_a_gpu_would_refuse_is_refused_here() -> None:
    with elsewhere() as device:
        far, near = torch.zeros(3, 4, device=device), torch.ones(3, 4)
        index = torch.tensor([0, 2])
        refused = {
            "added": lambda: far + near, "joined": lambda: torch.cat((far, near)), "product": lambda: near @ far.T,
            "index": lambda: near[index.to(device)], "put": lambda: far.__setitem__(index, near[:2]),
        }  # fmt: skip
        for operation in refused.values():
            with pytest.raises(RuntimeError, match="on the CPU"):
                operation()
        for read in (far.numpy, far.data_ptr):
            with pytest.raises(TypeError, match="bring it to the CPU"):
                read()
        far[index] = 2.0
        far[:, 1:2] = near[:, :1]
        assert (far[index].to("cpu") + near[:2]).tolist() == [[3, 2, 3, 3]] * 2
        assert (far.device, far.is_cpu, far.cpu().is_cpu) == (torch.device(ELSEWHERE), False, True)


@pytest.mark.model
@pytest.mark.slow
def test_the_shipped_drafters_change_no_token_there() -> None:
    config = EngineConfig(num_blocks=16, dtype="float32", prefix_caching=False)
    plain = Engine(config)
    prompt = plain.tokenizer.chat("Name three fruits.")
    expected = plain.generate(prompt, SamplingParams(8)).token_ids
    with elsewhere() as device:
        engine = Engine(dataclasses.replace(config, device=device))
        for drafter in ("eagle", "eagle3", "medusa", "draft_lm", "specinfer"):
            events = list(engine.run([Request(prompt, SamplingParams(8, draft_length=3), drafter)]))
            assert tuple(said(events, Sampled)) == expected, drafter
            assert sum(event.num_accepted for event in events if isinstance(event, Verified)) > 0, drafter
