"""From the logits of a pass to the tokens of a round: accept what may stay, and pick the token after it.

Knows nothing of caches, blocks or clocks. The rules themselves are in `engine.accept`; here they get their coins,
each from the stream of its request and position, so that a request's text depends on nothing else.
"""

from dataclasses import dataclass

import torch

from engine.accept import (
    DraftTree,
    Trial,
    Verdict,
    accept_chain,
    accept_greedy,
    accept_sampler_match,
    accept_tree,
    accept_typical,
)  # fmt: skip
from engine.drafters.drafter import Proposal
from engine.sampling import greedy_tokens, probabilities, sample, uniform
from engine.sequence import Sequence
from engine.tree import depths, with_root


@dataclass(frozen=True, slots=True)
class Outcome:
    """The tokens of one round with their fates, the accepted nodes, and every comparison that was made.

    laws: (rows, vocab) the target's laws that were used, None when greedy: then `winners` is each row's choice.
    residual: (vocab,) where a token was drawn from one.
    """

    tokens: tuple[int, ...]
    fates: tuple[str, ...]
    path: tuple[int, ...]
    trials: tuple[Trial, ...]
    laws: torch.Tensor | None
    winners: tuple[int, ...]
    residual: torch.Tensor | None


def decide(logits: torch.Tensor, sequence: Sequence, proposal: Proposal) -> Outcome:
    """Verifies `proposal` against logits (1 + drafts, vocab), row 0 following the last known token.

    Raises EngineError("bad_logits") when a row has NaN or nothing but −inf.
    """
    params = sequence.params
    histories = _histories(sequence, proposal)
    if params.is_greedy:
        laws, winners = None, tuple(greedy_tokens(logits, params, histories).tolist())
        verdict = accept_greedy(winners, proposal.token_ids, proposal.parents)
    else:
        winners, laws = (), probabilities(logits, params, histories)
        verdict = _verdict(laws, sequence, proposal)
    fates = ("accepted",) * verdict.num_accepted + (_last_fate(proposal, tuple(verdict.path)),)
    tokens, path, trials = tuple(verdict.tokens), tuple(verdict.path), tuple(verdict.trials)
    return Outcome(tokens, fates, path, trials, laws, winners, verdict.residual)


def _verdict(laws: torch.Tensor, sequence: Sequence, proposal: Proposal) -> Verdict:
    """Picks the rule. `position` is where the first new token will stand."""
    params, position, drafts = sequence.params, len(sequence), proposal.token_ids

    def coin(purpose: str, depth: int, index: int = 0) -> float:
        return uniform(params.seed, position + depth, purpose, index)

    if params.rule == "sampler_match" or not drafts:
        parents = proposal.parents
        depth = len(drafts) if parents is None else int(depths(with_root(parents)).max())
        if not drafts:
            token = sample(laws[0], coin("target", 0))
            return Verdict(0, token, (token,), (), (), None)
        return accept_sampler_match(laws, drafts, [coin("target", d) for d in range(depth + 1)], parents)
    if params.rule == "typical":
        return accept_typical(laws, drafts, lambda accepted: coin("resample", accepted), proposal.parents)
    if proposal.parents is None:
        coins = [coin("accept", index) for index in range(len(drafts))]
        return accept_chain(laws, proposal.laws, drafts, coins, lambda accepted: coin("resample", accepted))
    tree = DraftTree(drafts, proposal.parents, proposal.laws, proposal.children)
    node_depths = depths(with_root(proposal.parents))[1:] - 1
    coins = [coin("accept", int(depth), node) for node, depth in enumerate(node_depths)]
    return accept_tree(tree, laws, coins, lambda accepted: coin("resample", accepted))


def _histories(sequence: Sequence, proposal: Proposal) -> list[int] | list[list[int]]:
    """What each row follows, for the penalties; they differ from row to row by the drafts before it."""
    if not sequence.params.is_penalised:
        return []
    histories = [sequence.token_ids]
    for index, token in enumerate(proposal.token_ids):
        parent = index if proposal.parents is None else proposal.parents[index] + 1
        histories.append([*histories[parent], token])
    return histories


def _last_fate(proposal: Proposal, path: tuple[int, ...]) -> str:
    if not proposal.token_ids:
        return "target"
    last = path[-1] if path else -1
    parents = range(-1, len(proposal.token_ids) - 1) if proposal.parents is None else proposal.parents
    return "resampled" if last in parents else "bonus"
