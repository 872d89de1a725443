"""The recordings that a rule names are evidence that it fires, and on nothing else that is stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from bubblewatch.app.replay import Span, replay_recording
from bubblewatch.app.rules import rules_in_force
from tests.support.recordings import STORED


@pytest.mark.parametrize("folder", sorted(STORED.iterdir()), ids=lambda folder: folder.name)
def test_a_recording_fires_exactly_the_rules_that_name_it(folder: Path) -> None:
    rules = rules_in_force()
    fired = {finding.name for finding in replay_recording(folder, Span(), rules).findings}
    assert fired == {rule.name for rule in rules if folder.name in rule.recorded}


def test_every_named_recording_is_stored() -> None:
    stored = {folder.name for folder in STORED.iterdir()}
    assert {name for rule in rules_in_force() for name in rule.recorded} <= stored
