"""The engine: add requests, step, and hear what happened. The only file that knows all the parts.

A step is three calls: _schedule() says whose rows run, model.forward() computes them in one ragged pass, _finish()
turns logits into tokens. The clock covers these three; what is reported is put into words after it has stopped.
"""

import dataclasses
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Ids

import torch

from engine import tree, weights
from engine.admission import Admission
from engine.batch import Batch, Part
from engine.blocks import BlockPool
from engine.config import EngineConfig
from engine.drafters import Drafter
from engine.drafters.shelf import new_cache
from engine.errors import EngineError, OutOfBlocks
from engine.events import Admitted, Event, Finished, Preempted, Sampled
from engine.features import FeatureCache
from engine.model import Model, check_device
from engine.report import Reporter, describe
from engine.request import Completion, Request, SamplingParams
from engine.rounds import Round
from engine.scheduler import Scheduler, Work
from engine.sequence import Sequence


class Engine:
    """A model, a cache cut into blocks, and the requests that share them.

    loaded: weights that are there already, instead of those that `config.model` names. extra_drafters: functions that
    make a drafter, by name, beside the built-in ones. Raises EngineError when device or model cannot be had.
    """

    def __init__(
        self,
        config: EngineConfig,
        loaded: weights.LoadedModel | None = None,
        extra_drafters: Mapping[str, Callable[[], Drafter]] | None = None,
        progress: Callable[[float, str], None] | None = None,
    ) -> None:
        check_device(config.device)
        if config.threads:
            torch.set_num_threads(config.threads)
        loaded = loaded or weights.load(config.model, progress, config.model_folder)
        self.config = config
        self.tokenizer = loaded.tokenizer
        self.model = Model(loaded, config.dtype, config.device)
        self.cache = new_cache(self.model, config)
        self._reporter = Reporter(self.tokenizer, "distributions" in config.watch)
        self.pool = BlockPool(config.num_blocks, config.block_size, config.prefix_caching, self._reporter.add)
        self._scheduler = Scheduler(self.pool, config.max_batch_tokens, config.max_running)
        self._sequences: dict[str, Sequence] = {}
        self._promised: set[str] = set()  # names of parallel samples that wait for their prompt
        self._admission = Admission(config, self.tokenizer, self.model, self.cache, dict(extra_drafters or {}))

    # ---- requests -----------------------------------------------------------------------------------------------

    def add(self, request: Request) -> str:
        """Queues a request and returns its id. Raises EngineError with what is wrong; then nothing has changed."""
        sequence = self._admission.admit(request)
        for item in (sequence, *sequence.children):
            if self._is_taken(item.id):
                raise EngineError("duplicate_id", f"request {item.id!r} is running already", id=item.id)
        self._enter(sequence)
        if sequence.max_new_tokens == 0:
            samples, sequence.children = sequence.children, []
            for sample in samples:
                self._enter(sample, sequence)
            for item in (sequence, *samples):
                self._end(item, "length")
        else:
            self._promised.update(sample.id for sample in sequence.children)
            self._scheduler.add(sequence)
        return sequence.id

    def abort(self, request_id: str) -> bool:
        """Ends a request with its samples and forks, or one of these by its own id; False when nothing was running."""
        ended = [item for item in self._sequences.values() if request_id in (item.id, item.request.id)]
        for sequence in ended:
            self._end(sequence, "abort")
        unborn = [item for item in self._sequences.values() if request_id in [child.id for child in item.children]]
        for parent in unborn:  # a sample whose prompt is not computed yet will never be
            parent.children = [child for child in parent.children if child.id != request_id]
            self._promised.discard(request_id)
        return bool(ended or unborn)

    def fork(self, request_id: str, at: int) -> str:
        """Starts a second sequence from the first `at` tokens of a running one, sharing the blocks that hold them.

        `at` counts prompt and output tokens; inside the prompt, the fork's own prompt ends there. It shares the keys
        and values of all but the last of them, whose row it computes itself. Its coins are its own: its seed follows
        from the parent's. Returns its id, "{parent}/{number}". Raises EngineError("not_running" or "bad_fork").
        """
        parent = self._sequences.get(request_id) if isinstance(request_id, str) else None
        if parent is None or request_id not in self.pool or parent.is_prefilling:
            raise EngineError("not_running", f"request {request_id!r} is not generating", id=request_id)
        numbers = itertools.count(parent.num_forks + 1)
        number = next(number for number in numbers if not self._is_taken(f"{request_id}/{number}"))
        child = self._admission.fork(parent, at, number)
        parent.num_forks = number
        self._enter(child, parent)
        if child.num_output >= child.max_new_tokens:
            self._end(child, "length")
        else:
            self._share(parent, child, at - 1)
        return child.id

    @property
    def is_idle(self) -> bool:
        """Whether no request is waiting or running."""
        return not self._sequences

    def stats(self) -> dict[str, int]:
        """Counts of blocks and requests at this moment."""
        return {
            "blocks_free": self.pool.num_free,
            "blocks_used": self.pool.num_used,
            "blocks_cached": self.pool.num_cached,
            "running": len(self._scheduler.running),
            "waiting": len(self._scheduler.waiting),
        }

    def started(self) -> Event:
        """The event that a run begins with: what runs, and on what."""
        return describe(self)

    # ---- running ------------------------------------------------------------------------------------------------

    def run(self, requests: Ids[Request]) -> Iterator[Event]:
        """Adds the requests and yields events until all of them, samples and forks included, have ended.

        Closing the iterator aborts what is still running; an idle engine then forgets the events that nobody read.
        Raises EngineError as `add` does, and then runs none.
        """
        if isinstance(requests, Request):
            raise EngineError("bad_request", "run takes a list of requests", kind="Request")
        ids: list[str] = []
        try:
            for request in requests:
                ids.append(self.add(request))
            yield describe(self)
            yield from self._reporter.take()
            while any(sequence.request.id in ids for sequence in self._sequences.values()):
                yield from self.step()
            yield from self._reporter.take()  # of requests that were aborted since the last step
        finally:
            for request_id in ids:
                self.abort(request_id)
            if self.is_idle:
                self._reporter.take()

    def generate(
        self, prompt: str | Ids[int], params: SamplingParams | None = None, drafter: str | None = None
    ) -> Completion:
        """Runs one request to its end. What happens to others meanwhile is not told; with company, use `run`."""
        request = Request(prompt, params or SamplingParams(), drafter)
        events = [event for event in self.run([request]) if isinstance(event, Sampled | Finished)]
        *sampled, end = [event for event in events if event.request_id == request.id]
        token_ids = tuple(event.token_id for event in sampled)
        return Completion(request.id, token_ids, end.text, end.finish_reason, end.message)

    def step(self, only: str | None = None) -> list[Event]:
        """One pass over whoever can run (or over `only` that request); returns every event since the last call."""
        self._reporter.step += 1
        start = time.perf_counter()
        rounds = self._schedule(only)
        if rounds:
            before = time.perf_counter()
            batch = Batch.join([item.part for item in rounds])
            logits = self.model.forward(batch, self.cache, features=_features(rounds))
            self.model.wait()
            seconds_forward = time.perf_counter() - before
            rounds = self._finish(rounds, logits)
            self._report(rounds, time.perf_counter() - start, seconds_forward)
        elif only is None and self._scheduler.running:
            self._make_room(self._scheduler.running[-1])
        return self._reporter.take()

    # ---- schedule: whose rows run -------------------------------------------------------------------------------

    def _schedule(self, only: str | None) -> list[Round]:
        for sequence in self._scheduler.admit(only):
            self._reporter.add(Admitted, request_id=sequence.id)
        works, preempted = self._scheduler.schedule(only)
        self._tell_preempted(preempted)
        rounds = []
        for work in works:
            try:
                rounds.append(self._prepare(work))
            except OutOfBlocks:  # a tree with more nodes than there are slots left waits for another step
                if not work.is_prompt:
                    self._give_back(work.sequence)
        if works and not rounds:  # nothing would change by then: the first goes on without drafts
            rounds.append(self._prepare(dataclasses.replace(works[0], num_rows=1)))
        return rounds

    def _make_room(self, sequence: Sequence) -> None:
        """Nobody can run, because of blocks that are shared: without its own, the last to come shares none."""
        if sequence.num_made_room == len(sequence):  # that was no help the last time either
            self._end(sequence, "error", "out_of_blocks")
            return
        sequence.num_made_room = len(sequence)
        self._scheduler.preempt(sequence)
        self._tell_preempted([sequence])

    def _tell_preempted(self, sequences: list[Sequence]) -> None:
        for sequence in sequences:
            self._reporter.add(Preempted, request_id=sequence.id, num_tokens=len(sequence))

    def _prepare(self, work: Work) -> Round:
        """The rows of one sequence: a piece of its prompt, or its last token and what the drafter adds."""
        sequence = work.sequence
        if work.is_prompt:
            end = sequence.num_cached + work.num_rows
            self._take_slots(sequence, max(0, end - self.pool.length(sequence.id)))  # a fork's; others have theirs
            rows, table = sequence.token_ids[sequence.num_cached : end], self.pool.table(sequence.id)
            is_last = end == sequence.num_prompt and sequence.num_output == 0
            return Round(sequence, Part("prompt", rows, table, sequence.num_cached, num_logits=int(is_last)))
        item = Round(sequence)
        self._draft_and_take_slots(item, work.num_rows - 1)
        sequence.round += 1
        rows, parents = [sequence.token_ids[-1], *item.rows], item.proposal.row_parents
        parents = None if parents is None else tree.with_root(parents)
        item.part = Part("generated", rows, self.pool.table(sequence.id), len(sequence) - 1, parents)
        return item

    def _draft_and_take_slots(self, item: Round, num_drafts: int) -> None:
        """Slots for the last token and the drafts; before drafting if that writes keys and values, else as needed."""
        sequence = item.sequence
        if num_drafts == 0:
            self._take_slots(sequence, 1)
            return
        start = time.perf_counter()
        num_taken = 1 + num_drafts if sequence.drafter.needs_slots else 0
        self._take_slots(sequence, num_taken)
        item.draft(num_drafts, self.pool.table(sequence.id), self.model.config.vocab_size)
        self._take_slots(sequence, max(0, 1 + len(item.rows) - num_taken))  # a tree has more nodes than levels
        item.seconds_draft = time.perf_counter() - start

    def _give_back(self, sequence: Sequence) -> None:
        """The slots beyond what is cached, which a round that cannot be had took for its drafts."""
        self.pool.truncate(sequence.id, sequence.num_cached)
        if sequence.drafter is not None:
            sequence.drafter.num_cached = min(sequence.drafter.num_cached, sequence.num_cached)

    def _take_slots(self, sequence: Sequence, num_tokens: int) -> None:
        caches = (self.cache, *(sequence.drafter.caches if sequence.drafter else ()))
        for copy in self.pool.append(sequence.id, num_tokens):
            for cache in caches:
                cache.copy_block(copy.source, copy.target, copy.num_tokens)

    # ---- finish: logits into tokens -----------------------------------------------------------------------------

    def _finish(self, rounds: list[Round], logits: torch.Tensor) -> list[Round]:
        """Verifies each round on its rows of the logits; returns the rounds, those of new parallel samples included."""
        first, settled = 0, []
        for item in rounds:
            start = time.perf_counter()
            item.logits = logits[first : first + item.num_logits]
            first += item.num_logits
            samples = []
            if item.part.role == "prompt":
                item.sequence.num_cached += len(item.part.token_ids)
                samples = self._sample_prompt(item) if item.num_logits else []
            for each in [item, *samples] if item.num_logits else []:
                self._settle(each)
            self._commit(item.sequence)
            item.seconds_accept = time.perf_counter() - start
            settled += [item, *samples]
        return settled

    def _sample_prompt(self, item: Round) -> list[Round]:
        """The parallel samples of a prompt that is now computed: each shares its blocks and will draw its own token."""
        children, item.sequence.children = item.sequence.children, []
        self._promised.difference_update(child.id for child in children)
        for child in children:
            self._enter(child, item.sequence)
            self._share(item.sequence, child, child.num_prompt)
        return [Round(child, item.part, logits=item.logits, is_sample=True) for child in children]

    def _settle(self, item: Round) -> None:
        """Accepts, appends the tokens, and keeps of the cache what the accepted path wrote."""
        sequence = item.sequence
        if item.error is None:
            item.verify()
        if item.error is not None:
            return
        if item.proposal.parents is not None:
            source, target = tree.moves((0, *(node + 1 for node in item.outcome.path)))
            slots = self.cache.slots(item.part.table, item.part.context, item.part.context + len(item.part.token_ids))
            for cache in (self.cache, *sequence.drafter.features):
                cache.move([slots[node] for node in source], [slots[node] for node in target])
        item.num_new = sequence.extend(item.outcome.tokens)
        sequence.num_cached = len(sequence) - 1
        self.pool.truncate(sequence.id, sequence.num_cached)
        if sequence.drafter is not None:
            item.tell_drafter()

    def _commit(self, sequence: Sequence) -> None:
        self.pool.commit(sequence.id, sequence.token_ids, sequence.num_own_cached, sequence.extra_keys)

    # ---- report: after the clock has stopped --------------------------------------------------------------------

    def _report(self, rounds: list[Round], seconds: float, seconds_forward: float) -> None:
        self._reporter.clock += seconds
        self._reporter.forwarded(rounds, seconds_forward)
        seconds_other = seconds - seconds_forward - sum(item.seconds_draft + item.seconds_accept for item in rounds)
        for item in rounds:
            sequence = item.sequence
            sequence.clock += seconds
            is_stopped = self._reporter.round(item, seconds_forward, max(0.0, seconds_other))
            if item.error is not None:
                self._end(sequence, "error", item.error.code)
            elif is_stopped:
                self._end(sequence, "stop")
            elif sequence.num_output >= sequence.max_new_tokens:
                self._end(sequence, "length")

    def _end(self, sequence: Sequence, reason: str, message: str = "") -> None:
        del self._sequences[sequence.id]
        self._promised.difference_update(child.id for child in sequence.children)
        if sequence.id in self.pool:
            self.pool.free(sequence.id)
        self._scheduler.remove(sequence)
        sequence.writer.close()
        self._reporter.add(
            Finished,
            request_id=sequence.id,
            text=sequence.writer.text,
            finish_reason=reason,
            message=message,
            num_tokens=sequence.num_output,
        )

    def _is_taken(self, name: str) -> bool:
        return name in self._sequences or name in self._promised

    def _enter(self, sequence: Sequence, parent: Sequence | None = None) -> None:
        self._sequences[sequence.id] = sequence
        self._reporter.submitted(sequence, parent)

    def _share(self, parent: Sequence, child: Sequence, num_shared: int) -> None:
        """Gives `child` the parent's blocks with the first `num_shared` tokens, and lets it run."""
        self.pool.fork(parent.id, child.id, num_shared)
        child.num_cached = num_shared
        if child.drafter is not None and child.drafter.caches:
            child.drafter.num_cached = min(parent.drafter.num_cached, num_shared)
        self._scheduler.start(child)


def _features(rounds: list[Round]) -> list[FeatureCache]:
    """What the target shall keep of its hidden states in this pass, for whoever drafts from them."""
    drafting = [item.sequence.drafter for item in rounds if item.sequence.drafter is not None]
    return list(dict.fromkeys(kept for drafter in drafting for kept in drafter.features))
