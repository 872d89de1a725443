from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.diagnose.condition import (
    Condition,
    ConditionError,
    code_only,
    compile_condition,
    compile_formula,
)
from bubblewatch.model.errors import RuleError
from bubblewatch.model.findings import Verdict
from bubblewatch.signals.vocabulary import VOCABULARY

SPECS = {
    name: VOCABULARY[name]
    for name in ("parallel.pp", "demand.state", "pipeline.stages_busy", "pipeline.basis_tells", "demand.running")
}


def condition(text: str) -> Condition:
    return compile_condition(text, SPECS)


def faults(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(ConditionError) as caught:
        condition(text)
    return [(fault.line, fault.column, fault.message) for fault in caught.value.faults]


def test_says_match_or_clear_when_everything_is_known() -> None:
    lockstep = condition("parallel.pp > 1 && pipeline.stages_busy < 1.3")
    assert lockstep.evaluate({"parallel.pp": 8, "pipeline.stages_busy": 0.5}) == (Verdict.MATCH, ())
    assert lockstep.evaluate({"parallel.pp": 8, "pipeline.stages_busy": 6.0}) == (Verdict.CLEAR, ())


def test_false_and_missing_is_clear_whichever_comes_first() -> None:
    for text in ("parallel.pp > 1 && pipeline.basis_tells", "pipeline.basis_tells && parallel.pp > 1"):
        assert condition(text).evaluate({"parallel.pp": 1}) == (Verdict.CLEAR, ("pipeline.basis_tells",))


def test_true_and_missing_is_unknown_and_names_everything_that_is_missing() -> None:
    both = condition('parallel.pp > 1 && pipeline.basis_tells && demand.state == "running"')
    assert both.evaluate({"parallel.pp": 8}) == (Verdict.UNKNOWN, ("pipeline.basis_tells", "demand.state"))


def test_true_or_missing_matches() -> None:
    either = condition("pipeline.basis_tells || parallel.pp > 1")
    assert either.evaluate({"parallel.pp": 8})[0] is Verdict.MATCH


def test_none_and_nan_are_missing_values() -> None:
    busy = condition("pipeline.stages_busy < 1.3")
    assert busy.evaluate({"pipeline.stages_busy": math.nan})[0] is Verdict.UNKNOWN
    assert busy.evaluate({"pipeline.stages_busy": None})[0] is Verdict.UNKNOWN  # type: ignore[dict-item]  # on purpose


def test_a_whole_number_may_stand_for_a_double() -> None:
    assert condition("pipeline.stages_busy < 1.3").evaluate({"pipeline.stages_busy": 1})[0] is Verdict.MATCH


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("parallel.pp > 1", {"parallel.pp": True}),
        ("parallel.pp > 1", {"parallel.pp": 2.0}),
        ("pipeline.basis_tells", {"pipeline.basis_tells": 1}),
        ("pipeline.stages_busy > 1.0", {"pipeline.stages_busy": "two"}),
        ("pipeline.stages_busy > 1.0", {"pipeline.stages_busy": True}),
    ],
)
def test_a_value_of_another_type_is_an_error_and_no_verdict(text: str, values: dict[str, object]) -> None:
    with pytest.raises(RuleError, match="must be of type"):
        condition(text).evaluate(values)  # type: ignore[arg-type]  # wrong types are the point


def test_an_evaluation_that_fails_is_an_error_and_no_verdict() -> None:
    with pytest.raises(RuleError, match="could not be evaluated"):
        condition("8 / parallel.pp > 1").evaluate({"parallel.pp": 0})
    with pytest.raises(RuleError, match="could not be evaluated"):
        condition("8 / parallel.pp > 1 && pipeline.basis_tells").evaluate({"parallel.pp": 2**64})


def test_an_exceeded_budget_is_an_error() -> None:
    steps = ", ".join(["1"] * 100)
    nested = f"[{steps}].all(a, [{steps}].all(b, [{steps}].all(c, [{steps}].all(d, a + b + c + d < parallel.pp))))"
    with pytest.raises(RuleError, match="budget"):
        condition(nested).evaluate({"parallel.pp": 100})


