"""The schema that editors use says the same as the reader of rule files."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from bubblewatch.diagnose.loader import shipped_rules
from bubblewatch.diagnose.rule_schema import rule_schema, schema_text
from bubblewatch.diagnose.schema import read_rule
from tests.diagnose.make import RULE
from tests.support.json_schema import complaints

PATHS = sorted(path for path in shipped_rules().rglob("*.yaml") if "alerts" not in path.parts)


def unfit(text: str) -> list[str]:
    document: Any = yaml.safe_load(text)
    return list(complaints(document, rule_schema()))


def test_the_file_that_editors_read_is_the_one_that_is_made(request: pytest.FixtureRequest) -> None:
    path = shipped_rules() / "schema.json"
    if request.config.getoption("--update-goldens"):
        path.write_text(schema_text(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == schema_text(), "bubblewatch rules schema > rules/schema.json"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_shipped_rule_fits(path: Any) -> None:
    assert unfit(path.read_text(encoding="utf-8")) == []


def test_a_small_rule_fits() -> None:
    assert unfit(RULE) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("severity: warning", "severity: wraning"),
        ("title: An example\n", ""),
        ("title: An example", "tilte: An example"),
        ("for: 30s", "for: soon"),
        ("[parallel.pp, demand.running]", "[parallel.p]"),
        ("confidence: high", "confidence: sure"),
        ("confidence: high", "confidence: high\ngain: much"),
        ("confidence: high", "confidence: high\nadvice: [{add: [--x]}]"),
        ("confidence: high", "confidence: high\ntests: [{name: t, given: {parallel.pp: x}, expect: match}]"),
    ],
)
def test_the_schema_and_the_reader_refuse_the_same(old: str, new: str) -> None:
    assert old in RULE
    text = RULE.replace(old, new)
    assert unfit(text) != []
    assert read_rule("rules/example/example-rule.yaml", text)[1] != ()


CASELESS = RULE.replace("when: |\n  parallel.pp > 1\n  && demand.running >= 1\nconfidence: high\n", "")
"""The rule without its one case, for cases of its own."""


def keys(schema: Any) -> set[str]:
    found = set(schema.get("properties", {}))
    return found - {name for name in found if "." in name}


def test_every_key_of_the_schema_is_one_that_the_reader_knows() -> None:
    schema = rule_schema()
    for key in keys(schema) - {"cases", "explain", "advice", "tests", "min_evidence", "figures"}:
        text = "\n".join(line for line in RULE.splitlines() if not line.startswith(f"{key}:"))
        problems = read_rule("rules/example/example-rule.yaml", f"{text}\n{key}: x\n")[1]
        assert not any(f"unknown key '{key}'" in problem.message for problem in problems), key
    for section in ("cases", "advice", "tests"):
        for key in keys(schema["properties"][section]["items"]):
            base = CASELESS if section == "cases" else RULE
            problems = read_rule("rules/example/example-rule.yaml", f"{base}{section}: [{{{key}: x}}]\n")[1]
            assert not any(f"unknown key '{key}'" in problem.message for problem in problems), f"{section}.{key}"
