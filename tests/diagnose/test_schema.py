from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.diagnose.schema import read_rule
from bubblewatch.model.findings import Scope, Severity
from bubblewatch.model.signals import Confidence
from tests.diagnose.make import RULE, rule

PATH = "rules/example/example-rule.yaml"


def problems(text: str, path: str = PATH) -> list[str]:
    return [str(problem) for problem in read_rule(path, text)[1]]


def changed(old: str, new: str) -> str:
    assert old in RULE
    return RULE.replace(old, new)


def test_reads_a_rule() -> None:
    found = rule()
    assert (found.id, found.scope, found.severity, found.for_s, found.clear_for_s) == (
        "BW999",
        Scope.SERVER,
        Severity.WARNING,
        30.0,
        60.0,
    )
    assert [case.confidence for case in found.cases] == [Confidence.HIGH]
    assert found.cases[0].message.text == "{demand.running} over {parallel.pp}"


def test_points_into_the_condition_at_the_line_and_column_of_the_file() -> None:
    found = problems(changed("demand.running >= 1", "demand.runing >= 1"))
    message = "undeclared reference to 'demand.runing'; did you mean 'demand.running'?"
    assert found == [f"{PATH}:12:6: {message}\n   |   && demand.runing >= 1\n   |      ^"]


def test_points_into_a_condition_on_the_line_of_its_key() -> None:
    one_line = changed("when: |\n  parallel.pp > 1\n  && demand.running >= 1\n", "when: parallel.p > demand.running\n")
    assert problems(one_line)[0].startswith(f"{PATH}:10:7: undeclared reference to 'parallel.p'")
    quoted = changed("when: |\n  parallel.pp > 1\n  && demand.running >= 1\n", 'when: "parallel.p > demand.running"\n')
    assert problems(quoted)[0].startswith(f"{PATH}:10:8: undeclared reference to 'parallel.p'")


def test_points_behind_blank_lines_and_deeper_indentation() -> None:
    text = changed("when: |\n  parallel.pp > 1\n", "when: |\n\n      parallel.pp > 1\n").replace(
        "  && demand.running >= 1", "        && demand.runing >= 1"
    )
    assert problems(text)[0].startswith(f"{PATH}:13:12: undeclared")


def test_finds_every_problem_in_one_reading() -> None:
    text = (
        changed("severity: warning", "severity: wraning")
        .replace("scope: server", "scope: servers")
        .replace("for: 30s", "for: soon")
        .replace("demand.running]", "demand.runing]")
    )
    found = problems(text)
    assert len(found) == 6  # the condition and the message use what is no longer declared
    assert found[2].startswith(f"{PATH}:9:24: there is no signal 'demand.runing'; did you mean 'demand.running'?")
    assert any("'wraning' is none of info, warning, critical; did you mean 'warning'?" in problem for problem in found)
    assert any("'soon' is no duration" in problem for problem in found)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("when: |", "when: >", "write '|' instead of '>'"),
        ("confidence: high\n", "", "'confidence' is missing"),
        ("title: An example\n", "", "'title' is missing"),
        ("title: An example", "tilte: An example", "unknown key 'tilte'; did you mean 'title'?"),
        ("title: An example", "title: [An, example]", "'title' must be a text"),
        ("title: An example", "title: One\ntitle: Two", "'title' stands here twice"),
        ("{parallel.pp}", "{parallel.p}", "'{parallel.p}' is no declared signal or figure"),
        ("{parallel.pp}", "{parallel.pp:.1q}", "a format that does not suit"),
        ("{parallel.pp}", "{parallel.pp", "a brace in"),
        ("[parallel.pp, demand.running]", "[parallel.pp, demand.running, parallel.pp]", "declared twice"),
        ("signals: [parallel.pp, demand.running]", "signals: {a: b}", "'signals' must be a list of texts"),
        ("confidence: high", "confidence: high\nmin_evidence: 5", "'min_evidence' must hold names with values"),
        ("confidence: high", "confidence: high\nmin_evidence: {seconds: soon}", "'seconds' must be a number"),
        ("confidence: high", "confidence: high\neffect: maybe", "'effect' must be true or false"),
        ("confidence: high", "confidence: high\nevidence: [demand.queued]", "is not among the declared signals"),
        ("confidence: high", "confidence: high\nfigures: {n: parallel.pp > 1}", "this must be a number"),
        ("confidence: high", "confidence: high\nadvice: [{do: x, versions: new}]", "no range of versions"),
        ("confidence: high", "confidence: high\nadvice: [{add: [--x]}]", "'do' is missing"),
        ("confidence: high", "confidence: high\nadvice: do it", "'advice' must be a list of entries"),
        ("name: example-rule", "name: other-rule", "the file must be named other-rule.yaml"),
        ("confidence: high", "confidence: high\ntests: [{name: t, given: {parallel.pp: x}, expect: match}]", "is int"),
        ("confidence: high", "confidence: high\ntests: [{name: t, given: {duty.min: 1}, expect: match}]", "duty.min"),
        ("confidence: high", "confidence: high\ntests: [{name: t, given: {}, expect: maybe}]", "is none of"),
    ],
)
def test_says_what_is_wrong_and_where(old: str, new: str, message: str) -> None:
    found = problems(changed(old, new))
    assert any(message in problem for problem in found), found
    assert all(problem.startswith(f"{PATH}:") for problem in found)


@pytest.mark.parametrize("text", ["", "- a\n- b\n", "word", "a: [1", "\x00", "a: &x [*x]", "? [a]\n: b", "a: *nowhere"])
def test_what_is_no_rule_gives_a_problem_and_no_exception(text: str) -> None:
    assert problems(text)


def test_a_tag_is_not_obeyed() -> None:
    assert rule(changed("id: BW999", "id: !!python/object/apply:os.getcwd x")).id == "x"


@given(st.text(max_size=200))
def test_any_text_gives_a_problem_and_no_exception(text: str) -> None:
    assert problems(text)


@given(st.integers(0, len(RULE) - 1), st.integers(0, 40), st.text(max_size=5))
def test_a_damaged_rule_gives_no_exception(start: int, length: int, instead: str) -> None:
    read_rule(PATH, RULE[:start] + instead + RULE[start + length :])


def test_a_case_has_its_own_severity_and_message_else_those_of_the_rule() -> None:
    text = changed(
        "when: |\n  parallel.pp > 1\n  && demand.running >= 1\nconfidence: high\n",
        "cases:\n  - {when: parallel.pp > 4, confidence: certain, severity: critical, message: deep}\n"
        "  - {when: demand.running > 1, confidence: low, optional: true}\n",
    )
    first, second = rule(text).cases
    assert (first.severity, first.message.text, first.optional) == (Severity.CRITICAL, "deep", False)
    assert (second.severity, second.message.text, second.optional) == (
        Severity.WARNING,
        "{demand.running} over {parallel.pp}",
        True,
    )