def test_points_at_a_mistyped_name_inside_several_lines() -> None:
    text = "parallel.pp > 1\n  && pipeline.stages_bussy < 1.3"
    line, column, message = faults(text)[0]
    assert (line, column) == (2, 6)
    assert "did you mean 'pipeline.stages_busy'?" in message


def test_finds_all_mistyped_names_at_once() -> None:
    assert [(line, column) for line, column, _ in faults("parallel.p > 1 && demand.runing > 1")] == [(1, 1), (1, 19)]


def test_a_signal_that_is_not_declared_is_told_from_a_mistyped_one() -> None:
    assert faults("demand.queued > 1")[0][2] == "signal 'demand.queued' is not among the declared signals"


def test_names_a_function_that_does_not_exist() -> None:
    assert faults("max(1.0, 2.0) > pipeline.stages_busy")[0] == (1, 1, "there is no function 'max'")


def test_hints_at_strict_numbers() -> None:
    assert "write 1.0 for 1" in faults("pipeline.stages_busy > 1")[0][2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("parallel.pp + 1", "must be true or false"),
        ("1 < 2", "uses no signal"),
        ("", "is empty"),
        ("  // nothing\n", "is empty"),
        ("has(pipeline.stages_busy)", "has() cannot test"),
        ("parallel.pp >", "Syntax error"),
    ],
)
def test_refuses_what_is_no_condition(text: str, message: str) -> None:
    assert message in faults(text)[0][2]


def test_problems_show_the_line_with_a_caret_under_the_place() -> None:
    with pytest.raises(ConditionError) as caught:
        condition("parallel.pp > 1\n  && foo")
    assert caught.value.problems == ("2:6: undeclared reference to 'foo'\n   |   && foo\n   |      ^",)


def test_names_in_texts_and_comments_are_not_used_signals() -> None:
    found = condition('demand.state == "parallel.pp" // pipeline.basis_tells')
    assert found.names == ("demand.state",)
    assert code_only("a == 'b.c' // d").strip() == "a =="


def test_decisive_names_are_those_that_the_match_hangs_on() -> None:
    found = condition("(pipeline.stages_busy < 1.3 || demand.running == 1) && parallel.pp > 1")
    assert found.decisive({"parallel.pp": 8, "pipeline.stages_busy": 0.5, "demand.running": 8}) == (
        "pipeline.stages_busy",
        "parallel.pp",
    )
    both = condition("pipeline.stages_busy < 1.3 || demand.running == 1")
    assert both.decisive({"pipeline.stages_busy": 0.5, "demand.running": 1}) == both.names


def test_a_formula_gives_a_number_or_none() -> None:
    size = compile_formula("(demand.running + parallel.pp - 1) / parallel.pp", SPECS)
    assert size.evaluate({"demand.running": 9, "parallel.pp": 8}) == 2
    assert size.evaluate({"demand.running": 9}) is None
    with pytest.raises(ConditionError, match="must be a number"):
        compile_formula("parallel.pp > 1", SPECS)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    """Boolean expressions over two switches that may be missing."""
    kind = draw(st.sampled_from(["leaf", "not", "and", "or"])) if depth else "leaf"
    if kind == "leaf":
        return draw(st.sampled_from(["pipeline.basis_tells", "(parallel.pp > 1)", "true", "false"]))
    if kind == "not":
        return f"!({draw(expressions(depth - 1))})"
    operator = "&&" if kind == "and" else "||"
    return f"({draw(expressions(depth - 1))} {operator} {draw(expressions(depth - 1))})"


@given(expressions(), st.booleans(), st.booleans())
def test_a_verdict_with_something_missing_holds_for_every_value_of_it(text: str, tells: bool, deep: bool) -> None:
    try:
        found = condition(text)
    except ConditionError:
        return  # uses no signal
    full = {"pipeline.basis_tells": tells, "parallel.pp": 2 if deep else 1}
    wanted = found.evaluate(full)[0]
    for known in ({}, {"pipeline.basis_tells": tells}, {"parallel.pp": full["parallel.pp"]}):
        assert found.evaluate(known)[0] in (Verdict.UNKNOWN, wanted)
