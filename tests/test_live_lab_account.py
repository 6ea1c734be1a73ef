"""The account of a race (lessons/live_lab_account.py): by hand, and on made-up runs whose rule is checked first."""

import json

import pytest
from odd_races import NONSENSE, in_chunks, spoilt, stopped
from toy_race import Toy, toy_race

from engine import RoundFinished, Sampled, Verified, decode, encode, fold
from engine import events as told
from lessons.live_lab_account import RaceAccount, first_difference, race_account


def account_of(**toy: object) -> RaceAccount:
    return race_account(toy_race(Toy(**toy)))


# ---- the toy is honest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_toy_accepts_exactly_where_u_times_q_is_below_p(seed: int) -> None:
    for event in toy_race(Toy(seed=seed)):
        if isinstance(event, Verified):
            for p, q, u, verdict in zip(event.p, event.q, event.u, event.verdicts, strict=True):
                assert verdict == ("unreached" if u is None else "accepted" if u * q < p else "rejected")


def test_the_toy_survives_json_and_the_fold() -> None:
    events = toy_race()
    assert [decode(json.loads(json.dumps(encode(event)))) for event in events] == events
    state = fold(events)
    assert not state.tables
    assert {name: request.status for name, request in state.requests.items()} == {
        "vanilla": "finished",
        "speculative": "finished",
    }


# ---- the account, by hand ----------------------------------------------------------------------------------------


def bill(name: str, number: int, draft: float, forward: float, other: float, clock: float) -> RoundFinished:
    return RoundFinished(
        step=0, clock=clock, request_id=name, round=number, seconds_draft=draft, seconds_forward=forward,
        seconds_accept=other, seconds_other=0.0, request_clock=clock, num_cached=0, num_draft_cached=0,
    )  # fmt: skip


def sampled(name: str, number: int, *tokens: int, first: int) -> list[Sampled]:
    return [
        Sampled(step=0, clock=0.0, request_id=name, round=number, index=first + at, token_id=token, piece="x",
                label="x", fate="target", p=1.0, p_model=None)
        for at, token in enumerate(tokens)
    ]  # fmt: skip


def drafted(number: int, verdicts: tuple[str, ...]) -> list[told.Event]:
    size = len(verdicts)
    base = {"step": 0, "clock": 0.0, "request_id": "speculative", "round": number, "token_ids": (0,) * size}
    return [
        told.Drafted(**base, drafter="d", pieces=("x",) * size, parents=tuple(range(-1, size - 1)), q=(1.0,) * size,
                     is_point_mass=True, found_at=-1, seconds=0.0),
        told.Verified(**base, rule="exact", p=(1.0,) * size, p_model=(), q=(1.0,) * size, u=(None,) * size,
                      verdicts=verdicts, num_accepted=verdicts.count("accepted"), num_rows=size + 1),
    ]  # fmt: skip


@pytest.fixture
def by_hand() -> RaceAccount:
    """Vanilla: 1 + 4 tokens, steps of 10 ms. Speculative: 1 + 4 tokens in 2 rounds of 3 drafts."""
    events = [event for event in toy_race() if isinstance(event, told.Submitted)]
    for number in range(5):
        events += [*sampled("vanilla", number, number, first=number)]
        events += [bill("vanilla", number, 0.0, 0.05 if number == 0 else 0.01, 0.0, 0.05 + 0.01 * number)]
    events += [*sampled("speculative", 0, 0, first=0), bill("speculative", 0, 0.0, 0.06, 0.0, 0.06)]
    events += drafted(1, ("accepted", "accepted", "rejected"))
    events += [*sampled("speculative", 1, 1, 2, 7, first=1), bill("speculative", 1, 0.006, 0.012, 0.002, 0.08)]
    events += drafted(2, ("rejected", "unreached", "unreached"))
    events += [*sampled("speculative", 2, 4, first=4), bill("speculative", 2, 0.006, 0.012, 0.002, 0.10)]
    return race_account(events)


def test_ttft_and_tpot_are_the_request_s_own(by_hand: RaceAccount) -> None:
    assert (by_hand.vanilla.ttft, by_hand.speculative.ttft) == (0.05, 0.06)
    assert by_hand.vanilla.tpot == pytest.approx(0.01)  # (0.09 − 0.05) ÷ (5 − 1)
    assert by_hand.speculative.tpot == pytest.approx(0.01)  # (0.10 − 0.06) ÷ (5 − 1)


