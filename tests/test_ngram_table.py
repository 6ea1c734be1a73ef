"""The table of n-grams: counts by hand and against a dictionary, files, chains, and lookup in front of it."""

import hashlib
import json
from collections import Counter, defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from engine import EngineError, Request, SamplingParams
from engine.drafters import lookup_first
from engine.drafters.drafter import NOTHING
from engine.drafters.ngram_table import BACK_OFF, LEAST, Contexts, NgramTable, NgramTableDrafter, read_table
from engine.events import Drafted
from engine.head import SHIPPED
from engine.train import answers as store
from engine.train import ngram_table
from engine.train.__main__ import main
from engine.train.answers import Answers, is_held_out
from tests.toys import VOCAB_SIZE, toy_engine, toy_table


def answers_of(*sequences: tuple[list[int], list[int]], sha256: str = "a" * 64, temperature=()) -> Answers:
    """Answers from (prompt, answer)."""
    whole = [prompt + answer for prompt, answer in sequences]
    return Answers(
        sha256,
        np.array([token for ids in whole for token in ids], np.uint16),
        np.array([len(ids) for ids in whole], np.uint16),
        np.array([len(prompt) for prompt, _ in sequences], np.uint16),
        np.zeros(len(whole), np.uint8),
        np.array(temperature or [0.0] * len(whole), np.float32),
    )


