"""`python -m engine.train ngram_table`: counts which token follows which in the answers, and writes table and card.

Knows nothing of models: only answers are read. It takes seconds, and is examined on the answers that it never counted.
"""

import argparse
import hashlib
import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from safetensors.numpy import save as as_bytes

from engine.drafters.drafter import Drafter
from engine.drafters.ngram import NgramDrafter
from engine.drafters.ngram_table import KINDS, Contexts, NgramTable, NgramTableDrafter, pair_keys
from engine.drafters.suffix import SuffixDrafter
from engine.head import SHIPPED
from engine.train import answers as store
from engine.train.answers import Answers, is_held_out
from engine.train.data import ANSWERS
from engine.train.loop import mean_accepted_length

CHAIN = 4  # drafts of a chain in the examination


def main(arguments: list[str]) -> int:
    """Count, examine, write."""
    parser = argparse.ArgumentParser(prog="python -m engine.train ngram_table", description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=Path, default=ANSWERS)
    parser.add_argument("--out", type=Path, default=SHIPPED)
    options = parser.parse_args(arguments)
    answers = store.load(options.answers)
    learned = [index for index in range(len(answers)) if not is_held_out(index)]
    kept = [index for index in range(len(answers)) if is_held_out(index)]
    if not kept:
        print(f"{options.answers} has {len(answers)} answers; {store.HELD_OUT} are needed, one of them to examine on.")
        return 2
    table = count(answers, learned)
    path = save(table, options.out)
    card = {
        "kind": "ngram_table", "target": options.answers.stem, "target_sha256": answers.sha256,
        "answers": len(answers), "answer_tokens": answers.num_answer_tokens, "held_out_answers": len(kept),
        "trigram_contexts": len(table.trigrams.keys), "bigram_contexts": len(table.bigrams.keys),
        "held_out": examined(table, answers, kept),
        "file_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "machine": f"{platform.machine()}, numpy {np.__version__}", "date": time.strftime("%Y-%m-%d"),
    }  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(card["held_out"], indent=1))
    return 0


def count(answers: Answers, indices: Sequence[int]) -> NgramTable:
    """The table of these answers; a prompt's last tokens are contexts, but no prompt's token is to be predicted."""
    before, last, tokens = _rows(answers, indices)
    trigrams, bigrams = before >= 0, last >= 0
    return NgramTable(
        answers.sha256,
        most_frequent(pair_keys(before, last)[trigrams], tokens[trigrams]),
        most_frequent(last[bigrams], tokens[bigrams]),
    )


def most_frequent(keys: np.ndarray, tokens: np.ndarray) -> Contexts:
    """For each of the contexts the token that followed most often, of several the smallest id.

    Its probability is (count − D) / (count of the context) with D = n₁ / (n₁ + 2 n₂), where n₁ and n₂ are how many
    n-grams were seen once and twice (Ney, Essen & Kneser 1994): once in one case is no certainty.
    """
    contexts, at = np.unique(keys, return_inverse=True)
    vocab = int(tokens.max()) + 1
    grams, counts = np.unique(at * vocab + tokens, return_counts=True)
    at, tokens = grams // vocab, grams % vocab
    once, twice = int((counts == 1).sum()), int((counts == 2).sum())
    discount = once / max(1, once + 2 * twice)
    order = np.lexsort((tokens, -counts, at))
    best = order[np.unique(at[order], return_index=True)[1]]
    probabilities = (counts[best] - discount) / np.bincount(at, weights=counts)
    return Contexts(contexts.astype(np.int64), tokens[best].astype(np.int32), probabilities.astype(np.float16))


def save(table: NgramTable, into: Path) -> Path:
    """Writes the table as `engine.drafters.ngram_table` reads it, under another name first; returns where."""
    into.mkdir(parents=True, exist_ok=True)
    parts = {"trigrams": table.trigrams, "bigrams": table.bigrams}
    tensors = {f"{name}.{part}": getattr(contexts, part) for name, contexts in parts.items() for part in KINDS}
    building, path = into / f".ngram_table.{os.getpid()}.building", into / "ngram_table.safetensors"
    try:
        about = {"table": json.dumps({"kind": "ngram_table", "target": table.target})}
        building.write_bytes(as_bytes(tensors, about))
        building.replace(path)
    finally:
        building.unlink(missing_ok=True)
    return path