def test_tau_counts_the_last_token_of_a_round_and_not_the_prompt_s_pass(by_hand: RaceAccount) -> None:
    assert by_hand.tau == 2.0  # (3 + 1) tokens ÷ 2 passes
    assert by_hand.passes_saved == 2


def test_acceptance_by_position_is_of_those_looked_at(by_hand: RaceAccount) -> None:
    assert by_hand.by_position == ((1, 2), (1, 1), (0, 1))
    assert by_hand.alpha == pytest.approx(2 / 4)


def test_costs_are_in_plain_steps(by_hand: RaceAccount) -> None:
    assert by_hand.c == pytest.approx(0.2)  # 6 ms for 3 drafts, over 10 ms
    assert by_hand.verify_ratio == pytest.approx(1.2)


def test_the_predictions_add_one_cost_at_a_time(by_hand: RaceAccount) -> None:
    assert by_hand.expected == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert by_hand.textbook == pytest.approx(1.875 / (0.6 + 1))
    assert by_hand.with_verify == pytest.approx(1.875 / (0.6 + 1.2))
    assert by_hand.predicted == pytest.approx(1.875 / (0.6 + 1.2 + 0.2))
    assert by_hand.measured == pytest.approx(1.0)
    assert by_hand.explained.predicted == pytest.approx(by_hand.measured)  # τ over the cost of a round


def test_the_first_difference_is_found(by_hand: RaceAccount) -> None:
    assert by_hand.differs_at == 3
    assert first_difference((1, 2), (1, 2), are_finished=True) == -1
    assert first_difference((1, 2), (1, 2, 3), are_finished=True) == 2


def test_a_stopped_text_is_compared_as_far_as_it_goes() -> None:
    assert first_difference((1, 2), (1, 2, 3), are_finished=False) == -1
    assert first_difference((1, 9), (1, 2, 3), are_finished=False) == 1


# ---- the account, on the toy -------------------------------------------------------------------------------------


@pytest.mark.parametrize("toy", [{}, {"seed": 5, "draft_length": 8}, {"is_point_mass": True}, {"temperature": 0.0}])
def test_measured_speed_is_tau_over_the_cost_of_a_round(toy: dict) -> None:
    account = account_of(**toy)
    assert account.explained.predicted == pytest.approx(account.measured, rel=1e-6)
    assert account.speculative.num_generated == Toy(**toy).num_tokens - 1


def test_without_drafts_both_are_vanilla() -> None:
    account = account_of(draft_length=0)
    assert (account.tau, account.alpha, account.by_position, account.c) == (1.0, 0.0, (), 0.0)
    assert account.measured == pytest.approx(1.0, rel=0.05)


def test_greedy_texts_of_the_toy_are_the_same() -> None:
    assert account_of(temperature=0.0).differs_at == -1


@pytest.mark.parametrize("num_tokens", [1, 0])
def test_a_run_of_one_token_has_no_account(num_tokens: int) -> None:
    events = [event for event in toy_race() if not isinstance(event, Sampled) or event.index < num_tokens]
    assert race_account(events) is None


@pytest.mark.parametrize("reason", ["abort", "error"])
def test_texts_that_somebody_cut_off_are_the_same_so_far(reason: str) -> None:
    whole = toy_race(Toy(temperature=0.0))
    assert race_account(whole).are_finished
    account = race_account(stopped(whole, 9, reason))
    assert (account.are_finished, account.differs_at) == (False, -1)


def test_the_time_to_the_first_token_holds_all_parts_of_a_long_prompt() -> None:
    whole, parts = race_account(toy_race()), race_account(in_chunks(toy_race(), 0.05))
    for one, other in ((whole.vanilla, parts.vanilla), (whole.speculative, parts.speculative)):
        assert other.ttft == pytest.approx(one.ttft + 0.05)
        assert other.tpot == pytest.approx(one.tpot)
    assert parts.measured == pytest.approx(whole.measured)
    assert parts.c == pytest.approx(whole.c)


@pytest.mark.parametrize("change", NONSENSE, ids=str)
def test_what_no_engine_can_report_has_no_account(change: dict) -> None:
    assert race_account(spoilt(toy_race(), change)) is None


def test_half_a_run_has_an_account_of_what_is_billed() -> None:
    events = toy_race()
    for cut in range(0, len(events), 23):
        account = race_account(events[:cut])
        assert account is None or account.tau >= 1
