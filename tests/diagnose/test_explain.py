from __future__ import annotations

import pytest

from bubblewatch.diagnose.explain import explain_text
from bubblewatch.diagnose.rule import Rule


@pytest.mark.parametrize("width", [40, 80, 120])
def test_every_rule_is_explained_within_the_width(rules: tuple[Rule, ...], width: int) -> None:
    for rule in rules:
        lines = explain_text(rule, width).splitlines()[1:]
        # Only a single word, such as an address, may be wider.
        assert all(len(line) <= width or " " not in line.strip() for line in lines if line.startswith(" "))


def test_says_what_it_means_when_it_fires_and_what_to_do(rules: tuple[Rule, ...]) -> None:
    depth = next(rule for rule in rules if rule.name == "async-depth-missing")
    text = explain_text(depth, 100)
    assert text.startswith("BW103 async-depth-missing: ")
    for words in ("what it means", "depth.value == 0", "only when", "held back by", "add --pp-async-batch-depth 1"):
        assert words in text
    assert "risk: Wrong output was reported at depths above 1" in text


def test_leaves_out_what_a_rule_does_not_have(rules: tuple[Rule, ...]) -> None:
    healthy = next(rule for rule in rules if rule.name == "healthy")
    text = explain_text(healthy, 100)
    assert "advice for" not in text
    assert "references" not in text
    assert "held back by" not in text
