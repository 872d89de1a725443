from __future__ import annotations

import pytest

from bubblewatch.diagnose.loader import load_rules, shipped_rules
from bubblewatch.diagnose.rule import Rule


@pytest.fixture(scope="session")
def rules() -> tuple[Rule, ...]:
    """The shipped catalogue."""
    return load_rules([shipped_rules()])
