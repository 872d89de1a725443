from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.diagnose.judge import Judgement, judge_all
from bubblewatch.diagnose.lifecycle import Lifecycle
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS
from bubblewatch.model.findings import State, Verdict
from bubblewatch.model.server import Epoch
from tests.diagnose.make import TARGET, rule, signals

WATCHED: Rule = rule()  # for 30 s, clear_for 60 s
FIRST, SECOND = Epoch("boot", 100, 1), Epoch("boot", 200, 2)
STEP_S = 10
M, C, U = Verdict.MATCH, Verdict.CLEAR, Verdict.UNKNOWN


def said(verdict: Verdict, of: Rule = WATCHED) -> Judgement:
    given_values = {M: {"parallel.pp": 8, "demand.running": 8}, C: {"parallel.pp": 1}, U: {}}[verdict]
    judgement = judge_all(TARGET, signals(given_values), None, [of], one_shot=False)[0]
    assert judgement.verdict is verdict
    return judgement


def states(verdicts: list[Verdict], of: Rule = WATCHED) -> list[State | None]:
    """State of the finding after each step of 10 s; None = no finding."""
    life = Lifecycle()
    found = [life.step(n * STEP_S * NS, [said(verdict, of)]) for n, verdict in enumerate(verdicts)]
    return [step[0].state if step else None for step in found]


P, F, R, N = State.PENDING, State.FIRING, State.RESOLVED, None


def test_a_match_is_pending_until_it_has_held_for_its_time() -> None:
    assert states([M, M, M, M, M]) == [P, P, P, F, F]


def test_a_rule_without_a_time_fires_at_once() -> None:
    assert states([M], dataclasses.replace(WATCHED, for_s=0.0)) == [F]


def test_a_clear_verdict_ends_what_is_only_pending() -> None:
    assert states([M, M, C, M, M, M, M]) == [P, P, N, P, P, P, F]


def test_a_firing_finding_is_resolved_once_after_it_was_clear_for_its_time() -> None:
    assert states([M, M, M, M, *[C] * 8]) == [P, P, P, F, F, F, F, F, F, F, R, N]


def test_a_match_in_between_keeps_it_firing() -> None:
    assert states([M, M, M, M, C, C, C, C, C, M, C, C, C, C, C]) == [P, P, P, *[F] * 12]


def test_unknown_keeps_a_firing_finding_and_then_drops_it_without_a_word() -> None:
    assert states([M, M, M, M, *[U] * 8]) == [P, P, P, F, F, F, F, F, F, F, N, N]


def test_time_in_the_dark_does_not_make_a_finding_fire() -> None:
    assert states([M, M, U, U, U, M, M, M]) == [P, P, P, P, P, P, P, F]


def test_clear_and_unknown_in_turn_drop_it_and_do_not_resolve_it() -> None:
    found = states([M, M, M, M, *[C, U] * 6])
    assert R not in found
    assert found[-1] is N


def test_a_rule_that_is_not_judged_any_more_counts_as_unknown() -> None:
    life = Lifecycle()
    life.step(0, [said(M)])
    assert life.step(10 * NS, [])[0].state is P
    assert life.step(70 * NS, []) == ()


def test_a_new_life_of_the_server_begins_with_nothing() -> None:
    life = Lifecycle()
    for n in range(4):
        found = life.step(n * STEP_S * NS, [said(M)], epoch=FIRST)
    assert found[0].state is F
    assert life.step(40 * NS, [said(C)], epoch=SECOND) == ()
    assert life.step(50 * NS, [said(M)], epoch=SECOND)[0].state is P


def test_since_is_when_the_match_began_on_the_callers_wall_clock() -> None:
    life = Lifecycle()
    life.step(10 * NS, [said(C)])
    life.step(20 * NS, [said(M)])
    found = life.step(30 * NS, [said(M)], wall_offset_ns=1000 * NS)
    assert found[0].since_ns == 1020 * NS


def test_findings_of_two_targets_live_apart() -> None:
    other = dataclasses.replace(TARGET, id="another")
    life = Lifecycle()
    life.step(0, [said(M), judge_all(other, signals({"parallel.pp": 1}), None, [WATCHED])[0]])
    second = judge_all(other, signals({"parallel.pp": 8, "demand.running": 1}), None, [WATCHED])[0]
    found = life.step(30 * NS, [said(M), second])
    assert {(str(finding.target), finding.state) for finding in found} == {(str(TARGET), F), (str(other), P)}


verdicts = st.lists(st.sampled_from([M, C, U]), max_size=40)


@given(verdicts)
def test_it_never_fires_before_it_matched_for_its_time(sequence: list[Verdict]) -> None:
    matched_s, before = 0, None
    for verdict, state in zip(sequence, states(sequence), strict=True):
        matched_s += STEP_S if verdict is M and before is M else 0
        if state is F:
            assert matched_s >= WATCHED.for_s
        before = verdict


@given(verdicts)
def test_nothing_begins_or_is_resolved_by_unknown(sequence: list[Verdict]) -> None:
    found = states(sequence)
    for verdict, before, state in zip(sequence[1:], found, found[1:], strict=False):
        if verdict is U:
            assert state in (before, N)
            assert state is not R


@given(verdicts)
def test_it_does_not_flap(sequence: list[Verdict]) -> None:
    """Between two firings lie at least clear_for and for, less one step each."""
    found = states(sequence)
    ends = [n for n in range(1, len(found)) if found[n - 1] is F and found[n] is not F]
    begins = [n for n in range(1, len(found)) if found[n] is F and found[n - 1] is not F]
    for end in ends:
        later = [n for n in begins if n > end]
        if later:
            assert (later[0] - end) * STEP_S >= WATCHED.for_s
        started = max(n for n in begins if n < end)
        assert (end - started) * STEP_S >= WATCHED.clear_for_s


@given(st.lists(st.just(U), max_size=20))
def test_unknown_alone_never_says_anything(sequence: list[Verdict]) -> None:
    assert set(states(sequence)) <= {N}
