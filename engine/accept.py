"""The acceptance rules: which drafted tokens stay, and which token follows them.

Knows nothing of logits, caches or events: laws, tokens and coins go in, a Verdict comes out. The exact laws of these
rules, and the wrong rules that lessons hold against them, are in `engine.laws`.

A row is a place in a draft: row 0 comes before all drafts, row 1 + i after draft i; `target_probs[row]` is the law of
the token that follows there. Comparisons and residuals are in float64, on the CPU.
"""

import math
from collections.abc import Callable

import torch

from engine.errors import EngineError
from engine.sampling import sample
from engine.verdict import DraftTree, Floats, Ints, Laws, Trial, Verdict, as_list, children_by_row

Generator = torch.Generator | Callable[[int], float] | None  # a function: number accepted → uniform number of [0, 1)

# ---- exact: the output follows the target's law --------------------------------------------------------------------


def accept_chain(
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor | None,
    draft_tokens: Ints,
    uniforms: Floats,
    generator: Generator = None,
) -> Verdict:
    """Accept x at position i iff uniforms[i] · q_i(x) < p_i(x); make up for the first refusal from the residual.

    target_probs: (K+1, vocab). draft_probs: (K, vocab), the laws that the drafts were really drawn from, or None for
    drafts that were not drawn (greedy, lookup), whose q is one-hot. draft_tokens, uniforms: (K,). generator: draws the
    next token; a torch.Generator, or a function from the number of accepted drafts to a uniform number. After K
    acceptances the next token is the bonus, from p_K. Raises EngineError("bad_shape").
    Source: Leviathan et al., ICML 2023, Algorithm 1; Chen et al., 2023, Algorithm 2 (with p and q swapped).
    """
    tokens, coins = as_list(draft_tokens), as_list(uniforms)
    _check_shapes(target_probs, draft_probs, tokens, coins)
    trials: list[Trial] = []
    for i, token in enumerate(tokens):
        p, q = float(target_probs[i, token]), 1.0 if draft_probs is None else float(draft_probs[i, token])
        trials.append(Trial(i, token, p, q, coins[i], is_accepted=_is_kept(p, q, coins[i])))
        if not trials[-1].is_accepted:
            draft = None if draft_probs is None else _law(draft_probs[i])
            residual = _residual(_law(target_probs[i]), draft, token)
            return _verdict(trials, _draw(residual, generator, i), residual)
    return _verdict(trials, _draw(target_probs[len(tokens)], generator, len(tokens)))


def accept_tree(tree: DraftTree, target_probs: Laws, uniforms: Floats, generator: Generator = None) -> Verdict:
    """Walk from the root: try a node's children in order, each against what its refused siblings left of the law.

    target_probs: rows 0…N of (vocab,); only rows on the path are read, so a lazy sequence will do. uniforms: (N,).
    generator: as in `accept_chain`, which this is when every node has one child.
    Source: SpecInfer (Miao et al., ASPLOS 2024, Algorithm 2) for "iid" and, with several drafters, "each"; recursive
    rejection without replacement (Jeon et al., 2024) for "distinct"; EAGLE-2 (Li et al., EMNLP 2024) for "given".
    """
    coins, children = as_list(uniforms), children_by_row(tree.parents, len(tree.tokens))
    trials: list[Trial] = []
    row, depth = 0, 0
    while children[row]:
        left = _law(target_probs[row])
        draft = None if tree.draft_probs is None or tree.children == "each" else _law(tree.draft_probs[row])
        for child in children[row]:
            if tree.children == "each":
                draft = _law(tree.draft_probs[child])
            token = tree.tokens[child]
            p, q = float(left[token]), 1.0 if draft is None else float(draft[token])
            trials.append(Trial(child, token, p, q, coins[child], is_accepted=_is_kept(p, q, coins[child])))
            if trials[-1].is_accepted:
                break
            left = _residual(left, draft, token)
            if tree.children == "distinct":
                draft = _without(draft, token)
        else:
            return _verdict(trials, _draw(left, generator, depth), left)
        row, depth = child + 1, depth + 1
    return _verdict(trials, _draw(target_probs[row], generator, depth))


def accept_greedy(target_argmax: Ints, draft_tokens: Ints, parents: Ints | None = None) -> Verdict:
    """Accept the drafts that the target would have chosen itself; the next token is its next choice.

    target_argmax: (1 + N,) per row. draft_tokens: (N,). parents: of a tree, as in `DraftTree`; None for a chain.
    """
    choices = as_list(target_argmax)
    return _followed(draft_tokens, parents, lambda row, depth: (choices[row], None, None))


def accept_sampler_match(
    target_probs: Laws, draft_tokens: Ints, uniforms: Floats, parents: Ints | None = None
) -> Verdict:
    """Draw the target's own token at each place and accept the draft that equals it: exact, but accepts less.

    A draft drawn from q is accepted with Σ p·q instead of Σ min(p, q). uniforms: (depth + 1,), the coin that draws the
    target's token at each depth; with the coins of plain decoding the output is that of plain decoding, token for
    token. target_probs: rows 0…N, read on the path only. draft_tokens: (N,). parents: of a tree; None for a chain.
    """
    coins = as_list(uniforms)

    def choose(row: int, depth: int) -> tuple[int, torch.Tensor, float]:
        return sample(target_probs[row], coins[depth]), target_probs[row], coins[depth]

    return _followed(draft_tokens, parents, choose)


