import pytest

from bubblewatch.app.demo import demo_snapshot, scenarios, simulated_watcher
from bubblewatch.app.rules import rules_in_force
from bubblewatch.cli.output import exit_code
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import ManualClock
from bubblewatch.model.findings import Severity, Snapshot


@pytest.fixture(scope="module")
def rules() -> tuple[Rule, ...]:
    return rules_in_force()


@pytest.mark.parametrize("name", list(scenarios()))
def test_a_scenario_gets_the_verdict_written_beside_it(name: str, rules: tuple[Rule, ...]) -> None:
    scenario = scenarios()[name]
    snapshot = demo_snapshot(scenario, rules)
    found = {f.name for f in snapshot.findings}
    assert snapshot.answer is scenario.expect.answer
    assert exit_code(snapshot, "warning") == scenario.expect.exit_code
    if scenario.expect.first is not None:
        assert snapshot.findings[0].name == scenario.expect.first
    assert found >= set(scenario.expect.present)
    assert not found & set(scenario.expect.absent)


def story(rules: tuple[Rule, ...], *ignore: str) -> Snapshot:
    return demo_snapshot(scenarios()["pp8-story"], rules, ignore)


def test_the_story_is_answered_with_flag_and_log_and_one_option(rules: tuple[Rule, ...]) -> None:
    first = story(rules).findings[0]
    texts = [e.text for e in first.evidence]
    assert any(text.startswith("--disable-cuda-graph (pid ") for text in texts)
    assert any('decode lines say "cuda graph: False"' in text for text in texts)
    assert any("no line before it that decode graphs were captured" in text for text in texts)
    assert first.remedy is not None
    assert first.remedy.remove == ("--disable-cuda-graph",)
    assert first.expected_gain is not None
    assert first.expected_gain.low is not None
    assert first.expected_gain.high is not None
    assert 100 < first.expected_gain.low < first.expected_gain.high <= 195


def test_depth_is_held_back_while_slots_are_empty_and_graphs_off(rules: tuple[Rule, ...]) -> None:
    depth = next(f for f in story(rules).findings if f.name == "async-depth-missing")
    assert set(depth.held_back_by) == {"cuda-graph-disabled", "micro-batch-unfilled"}
    assert not depth.is_loud


def test_an_accepted_risk_stays_visible_and_is_not_loud(rules: tuple[Rule, ...]) -> None:
    snapshot = story(rules, "cuda-graph-disabled")
    ignored = next(f for f in snapshot.findings if f.name == "cuda-graph-disabled")
    assert ignored.ignored
    assert not ignored.is_loud


def test_with_every_finding_accepted_the_exit_code_is_zero(rules: tuple[Rule, ...]) -> None:
    loud = [f.name for f in story(rules).findings if f.severity >= Severity.WARNING]
    assert exit_code(story(rules, *loud), "warning") == 0


def test_a_scenario_is_the_same_every_time(rules: tuple[Rule, ...]) -> None:
    assert story(rules) == story(rules)


def test_a_hung_server_stays_hung_however_long_it_is_watched(rules: tuple[Rule, ...]) -> None:
    clock = ManualClock()
    watcher = simulated_watcher(scenarios()["hung"], clock, rules, ())
    snapshot = watcher.tick()
    for _ in range(15):
        clock.sleep(120.0)
        snapshot = watcher.tick()
    watcher.close()
    assert snapshot.findings[0].name == "server-hung"