def some_answers(number: int, seed: int = 0) -> Answers:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 12, (number, 2))
    sequences = [[draw.integers(0, 12, size).tolist() for size in pair] for pair in lengths]
    return answers_of(*sequences, temperature=[0.0, 0.7] * (number // 2))


def contexts(entries: dict[int, tuple[int, float]]) -> Contexts:
    keys = sorted(entries)
    tokens, probabilities = ([entries[key][part] for key in keys] for part in (0, 1))
    return Contexts(np.array(keys), np.array(tokens, np.int32), np.array(probabilities, np.float16))


def pair(before: int, last: int) -> int:
    return before << 32 | last


# ---- counting ---------------------------------------------------------------------------------------------------


def test_counts_of_a_small_corpus_by_hand():
    """Only answers are predicted: 7 after 5 6 stands in a prompt. The first answer's contexts reach into its prompt.

    Trigrams: 12→3 twice, 23→1, 31→2, 23→2, 32→3: four once, one twice, D = 4 / (4 + 2 · 1) = 2/3. Bigrams: 2→3 three
    times, 3→1, 1→2, 3→2: three once, none twice, D = 3/3 = 1, so that a pair seen once has no probability.
    """
    table = ngram_table.count(answers_of(([5, 6, 7, 1, 2], [3, 1, 2, 3, 2, 3])), [0])
    found = {int(key): (int(t), float(p)) for key, t, p in zip(*parts(table.trigrams), strict=True)}
    assert found.keys() == {pair(1, 2), pair(2, 3), pair(3, 1), pair(3, 2)}
    assert found[pair(1, 2)] == (3, pytest.approx((2 - 2 / 3) / 2, abs=1e-3))
    assert found[pair(2, 3)] == (1, pytest.approx((1 - 2 / 3) / 2, abs=1e-3))  # 1 and 2 once each: the smaller
    assert found[pair(3, 1)] == (2, pytest.approx(1 / 3, abs=1e-3))
    assert [part.tolist() for part in parts(table.bigrams)[:2]] == [[1, 2, 3], [2, 3, 1]]
    assert table.bigrams.probabilities.tolist() == pytest.approx([0, 2 / 3, 0], abs=1e-3)


def parts(found: Contexts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return found.keys, found.tokens, found.probabilities


@pytest.mark.parametrize("seed", range(4))
def test_counts_equal_those_of_a_dictionary(seed):
    answers = some_answers(60, seed)
    chosen = [index for index in range(60) if not is_held_out(index)]
    table = ngram_table.count(answers, chosen)
    for order, found in ((2, table.bigrams), (3, table.trigrams)):
        counts = defaultdict(Counter)
        for index in chosen:
            ids = answers.sequence(index).tolist()
            for place in range(max(int(answers.num_prompt[index]), order - 1), len(ids)):
                context = ids[place - 1] if order == 2 else pair(ids[place - 2], ids[place - 1])
                counts[context][ids[place]] += 1
        times = Counter(count for followers in counts.values() for count in followers.values())
        discount = times[1] / max(1, times[1] + 2 * times[2])
        best = {key: min(followers, key=lambda t: (-followers[t], t)) for key, followers in counts.items()}
        assert dict(zip(found.keys.tolist(), found.tokens.tolist(), strict=True)) == best
        assert found.keys.tolist() == sorted(best)
        wanted = [(counts[key][best[key]] - discount) / counts[key].total() for key in sorted(best)]
        assert found.probabilities.tolist() == pytest.approx(wanted, abs=1e-3)


# ---- the examination --------------------------------------------------------------------------------------------


def test_predictions_and_chains_of_one_answer_by_hand():
    """1→2→3→4→1 … is all that the table knows; the answer 2 3 9 1 2 follows 1. Right: 2, 3, and 2 after 1.

    Chains begun at each of five: 2 right, its second right (3), its third wrong (4 ≠ 9). 3 right, its second wrong. The
    last is right and has no second.
    """
    table = NgramTable("a" * 64, contexts({pair(90, 90): (0, 1.0)}), contexts({1: (2, 1), 2: (3, 1), 3: (4, 1)}))
    answers = answers_of(([1], [2, 3, 9, 1, 2]))
    found = ngram_table.predicted(table, answers, [0])
    assert found == {"trigram": 0.0, "bigram": pytest.approx(3 / 5), "together": pytest.approx(3 / 5)}
    assert ngram_table.chains(table, answers, [0]) == pytest.approx([3 / 5, 1 / 2, 0.0, 0.0])


def test_a_replay_counts_rounds_and_drafts_by_hand():
    """Drafts after 1: 2 3 4 (0.4³ · … stays above LEAST for two), so: 2 3 | 9, then 1 | 2 …; the last has no draft."""
    table = NgramTable("a" * 64, contexts({pair(90, 90): (0, 1.0)}), contexts({1: (2, 1), 2: (3, 1), 3: (4, 1)}))
    found = ngram_table.replayed(lambda: NgramTableDrafter(table), answers_of(([1], [2, 3, 9, 1, 2])), [0])
    # Round 1 drafts 2 3 (0.4, 0.16; 0.064 is too little): both right, then 9. Round 2: nothing known after 9: 1.
    # Round 3: one token is left, so none is asked for: 2.
    assert found == {"tau": pytest.approx(5 / 3, abs=1e-3), "accepted_drafts": 1.0}
    assert BACK_OFF**3 < LEAST < BACK_OFF**2


# ---- files ------------------------------------------------------------------------------------------------------


def test_the_command_writes_table_and_card(tmp_path, capsys):
    answers = some_answers(84)
    store.save(answers, tmp_path / "toy.npz")
    assert main(["ngram_table", "--answers", str(tmp_path / "toy.npz"), "--out", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ngram_table.json", "ngram_table.safetensors"]
    card = json.loads((tmp_path / "out" / "ngram_table.json").read_text(encoding="utf-8"))
    path = tmp_path / "out" / "ngram_table.safetensors"
    assert card["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (card["target"], card["target_sha256"], card["answers"]) == ("toy", "a" * 64, 84)
    assert (card["answer_tokens"], card["held_out_answers"]) == (answers.num_answer_tokens, 4)
    assert sorted(card["held_out"]) == ["0.0", "0.7"]
    table = read_table(path, model_of("a" * 64))
    wanted = ngram_table.count(answers, [index for index in range(84) if not is_held_out(index)])
    assert card["trigram_contexts"] == len(wanted.trigrams.keys)
    for one, other in ((table.trigrams, wanted.trigrams), (table.bigrams, wanted.bigrams)):
        assert all(np.array_equal(*both) for both in zip(parts(one), parts(other), strict=True))


def test_too_few_answers_to_examine_on_are_named(tmp_path, capsys):
    store.save(some_answers(4), tmp_path / "few.npz")
    assert main(["ngram_table", "--answers", str(tmp_path / "few.npz"), "--out", str(tmp_path / "out")]) == 2
    assert "4 answers" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()


def model_of(sha256: str) -> SimpleNamespace:
    return SimpleNamespace(sha256=sha256, name="toy")


def refused(path) -> str:
    with pytest.raises(EngineError) as caught:
        read_table(path, model_of("a" * 64))
    return caught.value.code


def test_a_broken_file_is_refused(tmp_path):
    path = ngram_table.save(toy_table("a" * 64), tmp_path)
    whole, tensors = path.read_bytes(), load_file(path)
    for broken in (whole[:-8], whole[:20], b"", b"\x00" * 64):
        path.write_bytes(broken)
        assert refused(path) == "bad_head"
    changes = [
        ("trigrams.keys", lambda keys: keys[::-1].copy()),
        ("trigrams.keys", lambda keys: keys.astype(np.int32)),
        ("trigrams.tokens", lambda tokens: tokens[1:].copy()),
        ("trigrams.tokens", lambda tokens: -1 - tokens),
        ("bigrams.probabilities", lambda chances: 2 + chances),
        ("bigrams.probabilities", lambda chances: chances * np.float16("nan")),
    ]
    about = {"table": json.dumps({"kind": "ngram_table", "target": "a" * 64})}
    for name, change in changes:
        save_file(tensors | {name: change(tensors[name])}, path, about)
        assert refused(path) == "bad_head"
    save_file({name: tensor[:0] for name, tensor in tensors.items()}, path, about)
    assert refused(path) == "bad_head"
    save_file(tensors, path)
    assert refused(path) == "bad_head"
    save_file(tensors, path, {"table": "[]"})
    assert refused(path) == "bad_head"
    assert refused(tmp_path / "missing.safetensors") == "bad_head"
    save_file(tensors, path, about)
    read_table(path, model_of("a" * 64))


def test_a_table_of_other_weights_is_refused(tmp_path):
    assert refused(ngram_table.save(toy_table("b" * 64), tmp_path)) == "other_weights"


def test_the_engine_reads_the_table_when_it_is_first_asked_for_and_once(tmp_path, monkeypatch):
    engine = toy_engine()
    del engine._admission._extra_drafters["ngram_table"]
    monkeypatch.setattr("engine.drafters.shelf.SHIPPED", tmp_path)
    with pytest.raises(EngineError) as caught:
        engine.generate([1, 2, 3], SamplingParams(4), "ngram_table")
    assert caught.value.code == "no_head"
    ngram_table.save(toy_table("b" * 64), tmp_path)
    with pytest.raises(EngineError) as caught:
        engine.generate([1, 2, 3], SamplingParams(4), "ngram_table")
    assert caught.value.code == "other_weights"
    path = ngram_table.save(toy_table(engine.model.sha256), tmp_path)
    plain = engine.generate([1, 2, 3], SamplingParams(20, draft_length=0)).token_ids
    assert engine.generate([1, 2, 3], SamplingParams(20), "ngram_table").token_ids == plain
    path.unlink()
    assert engine.generate([1, 2, 3], SamplingParams(20), "ngram_table").token_ids == plain


# ---- drafts -----------------------------------------------------------------------------------------------------

TABLE = NgramTable(
    "a" * 64,
    contexts({pair(1, 2): (3, 0.5), pair(2, 3): (4, 0.5), pair(3, 4): (5, 0.3), pair(8, 9): (1, 0.05)}),
    contexts({4: (6, 1.0), 5: (7, 0.3), 7: (8, 1.0), 9: (2, 1.0)}),
)


@pytest.mark.parametrize(
    ("text", "num_tokens", "drafts"),
    [
        ([1, 2], 4, (3, 4)),  # 0.5, 0.25, 0.075 < LEAST
        ([1, 2], 1, (3,)),
        ([1, 2], 0, ()),
        ([2, 3], 4, (4, 5)),  # 0.5, 0.15; after 4 5 only 5 is known: 0.15 · 0.4 · 0.3
        ([3, 4], 4, (5,)),
        ([0, 4], 4, (6,)),  # the pair is unknown: 0.4 · 1; after 6 nothing is
        ([4], 4, (6,)),  # one token: no pair at all
        ([0, 5], 4, (7,)),  # 0.4 · 0.3 = 0.12, then 0.4 · 0.12
        ([8, 9], 4, ()),  # the pair is known and unsure; the bigram is not asked
        ([0, 0], 4, ()),
        ([], 4, ()),
    ],
)
def test_a_chain_goes_on_as_long_as_all_of_it_may_well_be_right(text, num_tokens, drafts):
    assert TABLE.chain(text, num_tokens) == drafts
    assert all(type(token) is int for token in drafts)
    found = NgramTableDrafter(TABLE).propose(SimpleNamespace(token_ids=text), num_tokens, ())
    assert (found is NOTHING) if not drafts else (found.token_ids == drafts)
    assert (found.laws, found.parents, found.found_at) == (None, None, -1)


def test_lookups_come_first_and_only_they_are_told_how_they_did(monkeypatch):
    told = []
    monkeypatch.setattr(lookup_first.NgramDrafter, "update", lambda self, sequence, *numbers: told.append(numbers))
    drafter = NgramTableDrafter(TABLE)
    text = SimpleNamespace(token_ids=[1, 2, 7, 1, 2])
    assert drafter.propose(text, 3, ()).token_ids == (7, 1, 2)
    drafter.update(text, 3, 2)
    other = SimpleNamespace(token_ids=[*text.token_ids, 3])
    assert drafter.propose(other, 3, ()).token_ids == (4, 5)
    drafter.update(other, 2, 0)
    assert told == [(3, 2)]


def test_look_up_takes_many_contexts_at_once():
    before, last = np.array([1, 8, 0, -1]), np.array([2, 9, 4, 0])
    tokens, probabilities = TABLE.after(before, last)
    assert tokens.tolist()[:3] == [3, 1, 6]
    assert probabilities.tolist() == pytest.approx([0.5, 0.05, BACK_OFF, 0], abs=1e-3)


def test_in_the_engine_both_kinds_of_drafts_are_made():
    events = toy_engine().run([Request([1, 2, 3, 1, 2, 4], SamplingParams(40, temperature=1.5), "ngram_table")])
    drafted = [event for event in events if isinstance(event, Drafted)]
    assert {event.found_at >= 0 for event in drafted} == {True, False}
    assert all(0 <= token < VOCAB_SIZE for event in drafted for token in event.token_ids)


# ---- the table that is shipped ----------------------------------------------------------------------------------


def test_the_card_of_the_shipped_table_is_that_of_its_file():
    path = SHIPPED / "ngram_table.safetensors"
    card = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert card["file_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    table = read_table(path, model_of(card["target_sha256"]))
    assert card["trigram_contexts"] == len(table.trigrams.keys)
    assert path.stat().st_size < 10_000_000
    for found in card["held_out"].values():
        shares = found["predicted"]
        assert 0.1 < shares["bigram"] < shares["trigram"] < shares["together"] == found["acceptance"][0] < 0.9
