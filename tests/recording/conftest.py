from __future__ import annotations

from pathlib import Path

import pytest

from bubblewatch.app.rules import rules_in_force
from bubblewatch.diagnose.rule import Rule
from tests.support.recordings import STORED


@pytest.fixture(scope="session")
def rules() -> tuple[Rule, ...]:
    return rules_in_force()


@pytest.fixture(scope="session")
def story() -> Path:
    """The stored recording of the story: 30 s, one part, in Parquet."""
    return STORED / "pp8-story"