# ---- not exact: typical acceptance ---------------------------------------------------------------------------------


def accept_typical(
    target_probs: Laws, draft_tokens: Ints, generator: Generator = None, parents: Ints | None = None
) -> Verdict:
    """Accept drafts that are not too improbable, along the longest path of such drafts. The output law is not p.

    The next token is drawn from the target's law after the path. target_probs: rows 0…N. draft_tokens: (N,). parents:
    of a tree; None for a chain. Of paths equally long the first is taken.
    Source: Cai et al., Medusa, ICML 2024, §2.3.1 (whose first token is always the target's own).
    """
    tokens = as_list(draft_tokens)
    children = children_by_row(parents, len(tokens))
    paths: list[tuple[int, ...]] = [()]  # of drafts that all pass, in the order in which they are found
    looked_at: list[tuple[int, float]] = []
    for path in paths:  # grows while it is read: breadth first
        row = path[-1] + 1 if path else 0
        for node in children[row]:
            looked_at.append((node, float(target_probs[row][tokens[node]])))
            if looked_at[-1][1] > typical_threshold(target_probs[row]):
                paths.append((*path, node))
    path = max(paths, key=len)
    trials = [Trial(node, tokens[node], p, 1.0, None, is_accepted=node in path) for node, p in looked_at]
    return _verdict(trials, _draw(target_probs[path[-1] + 1 if path else 0], generator, len(path)))


def typical_threshold(law: torch.Tensor, epsilon: float = 0.09, delta: float = 0.3) -> float:
    """Return min(ε, δ·e^(−H)) for a law (vocab,) of entropy H in nats: a draft passes if its probability is above."""
    entropy = torch.special.entr(_law(law)).sum()
    return min(epsilon, delta * float(torch.exp(-entropy)))


# ---- what the rules share ------------------------------------------------------------------------------------------


def _is_kept(p: float, q: float, coin: float) -> bool:
    """u · q < p. Raises EngineError("bad_logits") for NaN, which would be refused without a word."""
    if math.isnan(p + q + coin):
        raise EngineError("bad_logits", f"a draft cannot be judged by p = {p}, q = {q}, u = {coin}", p=p, q=q, u=coin)
    return coin * q < p


def _check_shapes(target_probs: torch.Tensor, draft_probs: torch.Tensor | None, tokens: list, coins: list) -> None:
    num_drafts, vocab = len(tokens), target_probs.shape[-1]
    is_right = tuple(target_probs.shape) == (num_drafts + 1, vocab) and len(coins) == num_drafts
    if draft_probs is not None and num_drafts > 0:
        is_right = is_right and tuple(draft_probs.shape) == (num_drafts, vocab)
    if not is_right or not all(0 <= token < vocab for token in tokens):
        shapes = tuple(target_probs.shape), None if draft_probs is None else tuple(draft_probs.shape), len(coins)
        sentence = (
            f"K = {num_drafts} drafts need target laws (K+1, vocab), draft laws (K, vocab), K coins, tokens < vocab; "
            f"the target laws are {shapes[0]}, the draft laws {shapes[1]}, the coins {shapes[2]}, the tokens {tokens}"
        )
        raise EngineError("bad_shape", sentence, num_drafts=num_drafts, shapes=shapes)


def _draw(law: torch.Tensor, generator: Generator, num_accepted: int) -> int:
    if generator is None or isinstance(generator, torch.Generator):
        device = "cpu" if generator is None else generator.device
        return sample(law, torch.rand((), dtype=torch.float64, device=device, generator=generator).item())
    return sample(law, generator(num_accepted))


def _verdict(trials: list[Trial], next_token: int, residual: torch.Tensor | None = None) -> Verdict:
    accepted = [trial for trial in trials if trial.is_accepted]
    tokens = (*(trial.token for trial in accepted), next_token)
    path = tuple(trial.node for trial in accepted)
    return Verdict(len(path), next_token, tokens, path, tuple(trials), residual)


def _followed(draft_tokens: Ints, parents: Ints | None, choose: Callable) -> Verdict:
    """Walk down a tree while a child is the token that `choose(row, depth)` gives, along with its law and coin."""
    tokens = as_list(draft_tokens)
    children = children_by_row(parents, len(tokens))
    trials: list[Trial] = []
    row, depth = 0, 0
    while True:
        chosen, law, coin = choose(row, depth)
        for child in children[row]:
            p = float(tokens[child] == chosen) if law is None else float(law[tokens[child]])
            trials.append(Trial(child, tokens[child], p, 1.0, coin, is_accepted=tokens[child] == chosen))
            if trials[-1].is_accepted:
                break
        else:
            return _verdict(trials, chosen)
        row, depth = child + 1, depth + 1


def _law(probs: torch.Tensor) -> torch.Tensor:
    return torch.as_tensor(probs).detach().cpu().double()


def _residual(law: torch.Tensor, draft: torch.Tensor | None, token: int) -> torch.Tensor:
    """Return max(p − q, 0), normalised, or p itself if its mass is 0. `draft` None: q is one-hot at `token`."""
    if draft is None:
        return _without(law, token)
    return _normalised((law - draft).clamp(min=0.0), law)


def _without(law: torch.Tensor, token: int) -> torch.Tensor:
    """Return the law given that its draw is not `token`; the law itself if it has no other token."""
    rest = law.clone()
    rest[token] = 0.0
    return _normalised(rest, law)


def _normalised(part: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
    mass = part.sum()
    return part / mass if mass > 0.0 else whole
