from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given

from bubblewatch.diagnose import answer as answers
from bubblewatch.diagnose.answer import answer, overall
from bubblewatch.diagnose.judge import judge
from bubblewatch.diagnose.loader import load_rules, shipped_rules
from bubblewatch.model.findings import Answer
from bubblewatch.model.signals import Confidence, SignalValue
from tests.diagnose.make import STORY, TARGET, server, signals, values

SHIPPED = load_rules([shipped_rules()])

FINE: Mapping[str, SignalValue] = {
    **STORY,
    "parallel.pp": 1,
    "parallel.tp": 8,
    "demand.running": 64,
    "graphs.decode_enabled": True,
    "graphs.decode_share": 1.0,
    "duty.median": 0.9,
    "power.median_w": 400.0,
    "power.limit_ratio": 0.7,
}


def answered(given_values: Mapping[str, SignalValue], ignore: tuple[str, ...] = ()) -> tuple[Answer, tuple[str, ...]]:
    found = signals(given_values)
    return answer(found, judge(TARGET, found, server(), SHIPPED, ignore=ignore))


def without(base: Mapping[str, SignalValue], *families: str) -> Mapping[str, SignalValue]:
    return {name: value for name, value in base.items() if not name.startswith(families)}


def test_something_loud_is_findings() -> None:
    assert answered(STORY)[0] is Answer.FINDINGS


def test_demand_and_effect_judged_and_nothing_loud_is_healthy() -> None:
    assert answered(FINE) == (Answer.HEALTHY, ())


def test_an_effect_is_known_by_duty_or_by_token_rate() -> None:
    assert answered(without(FINE, "duty."))[0] is Answer.HEALTHY
    assert answered(without(FINE, "throughput."))[0] is Answer.HEALTHY
    pipeline = {**FINE, "parallel.pp": 8, "pipeline.stages_busy": 7.0, "slots.filled": 8.0, "depth.value": 1}
    assert answered(without(pipeline, "throughput.", "duty."))[0] is Answer.HEALTHY
    assert answered(without(FINE, "duty.", "throughput.", "pipeline."))[0] is Answer.CANNOT_JUDGE


def test_demand_unknown_cannot_be_judged() -> None:
    assert answered(without(FINE, "demand."))[0] is Answer.CANNOT_JUDGE


def test_nothing_known_cannot_be_judged_and_asks_for_everything() -> None:
    verdict, asked = answered({})
    assert verdict is Answer.CANNOT_JUDGE
    assert asked == (
        answers.ASK_TELEMETRY,
        answers.ASK_LAUNCH,
        answers.ASK_VERSION,
        "the server's log over a minute under load (--log)",
        answers.ASK_RUNNING,
    )


def test_no_demand_is_quiet() -> None:
    assert answered({"demand.state": "none"})[0] is Answer.QUIET
    assert answered({"demand.state": "none"}, ignore=("no-demand",))[0] is Answer.QUIET


def test_starting_is_quiet_although_demand_is_unknown() -> None:
    assert answered({"server.ready": False, "server.starting_s": 40.0})[0] is Answer.QUIET


def test_loud_outranks_quiet() -> None:
    assert answered({"demand.state": "none", "graphs.decode_enabled": False})[0] is Answer.FINDINGS


def test_an_accepted_risk_leaves_the_rest_to_be_judged() -> None:
    eager = {**FINE, "graphs.decode_enabled": False, "graphs.decode_share": 0.0}
    assert answered(eager)[0] is Answer.FINDINGS
    assert answered(eager, ignore=("cuda-graph-disabled",))[0] is Answer.HEALTHY


def test_a_finding_that_is_only_held_back_is_not_loud() -> None:
    story = {**without(STORY, "pipeline.", "telemetry.", "duty."), "demand.running": 8}
    ignored = ("cuda-graph-disabled", "micro-batch-unfilled", "pipeline-bubble")
    assert answered(story, ignore=ignored)[0] is Answer.HEALTHY


@pytest.mark.parametrize(
    ("kind", "words"), [("sglang", "Decode batch"), ("vllm", "Avg generation throughput"), ("tgi", "the server's log")]
)
def test_asks_for_the_lines_that_this_server_writes(kind: str, words: str) -> None:
    asked = answered({**without(FINE, "throughput.", "demand."), "server.kind": kind})[1]
    assert any(words in text for text in asked)


def test_a_snapshot_asks_for_readings_under_load() -> None:
    snapshot = {**without(FINE, "duty.", "pipeline.", "throughput."), "telemetry.readings": 1}
    verdict, asked = answered(snapshot)
    assert verdict is Answer.CANNOT_JUDGE
    assert asked[0] == answers.ASK_TELEMETRY


def test_no_token_while_requests_run_is_no_effect() -> None:
    frozen = {**without(FINE, "duty.", "power.", "pipeline."), "throughput.gen_tps": 0.0}
    assert answered(frozen)[0] is Answer.CANNOT_JUDGE


def test_utilization_alone_proves_no_work() -> None:
    spinning = {**without(FINE, "throughput.", "power.", "pipeline."), "duty.median": 1.0}
    assert answered(spinning)[0] is Answer.CANNOT_JUDGE


def test_a_duty_against_a_guessed_level_proves_no_work() -> None:
    guessed = signals(without(FINE, "throughput.", "pipeline."), Confidence.POSSIBLE)
    found = judge(TARGET, guessed, server(), SHIPPED)
    assert answer(guessed, found)[0] is Answer.CANNOT_JUDGE
    assert "healthy" not in {finding.name for finding in found}


def test_several_targets_have_the_most_urgent_answer_and_blindness_is_not_hidden() -> None:
    assert overall([Answer.HEALTHY, Answer.QUIET]) is Answer.HEALTHY
    assert overall([Answer.HEALTHY, Answer.CANNOT_JUDGE]) is Answer.CANNOT_JUDGE
    assert overall([Answer.CANNOT_JUDGE, Answer.FINDINGS]) is Answer.FINDINGS
    assert overall([]) is Answer.CANNOT_JUDGE


@given(values())
def test_healthy_is_answered_exactly_when_it_is_also_found(found: Mapping[str, SignalValue]) -> None:
    size = {name: abs(value) if isinstance(value, float) else value for name, value in found.items()}
    running = signals(
        {**size, "demand.state": "running", "parallel.pp": 8, "telemetry.readings": 30, "telemetry.seconds": 30.0}
    )
    judged = judge(TARGET, running, server(), SHIPPED)
    verdict = answer(running, judged)[0]
    assert verdict is not Answer.QUIET
    assert (verdict is Answer.HEALTHY) == ("healthy" in {finding.name for finding in judged})


@given(values())
def test_what_cannot_be_judged_always_asks_for_something(found: Mapping[str, SignalValue]) -> None:
    verdict, asked = answered(found)
    if verdict is Answer.CANNOT_JUDGE:
        assert asked
