"""Whether a comparison sees what is there, and nothing that is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.app.compare import CompareRequest, compare_recordings
from bubblewatch.app.demo import scenarios
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import UsageError
from bubblewatch.report.compare import Comparison, Outcome, Side, changed_settings, compare, side
from bubblewatch.report.compare_stats import LEAST_BLOCKS, Block, change, levels
from bubblewatch.report.compare_text import comparison_document, comparison_text
from bubblewatch.report.frames import RecordingFrames
from tests.support.recordings import STORED, record, with_load


def noisy(
    random: np.random.Generator, mean: float, noise: float, count: int, alike: float = 0.0, load: float = 8
) -> list[Block]:
    """Blocks around a mean whose noise is partly that of the block before."""
    fresh = random.normal(0, noise * np.sqrt(1 - alike**2), count)
    values, last = [], random.normal(0, noise)
    for one in fresh:
        last = alike * last + one
        values.append(Block(load, mean * (1 + last)))
    return values


@pytest.mark.parametrize(("count", "alike"), [(4, 0.0), (10, 0.0), (20, 0.3), (40, 0.5)])
def test_two_stretches_of_the_same_are_seldom_called_different(count: int, alike: float) -> None:
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(150):
        found = change(noisy(random, 100, 0.1, count, alike), noisy(random, 100, 0.1, count, alike))
        assert found is not None
        wrong += found.is_seen
    assert wrong <= 15, "an interval of 95 % may err in 5 % of the cases; 10 % of 150 is four standard errors above"


def test_a_change_beyond_the_noise_is_seen_with_its_size() -> None:
    random = np.random.default_rng(2)
    missed = 0
    for _ in range(50):
        found = change(noisy(random, 100, 0.05, 12), noisy(random, 120, 0.05, 12))
        assert found is not None
        missed += not (found.is_seen and found.low <= 1.2 <= found.high)
    assert missed <= 8


def test_a_tiny_change_is_none_however_sure_it_is() -> None:
    steady = [Block(8, 100.0)] * 20
    found = change(steady, [Block(8, 101.0)] * 20)
    assert found is not None
    assert found.low > 1
    assert not found.is_seen


def test_only_the_same_load_is_compared() -> None:
    """Twice the tokens at four times the requests is no gain."""
    random = np.random.default_rng(3)
    at_8, at_32 = noisy(random, 100, 0.02, 10), noisy(random, 200, 0.02, 10, load=32)
    assert change(at_8, at_32) is None
    found = change(at_8, [*noisy(random, 100, 0.02, 10), *at_32])
    assert found is not None
    assert found.loads == (8,)
    assert not found.is_seen


def test_too_few_blocks_say_nothing() -> None:
    few = [Block(8, 100.0)] * (LEAST_BLOCKS - 1)
    assert change(few, [Block(8, 200.0)] * 50) is None


@given(st.lists(st.floats(1, 1000), min_size=1, max_size=40))
def test_levels_cover_every_load_once(loads: list[float]) -> None:
    groups = levels(loads)
    assert all(sum(low <= load <= high for low, high in groups) == 1 for load in loads)


def test_the_same_recordings_give_the_same_interval() -> None:
    random = np.random.default_rng(4)
    one, two = noisy(random, 100, 0.1, 10), noisy(random, 110, 0.1, 10)
    assert change(one, two) == change(one, two)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory, rules: tuple[Rule, ...]) -> dict[str, Path]:
    """Before and after a change, the first once more, and another load; four blocks each."""
    root = tmp_path_factory.mktemp("compare")
    made = {
        "before": scenarios()["pp8-story"],
        "after": scenarios()["pp8-graphs-on"],
        "again": replace(scenarios()["pp8-story"], seed=5),
        "loaded": with_load("pp8-graphs-on", 32),
    }
    for name, scenario in made.items():
        record(root / name, (), 125, scenario, compact=False)
    return {name: root / name for name in made}


def compared(before: Path, after: Path) -> Comparison:
    return compare_recordings(CompareRequest(before, after), 0)


def test_graphs_made_the_story_better_and_taking_them_away_makes_it_worse(four: dict[str, Path]) -> None:
    found = compared(four["before"], four["after"])
    assert found.outcome is Outcome.BETTER
    assert found.settings == (("disable_cuda_graph", "True", "False"),)
    assert found.changes["gen_tps"].ratio == pytest.approx(166 / 95.3, rel=0.03)
    assert found.changes["j_per_token"].ratio < 0.7
    assert comparison_text(found).startswith("BETTER at 8 running: 95.4 -> 166 tok/s [")
    assert compared(four["after"], four["before"]).outcome is Outcome.WORSE


def test_the_same_server_again_is_no_difference(four: dict[str, Path]) -> None:
    found = compared(four["before"], four["again"])
    assert found.outcome is Outcome.SAME
    assert found.settings == ()
    assert comparison_document(found)["verdict"] == "no_difference"


def test_another_load_is_not_comparable_and_the_reason_has_both(four: dict[str, Path]) -> None:
    found = compared(four["after"], four["loaded"])
    assert found.outcome is Outcome.NOT_COMPARABLE
    assert "ran 8 requests in 4 blocks" in found.reason
    assert "ran 32 requests in 4 blocks" in found.reason
    assert found.changes == {}


def one_side(name: str) -> Side:
    return side(RecordingFrames(STORED / name), name, None)


def test_other_cards_and_other_models_are_not_comparable() -> None:
    one = one_side("pp8-story")
    card = replace(one.gpus[0], name="NVIDIA H100")
    assert "different GPUs: 8x NVIDIA RTX" in compare(one, replace(one, gpus=[card])).reason
    settings = dict(one.server.settings.values)
    path = replace(settings["model_path"], value="/models/other")
    other = replace(one.server, settings=replace(one.server.settings, values={**settings, "model_path": path}))
    assert "different models" in compare(one, replace(one, server=other)).reason


def test_without_known_demand_nothing_is_compared() -> None:
    one = one_side("pp8-story")
    blind = replace(one, blocks=one.blocks.assign(running=float("nan")))
    assert "how many requests ran is not known" in compare(one, blind).reason


def test_version_and_kind_are_among_what_changed() -> None:
    server = one_side("pp8-story").server
    assert changed_settings(server, replace(server, version="0.5.11"))[0] == ("version", "0.5.10", "0.5.11")


def test_two_times_of_one_recording_are_compared(tmp_path: Path) -> None:
    """An hour later, after the first change: one folder, two sessions."""
    first = record(tmp_path, (), 125, scenarios()["pp8-story"], compact=False)
    clock = ManualClock(first.time_ns + 3600 * NS)
    record(tmp_path, (), 125, scenarios()["pp8-graphs-on"], clock=clock, compact=False)
    split = "2026-01-01T00:30"
    assert compare_recordings(CompareRequest(tmp_path, split=split), 0).outcome is Outcome.BETTER


def test_a_server_that_never_restarted_cannot_be_compared_around_it(story: Path) -> None:
    with pytest.raises(UsageError, match="not restarted"):
        compare_recordings(CompareRequest(story, around_restart="sglang-k26"), 0)
    with pytest.raises(UsageError, match="no server"):
        compare_recordings(CompareRequest(story, around_restart="other"), 0)
    with pytest.raises(UsageError, match="two stretches"):
        compare_recordings(CompareRequest(story), 0)


def test_the_example_shows_what_is_printed(four: dict[str, Path]) -> None:
    expected = (Path(__file__).parents[2] / "examples" / "story" / "expected.txt").read_text(encoding="utf-8")
    assert comparison_text(compared(four["before"], four["after"])) in expected
    other = comparison_text(compared(four["after"], four["loaded"]))
    named = other.replace(str(four["loaded"]), "FOLDER/graphs-on-busy").replace(str(four["after"]), "FOLDER/graphs-on")
    assert named in expected
