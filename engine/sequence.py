"""What the engine remembers of one request while it runs.

Knows nothing of blocks, of the model, or of other requests.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.request import Request, SamplingParams
from engine.tokenizer import Detokenizer, StopScanner, Tokenizer

if TYPE_CHECKING:
    from engine.drafters.drafter import Drafter


class Writer:
    """Turns output tokens into text, and notices an end token or a stop string."""

    def __init__(self, tokenizer: Tokenizer, stop: tuple[str, ...], end_ids: tuple[int, ...]) -> None:
        self.text = ""
        self._detokenizer = Detokenizer(tokenizer)
        self._scanner = StopScanner(stop)
        self._end_ids = end_ids

    def write(self, token_ids: list[int]) -> tuple[list[str], bool]:
        """The text that each token made readable, up to and with the one that stops, and whether one did."""
        pieces = []
        for token in token_ids:
            if token in self._end_ids:
                return [*pieces, ""], True
            piece, is_stopped = self._scanner.push(self._detokenizer.push(token))
            self.text += piece
            pieces.append(piece)
            if is_stopped:
                return pieces, True
        return pieces, False

    def close(self) -> None:
        """Nothing follows: what was held back (half a character, half a stop string) belongs to the text."""
        rest, _ = self._scanner.push(self._detokenizer.flush())
        self.text += rest + self._scanner.flush()


@dataclass(slots=True, eq=False)
class Sequence:
    """Prompt and output so far. `num_cached` tokens have their keys and values in the target's cache.

    Between two rounds num_cached == len(token_ids) − 1: the last token's row is the first of the next pass.
    """

    id: str
    request: Request
    params: SamplingParams
    token_ids: list[int]
    num_prompt: int
    max_new_tokens: int  # what the request and the context window allow
    end_ids: tuple[int, ...]  # tokens that end the output
    extra_keys: tuple[str, ...]  # what, beside the tokens, two sequences must have in common to share cached blocks
    writer: Writer
    drafter_name: str
    drafter: "Drafter | None"
    num_cached: int = 0
    num_reused: int = 0  # prompt tokens that the prefix cache had already
    round: int = 0
    clock: float = 0.0
    num_forks: int = 0
    num_waited: int = 0  # steps in a row in which it could have run and did not
    num_made_room: int = 0  # its length when it last gave up its blocks because nobody could run
    children: list["Sequence"] = field(default_factory=list)  # parallel samples that wait for the prompt

    def __len__(self) -> int:
        return len(self.token_ids)

    @property
    def num_output(self) -> int:
        """Tokens produced so far."""
        return len(self.token_ids) - self.num_prompt

    @property
    def num_to_prefill(self) -> int:
        """Tokens to compute before it can decode: the prompt; all but the last token where there is output already."""
        return len(self) - 1 if self.num_output else self.num_prompt

    @property
    def is_prefilling(self) -> bool:
        """Whether tokens are still to be computed (the prompt's last one gives the first output token)."""
        return self.num_cached < self.num_to_prefill

    @property
    def draft_length(self) -> int:
        """Tokens to draft in the next round: K, or what is left, so that a round never overshoots."""
        if self.drafter is None:
            return 0
        return max(0, min(self.params.draft_length, self.max_new_tokens - self.num_output - 1))

    @property
    def num_own_cached(self) -> int:
        """Tokens that both the target's cache and the drafter's own hold."""
        if self.drafter is not None and self.drafter.caches:
            return min(self.num_cached, self.drafter.num_cached)
        return self.num_cached

    def begin(self, num_reused: int) -> None:
        """Its blocks are there, and the first `num_reused` tokens are in them already."""
        self.num_cached = self.num_reused = num_reused
        if self.drafter is not None and self.drafter.caches:
            self.drafter.num_cached = num_reused

    def extend(self, tokens: tuple[int, ...]) -> int:
        """Appends a round's tokens, up to the first end token and no more than are allowed; returns how many."""
        tokens = tokens[: self.max_new_tokens - self.num_output]
        ends = [index for index, token in enumerate(tokens) if token in self.end_ids]
        tokens = tokens[: ends[0] + 1] if ends else tokens
        self.token_ids += tokens
        return len(tokens)