def examined(table: NgramTable, answers: Answers, kept: Sequence[int]) -> dict[str, dict]:
    """By temperature: shares of tokens that are predicted, chains of CHAIN tokens, and whole drafters replayed."""
    drafters: dict[str, Callable[[], Drafter]] = {
        "ngram": NgramDrafter, "suffix": SuffixDrafter, "ngram_table": lambda: NgramTableDrafter(table)
    }  # fmt: skip
    temperatures = {index: f"{answers.temperature[index]:.1f}" for index in kept}
    found = {}
    for temperature in sorted(set(temperatures.values())):
        chosen = [index for index in kept if temperatures[index] == temperature]
        acceptance = chains(table, answers, chosen)
        found[temperature] = {
            "tokens": sum(len(answers.answer(index)) for index in chosen),
            "predicted": {name: round(share, 4) for name, share in predicted(table, answers, chosen).items()},
            "acceptance": [round(share, 4) for share in acceptance],
            "tau": {str(k): round(mean_accepted_length(acceptance[:k]), 3) for k in range(1, CHAIN + 1)},
            "drafters": {name: replayed(make, answers, chosen) for name, make in drafters.items()},
        }
    return found


def predicted(table: NgramTable, answers: Answers, indices: Sequence[int]) -> dict[str, float]:
    """The share of answer tokens that are the table's guess after the text before them."""
    before, last, tokens = _rows(answers, indices)
    guesses = {
        "trigram": table.trigrams.look_up(pair_keys(before, last)),
        "bigram": table.bigrams.look_up(last),
        "together": table.after(before, last),
    }
    return {name: float(((guess == tokens) & (p > 0)).mean()) for name, (guess, p) in guesses.items()}


def chains(table: NgramTable, answers: Answers, indices: Sequence[int]) -> list[float]:
    """Of the chains begun at every answer token, and right so far, the share that is right at each position too.

    Here the table goes on however unsure it is.
    """
    right, begun = np.zeros(CHAIN, int), np.zeros(CHAIN, int)
    for index in indices:
        before, last, tokens = _rows(answers, [index])
        places = np.arange(len(tokens))  # of each chain's next token
        for position in range(CHAIN):
            guess, p = table.after(before, last)
            is_right = (guess == tokens[places]) & (p > 0)
            right[position] += is_right.sum()
            begun[position] += len(places)
            goes_on = is_right & (places + 1 < len(tokens))
            before, last, places = last[goes_on], guess[goes_on], places[goes_on] + 1
    return [float(one / max(1, all_)) for one, all_ in zip(right, begun, strict=True)]


def replayed(make: Callable[[], Drafter], answers: Answers, indices: Sequence[int]) -> dict[str, float]:
    """τ and the share of accepted drafts if a drafter had been asked for CHAIN tokens in each round of these answers.

    A draft is accepted where the answer went on like it; for point masses that is the exact rule's own law.
    """
    rounds, drafted, accepted, num_tokens = 0, 0, 0, 0
    for index in indices:
        whole, known, drafter = answers.sequence(index).tolist(), int(answers.num_prompt[index]), make()
        while known < len(whole):
            most = min(CHAIN, len(whole) - known - 1)
            text = SimpleNamespace(token_ids=whole[:known])
            drafts = drafter.propose(text, most, ()).token_ids if most else ()
            same = [one == other for one, other in zip(drafts, whole[known:], strict=False)]
            right = [*same, False].index(False)
            known += right + 1
            drafter.update(SimpleNamespace(token_ids=whole[:known]), len(drafts), right)
            rounds, drafted, accepted = rounds + 1, drafted + len(drafts), accepted + right
        num_tokens += len(answers.answer(index))
    return {"tau": round(num_tokens / max(1, rounds), 3), "accepted_drafts": round(accepted / max(1, drafted), 4)}


def _rows(answers: Answers, indices: Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each answer token of these sequences the token two before it, the one before it (−1 for none), and itself."""
    rows = []
    for index in indices:
        padded = np.concatenate((np.full(2, -1), answers.sequence(index).astype(np.int64)))
        first = int(answers.num_prompt[index])
        rows.append(np.stack((padded[first:-2], padded[first + 1 : -1], padded[first + 2 :])))
    before, last, tokens = np.concatenate(rows, axis=1)
    return before, last, tokens
