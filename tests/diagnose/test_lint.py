from __future__ import annotations

import pytest

from bubblewatch.diagnose.lint import lint
from bubblewatch.diagnose.selftest import run_inline_tests
from tests.diagnose.make import RULE, rule

GOOD = (
    RULE
    + """\
explain:
  what: One two three four five.
  why: One two three four five.
  confirm: One two three four five.
  fix: One two three four five.
  false_positives: One two three four five.
  blind_spots: One two three four five.
tests:
  - {name: matches, given: {parallel.pp: 8, demand.running: 8}, expect: match, confidence: high, says: [8 over 8]}
  - {name: clear, given: {parallel.pp: 1}, expect: clear}
  - {name: unknown, given: {}, expect: unknown}
"""
)


def complaints(old: str = "", new: str = "", path: str = "rules/example/example-rule.yaml") -> list[str]:
    assert old in GOOD
    return [problem.message for problem in lint([rule(GOOD.replace(old, new) if old else GOOD, path)])]


def test_a_good_rule_has_no_complaint_and_passes_its_tests() -> None:
    assert complaints() == []
    assert run_inline_tests([rule(GOOD)]) == ()


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("BW999", "BW9", "BWL001"),
        ("category: example", "category: other", "BWL002"),
        ("[parallel.pp, demand.running]", "[parallel.pp, demand.running, duty.min]", "BWL003"),
        ("confidence: high\nmessage", "confidence: high\nfigures: {n: parallel.pp * 2}\nmessage", "BWL003"),
        ("  parallel.pp > 1\n", "  true || parallel.pp > 1\n", "BWL004"),
        ("confidence: high\nmessage", "confidence: high\nunless: ['true || parallel.pp > 1']\nmessage", "BWL004"),
        ("  && demand.running >= 1\n", "", "BWL005"),
        ("confidence: high\nmessage", "confidence: high\nneeds_telemetry: true\nmessage", "BWL006"),
        ("confidence: high\nmessage", "confidence: high\neffect: true\nmessage", "BWL007"),
        ("confidence: high\nmessage", "confidence: high\ngate: parallel.pp > 2\nmessage", "BWL007"),
        ("clear_for: 60s", "clear_for: 10s", "BWL008"),
        ("  why: One two three four five.", "  why: Slow.", "BWL009"),
        ("explain:", "references: [http://example.org]\nexplain:", "BWL010"),
        ("  fix: One two three four five.", "  fix: One two three four " + "TO" + "DO.", "BWL011"),
        ("explain:", "advice: [{do: Do., versions: '>1.0'}]\nexplain:", "BWL012"),
        ("explain:", "advice: [{do: Do., add: [--x]}]\nexplain:", "BWL012"),
        ("explain:", "advice: [{do: Do., add: [an x], source: s, undo: u, check: c}]\nexplain:", "BWL012"),
        ("explain:", "advice: [{do: Do., server: sglang}]\nexplain:", "BWL012"),
        ("explain:", "held_back_by: [no-such-rule]\nexplain:", "BWL013"),
        ("  - {name: unknown, given: {}, expect: unknown}\n", "", "BWL014"),
    ],
)
def test_names_what_is_wrong_with_a_rule(old: str, new: str, code: str) -> None:
    assert code in {complaint.partition(":")[0] for complaint in complaints(old, new)}


def test_judging_readings_takes_a_least_evidence() -> None:
    text = GOOD.replace("demand.running", "duty.min").replace("duty.min >= 1", "duty.min >= 1.0")
    text = text.replace("duty.min: 8}", "duty.min: 8}")
    assert any(problem.message.startswith("BWL006") for problem in lint([rule(text)]))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("given: {parallel.pp: 1}, expect: clear", "given: {parallel.pp: 2}, expect: clear", "got unknown (demand"),
        ("confidence: high, says", "confidence: low, says", "expected confidence low, got high"),
        ("confidence: high, says", "severity: info, says", "expected severity info, got warning"),
        ("confidence: high, says", "held_back: true, says", "held back by nothing"),
        ("says: [8 over 8]", "says: [9 over 9]", "does not say '9 over 9'"),
        ("says: [8 over 8]", "silent: [8 over 8]", "it says '8 over 8'"),
    ],
)
def test_an_example_that_comes_out_otherwise_is_named_with_its_line(old: str, new: str, message: str) -> None:
    problems = run_inline_tests([rule(GOOD.replace(old, new))])
    assert len(problems) == 1
    assert message in problems[0].message
    assert problems[0].place.line is not None
    assert GOOD.splitlines()[problems[0].place.line - 1].lstrip().startswith("- {name:")
