"""An engine under random operations, and every promise that it makes, checked after each step.

Knows nothing of how the engine keeps them; `truth` is a second engine with room enough, one request at a time.
"""

import functools
import random
from dataclasses import dataclass

from engine import EngineError, Finished, Request, Sampled, SamplingParams, Submitted, Verified
from engine.cache import KVCache
from engine.events import Drafted
from engine.model import Model
from engine.trace import State, apply
from tests.odd_drafters import CountedDraftModel, DecoyTreeDrafter
from tests.toys import VOCAB_SIZE, toy_engine, toy_model

END = 6  # the token that ends a text
DRAFTERS = (
    *("none", "ngram", "layer_skip", "layer_skip:0,1,2,3", "early_exit:4"),
    *("random", "tree", "decoys", "decoys", "small", "twin"),
)
BEGINNINGS = ([1, 2, 3, 1, 2, 4, 1, 2, 3], [0, 7] * 9, [5] * 13, [4], [2, 3])
STOPS = ((), (), ("B",), ("HB", "BB"), ("AHBG", "GH", "CCCC"))


@dataclass
class Seen:
    """What the world knows of one text: who started it, and how it began."""

    request: Request
    submitted: Submitted


class World:
    """Random acts on one engine, with requests for `drafters`; all is checked after each."""

    def __init__(self, seed: int, drafters: tuple[str, ...] = DRAFTERS) -> None:
        self.dice = dice = random.Random(seed)
        self.drafters = drafters
        self.window = dice.choice((None, None, 5))
        block_size = dice.choice((1, 3, 4, 16))
        self.engine = self._new_engine(
            block_size=block_size,
            num_blocks=dice.choice((36, 48, 80)) // block_size,
            watch=dice.choice((frozenset(), {"distributions"})),
            max_batch_tokens=dice.choice((1, 4, 7, 32)),
            max_running=dice.choice((1, 3, 8)),
            prefix_caching=dice.random() < 0.8,
        )
        self.truth = self._new_engine(num_blocks=64)
        self.state = State()
        apply(self.state, self.engine.started())
        self.requests: dict[str, Request] = {}
        self.seen: dict[str, Seen] = {}
        self.num_steps = 0
        self.endings: list[str] = []
        self.rounds: list[tuple[int, int]] = []  # drafted, accepted

    def _new_engine(self, **settings):
        engine = toy_engine(toy_model(7, eos_token_ids=(END,), sliding_window=self.window), **settings)
        decoys = functools.partial(DecoyTreeDrafter, engine.model, engine.cache, range(4))
        drafters = {"decoys": decoys}
        # The small one does not know the target's last token; the twin is the target.
        for name, loaded in (("small", toy_model(3, vocab_size=7)), ("twin", toy_model(7, sliding_window=self.window))):
            draft = Model(loaded, "float32")
            cache = KVCache(draft.config, engine.config.num_blocks, engine.config.block_size, "float32")
            drafters[name] = functools.partial(CountedDraftModel, draft, cache, VOCAB_SIZE)
        engine._admission._extra_drafters.update(drafters)
        return engine

    # ---- acts ----

    def act(self) -> None:
        """One operation, mostly a step; whatever is refused must leave everything as it was."""
        names = sorted(self.engine._sequences) or ["nobody"]
        kind = self.dice.choices(("step", "only", "add", "abort", "fork"), (12, 2, 3, 1, 1))[0]
        before = self.engine.pool.snapshot(), self.engine.stats()
        try:
            if kind == "step":
                self.step()
            elif kind == "only":
                self.step(only=self.dice.choice(names))
            elif kind == "add":
                self.add()
            elif kind == "abort":
                self.engine.abort(self.dice.choice([*names, "nobody"]))
            else:
                self.engine.fork(self.dice.choice(names), self.dice.randrange(0, 40))
        except EngineError:
            assert (self.engine.pool.snapshot(), self.engine.stats()) == before
        self.check_counts()

    def add(self) -> None:
        """A request like one before or a new one, now and then one that cannot be."""
        dice = self.dice
        prompt = dice.choice(BEGINNINGS) + [dice.randrange(VOCAB_SIZE) for _ in range(dice.choice((0, 0, 1, 3, 8)))]
        params = SamplingParams(
            max_new_tokens=dice.choice((0, 1, 2, 5, 9, 20)),
            temperature=dice.choice((0.0, 0.0, 0.7, 1.3)),
            top_p=dice.choice((1.0, 0.9)),
            repetition_penalty=dice.choice((1.0, 1.0, 1.4)),
            frequency_penalty=dice.choice((0.0, 0.0, 0.3)),
            seed=dice.randrange(1000),
            stop=dice.choice(STOPS),
            draft_length=dice.choice((0, 1, 2, 4, 9)),
            draft_temperature=dice.choice((None, None, 0.0)),
            rule=dice.choice(("exact", "exact", "sampler_match")),
            ignore_eos=dice.random() < 0.3,
        )
        request = Request(
            prompt if dice.random() < 0.95 else [],
            params,
            dice.choice(self.drafters),
            n=dice.choice((1, 1, 1, 2, 3)),
            cache_salt=dice.choice(("", "", "salt")),
            id=f"r{len(self.requests)}" if dice.random() < 0.9 else f"r{dice.randrange(1 + len(self.requests))}",
        )
        if request.id not in self.requests:
            self.engine.add(request)
            self.requests[request.id] = request

    def step(self, only: str | None = None) -> None:
        """One step, its events folded, and everything compared."""
        for event in self.engine.step(only):
            apply(self.state, event)
            if isinstance(event, Drafted):
                self.check_drafts(event)
            elif isinstance(event, Submitted):
                request = self.requests[event.request_id.split("/")[0].split(".")[0]]
                self.seen[event.request_id] = Seen(request, event)
            elif isinstance(event, Verified):
                self.check_verdicts(event)
            elif isinstance(event, Sampled):
                assert event.p > 0
            elif isinstance(event, Finished):
                self.check_text(event)
                assert event.finish_reason != "error"  # whatever was let in fits, if need be alone
        self.num_steps += 1
        self.check_fold()
        self.check_sequences()

    def finish(self) -> None:
        """Steps until nobody is left."""
        while not self.engine.is_idle:
            self.step()
            self.check_counts()
        assert self.engine.stats()["blocks_used"] == 0
        assert (self.state.tables, self.state.ref_counts) == ({}, {})

    # ---- promises ----

    def check_counts(self) -> None:
        """Blocks are conserved."""
        pool, snapshot = self.engine.pool, self.engine.pool.snapshot()
        entries = [block for table in snapshot["tables"].values() for block in table]
        assert pool.num_free + len(set(entries)) == pool.num_blocks
        assert pool.num_used == len(set(entries))
        assert snapshot["ref_counts"] == {block: entries.count(block) for block in set(entries)}
        assert set(snapshot["tables"]) <= set(self.engine._sequences)

    def check_fold(self) -> None:
        """The events alone rebuild tables, reference counts, hashes and cache lengths."""
        snapshot = self.engine.pool.snapshot()
        assert self.state.tables == {name: table for name, table in snapshot["tables"].items() if table}
        assert (self.state.ref_counts, self.state.hashes) == (snapshot["ref_counts"], snapshot["hashes"])
        for sequence in self.engine._scheduler.running:
            if sequence.num_cached > sequence.num_reused:
                assert self.state.requests[sequence.id].cache_length == sequence.num_cached

    def check_sequences(self) -> None:
        """Caches hold all but the last token, outputs stay within their budget."""
        for sequence in self.engine._scheduler.running:
            if sequence.is_prefilling:
                assert sequence.num_cached < sequence.num_to_prefill
                is_fork = sequence.num_cached == sequence.num_to_prefill - 1 and "/" in sequence.id  # has no slot yet
                assert (
                    self.engine.pool.length(sequence.id) in (sequence.num_to_prefill, len(sequence) - 1)[: 1 + is_fork]
                )
            else:
                assert sequence.num_cached == len(sequence) - 1 == self.engine.pool.length(sequence.id)
                assert 0 < sequence.num_output < sequence.max_new_tokens
            if sequence.drafter is not None:
                assert sequence.drafter.num_cached <= max(0, len(sequence) - 1)
                assert sequence.drafter.caches or sequence.drafter.num_cached == 0
            seen = self.seen[sequence.id]
            known = [*seen.submitted.prompt_ids, *self.state.token_ids[sequence.id]]
            assert known == sequence.token_ids

    def check_drafts(self, event: Drafted) -> None:
        """No deeper than K, and one less than what may still be said."""
        seen, depths = self.seen[event.request_id], [0]
        for parent in event.parents:
            depths.append(1 + depths[parent + 1])
        num_output = len(self.state.token_ids[event.request_id])
        assert max(depths) <= seen.request.params.draft_length
        assert num_output + max(depths) < seen.submitted.max_new_tokens

    def check_verdicts(self, event: Verified) -> None:
        """What a twin drafts greedily, from a cache of its own, is what the target says."""
        self.rounds.append((len(event.token_ids), event.num_accepted))
        request = self.seen[event.request_id].request
        if request.drafter == "twin" and request.params.temperature == 0:
            assert set(event.verdicts) == {"accepted"}

    def check_text(self, end: Finished) -> None:
        """Ids, text and reason fit each other, and the text that the request would have had alone."""
        seen = self.seen[end.request_id]
        params, token_ids = seen.request.params, self.state.token_ids[end.request_id]
        text, is_stopped = written(token_ids, params)
        self.endings.append(end.finish_reason)
        assert (end.text, end.num_tokens) == (text, len(token_ids))
        assert is_stopped == (end.finish_reason == "stop")
        assert len(token_ids) <= seen.submitted.max_new_tokens <= params.max_new_tokens
        assert end.finish_reason != "length" or len(token_ids) == seen.submitted.max_new_tokens
        is_fork = "/" in end.request_id
        is_cut_tree = seen.request.drafter == "tree" and params.temperature > 0 and params.rule == "exact"
        if not is_fork and not is_cut_tree and self.dice.random() < 0.4:
            self.check_alone(end, token_ids, seen)

    def check_alone(self, end: Finished, token_ids: list[int], seen: Seen) -> None:
        """Company, room and chunks change nothing; greedy and matched texts are those of plain decoding."""
        params = seen.request.params
        is_plain = params.temperature == 0 or params.rule == "sampler_match"
        alone = SamplingParams(**{name: getattr(params, name) for name in SamplingParams.__slots__ if name != "seed"},
                               seed=seen.submitted.seed)  # fmt: skip
        whole = self.truth.generate(seen.request.prompt, alone, "none" if is_plain else seen.request.drafter)
        if end.finish_reason in ("stop", "length"):
            assert (tuple(token_ids), end.finish_reason) == (whole.token_ids, whole.finish_reason)
        else:
            assert tuple(token_ids) == whole.token_ids[: len(token_ids)]


def written(token_ids: list[int], params: SamplingParams) -> tuple[str, bool]:
    """The text of the ids by hand, letter by letter, and whether it is stopped at the last of them."""
    text = ""
    for index, token in enumerate(token_ids):
        is_last = index == len(token_ids) - 1
        if token == END and not params.ignore_eos:
            assert is_last
            return text, True
        text += chr(65 + token)
        found = [text.index(stop) for stop in params.stop if stop in text]
        if found:
            assert is_last
            return text[: min(found)], True
    return text, False
