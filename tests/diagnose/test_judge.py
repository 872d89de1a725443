from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.diagnose.judge import MAX_EVIDENCE, Judgement, judge, judge_all
from bubblewatch.diagnose.loader import load_rules, shipped_rules
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.findings import Finding, Scope, Severity, State, Target, Verdict
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind, Signal, Signals, SignalValue
from tests.diagnose.make import RULE, STORY, TARGET, rule, server, signals, values

SHIPPED = load_rules([shipped_rules()])
EAGER = server(argv=("python", "-m", "sglang.launch_server", "--disable-cuda-graph"), disable_cuda_graph=True)


def findings(given_values: Mapping[str, SignalValue], of: Server | None = EAGER, **options: object) -> list[Finding]:
    return list(judge(TARGET, signals(given_values), of, SHIPPED, **options))  # type: ignore[arg-type]  # as judge's


def by_name(found: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in found}


def verdict_of(judged: tuple[Judgement, ...], name: str) -> Judgement:
    return next(j for j in judged if j.rule.name == name)


def test_the_story_gives_the_causes_first_then_the_effect_then_what_is_held_back() -> None:
    found = findings(STORY, watched_s=30.0)
    assert [finding.name for finding in found] == [
        "cuda-graph-disabled",
        "micro-batch-unfilled",
        "pipeline-bubble",
        "launch-bound",
        "async-depth-missing",
    ]
    named = by_name(found)
    assert named["cuda-graph-disabled"].confidence is Confidence.CERTAIN
    assert named["pipeline-bubble"].caused_by == ("cuda-graph-disabled", "micro-batch-unfilled")
    assert named["async-depth-missing"].held_back_by == ("cuda-graph-disabled", "micro-batch-unfilled")
    assert all(finding.is_loud for finding in found[:4])
    assert not found[4].is_loud


def test_a_finding_quotes_the_setting_and_the_log() -> None:
    texts = [piece.text for piece in by_name(findings(STORY))["cuda-graph-disabled"].evidence]
    assert texts == ["seen graphs.decode_enabled", "seen graphs.decode_share"]


def test_the_gain_of_the_story_is_a_range_with_its_assumption() -> None:
    gain = by_name(findings(STORY))["cuda-graph-disabled"].expected_gain
    assert gain is not None
    assert gain.now == 95.6
    assert gain.low is not None
    assert gain.high is not None
    assert 100 < gain.low < 130
    assert 180 < gain.high < 200
    assert gain.assumption


def test_a_gain_without_the_numbers_it_needs_is_uncertain() -> None:
    found = by_name(findings({"graphs.decode_enabled": False, "throughput.gen_tps": 95.6}))
    gain = found["cuda-graph-disabled"].expected_gain
    assert gain is not None
    assert (gain.low, gain.high, gain.now) == (None, None, 95.6)


def test_nothing_is_promised_from_a_stage_count_that_may_be_spinning() -> None:
    gain = by_name(findings({**STORY, "pipeline.basis_tells": False}))["cuda-graph-disabled"].expected_gain
    assert gain is not None
    assert gain.high is None


def test_a_version_without_depth_never_hears_of_it() -> None:
    old = {name: value for name, value in STORY.items() if name != "depth.value"} | {"depth.available": False}
    said = repr(findings(old, server(version="0.5.6", disable_cuda_graph=True)))
    assert "--disable-cuda-graph" in said
    assert "async-batch-depth" not in said.replace("_", "-")
    assert "depth" not in said


def test_a_full_ring_with_graphs_hears_of_depth_first() -> None:
    full = {
        **STORY,
        "graphs.decode_enabled": True,
        "graphs.decode_share": 1.0,
        "slots.filled": 8.0,
        "slots.batch": 4.0,
        "demand.running": 32,
        "slots.capacity": 4,
        "pipeline.stages_busy": 6.2,
    }
    found = findings(full)
    assert [finding.name for finding in found] == ["async-depth-missing"]
    assert found[0].remedy is not None
    assert found[0].remedy.add == ("--pp-async-batch-depth 1",)
    assert found[0].expected_gain is not None
    assert found[0].expected_gain.high == 95.6 * 1.25


def test_depth_set_is_healthy_and_says_so_with_evidence() -> None:
    fine = {
        **STORY,
        "graphs.decode_enabled": True,
        "graphs.decode_share": 1.0,
        "slots.filled": 9.0,
        "slots.batch": 4.0,
        "demand.running": 36,
        "slots.capacity": 4,
        "pipeline.stages_busy": 7.8,
        "depth.value": 1,
    }
    found = findings(fine)
    assert [finding.name for finding in found] == ["healthy"]
    assert found[0].severity is Severity.INFO
    assert "seen pipeline.stages_busy" in [piece.text for piece in found[0].evidence]


def test_one_request_is_a_matter_of_demand_first() -> None:
    single = {
        **STORY,
        "graphs.decode_enabled": True,
        "graphs.decode_share": 1.0,
        "demand.running": 1,
        "slots.wanted": 1.0,
        "slots.batch": 1.0,
        "pipeline.stages_busy": 0.95,
    }
    found = findings(single)
    assert [finding.name for finding in found] == ["low-concurrency", "pipeline-bubble", "async-depth-missing"]
    assert found[1].caused_by == ("low-concurrency",)
    assert found[2].held_back_by == ("low-concurrency",)


def test_without_demand_nothing_is_a_bubble() -> None:
    idle = {
        **STORY,
        "demand.state": "none",
        "demand.running": 0,
        "graphs.decode_enabled": True,
        "graphs.decode_share": 1.0,
    }
    assert [finding.name for finding in findings(idle)] == ["no-demand"]


def test_with_demand_unknown_the_bubble_is_unknown_and_says_why() -> None:
    blind = {name: value for name, value in STORY.items() if not name.startswith("demand.")}
    judged = judge_all(TARGET, signals(blind), EAGER, SHIPPED)
    bubble = verdict_of(judged, "pipeline-bubble")
    assert bubble.verdict is Verdict.UNKNOWN
    assert bubble.finding is None
    assert "demand.state: no demand.state" in bubble.missing


def test_one_snapshot_is_no_bubble_and_the_number_of_readings_is_named() -> None:
    snapshot = {
        "demand.state": "running",
        "parallel.pp": 8,
        "pipeline.stages_busy": 0.0,
        "pipeline.basis_tells": True,
        "telemetry.readings": 1,
        "telemetry.seconds": 0.0,
    }
    bubble = verdict_of(judge_all(TARGET, signals(snapshot), None, SHIPPED), "pipeline-bubble")
    assert bubble.verdict is Verdict.UNKNOWN
    assert bubble.missing[0] == "telemetry.readings: 1 of the 5 that it takes"


def test_readings_that_do_not_matter_do_not_make_a_verdict_unknown() -> None:
    tensor_parallel = {"demand.state": "running", "parallel.pp": 1, "demand.running": 64}
    bubble = verdict_of(judge_all(TARGET, signals(tensor_parallel), None, SHIPPED), "pipeline-bubble")
    assert bubble.verdict is Verdict.CLEAR


def test_a_finding_is_no_surer_than_what_it_turned_on() -> None:
    unsure = signals(STORY)
    known = dict(unsure.known)
    known["pipeline.stages_busy"] = dataclasses.replace(known["pipeline.stages_busy"], confidence=Confidence.LOW)
    found = by_name(list(judge(TARGET, Signals(known, unsure.missing), EAGER, SHIPPED)))
    assert found["pipeline-bubble"].confidence is Confidence.LOW
    assert found["cuda-graph-disabled"].confidence is Confidence.CERTAIN


def test_what_is_only_possible_is_said_quietly() -> None:
    guessed = signals({**STORY, "pipeline.stages_busy": 0.5}, Confidence.POSSIBLE)
    found = list(judge(TARGET, guessed, EAGER, SHIPPED))
    assert found
    assert {finding.severity for finding in found} == {Severity.INFO}


def test_a_short_watch_makes_what_rests_on_readings_one_step_less_sure() -> None:
    short, long = by_name(findings(STORY, watched_s=10.0)), by_name(findings(STORY, watched_s=30.0))
    assert short["pipeline-bubble"].confidence is Confidence.MEDIUM
    assert long["pipeline-bubble"].confidence is Confidence.HIGH
    assert short["micro-batch-unfilled"].confidence is Confidence.HIGH
    assert short["cuda-graph-disabled"].confidence is Confidence.CERTAIN


def test_a_version_newer_than_known_is_said_and_makes_its_options_one_step_less_sure() -> None:
    known = {name: Signal(value, "setting", Confidence.CERTAIN) for name, value in STORY.items()}
    read = {**known, "demand.state": Signal("running", "log", Confidence.HIGH)}
    newer = {**read, "server.newer_than_known": Signal(True, "version", Confidence.HIGH)}
    before, after = (by_name(list(judge(TARGET, Signals(of), EAGER, SHIPPED))) for of in (read, newer))
    assert before["cuda-graph-disabled"].confidence is Confidence.CERTAIN
    assert after["cuda-graph-disabled"].confidence is Confidence.HIGH
    assert after["cuda-graph-disabled"].missing[0].startswith("0.5.10 is newer than any version known here")
    assert not any("newer than any version" in text for text in before["cuda-graph-disabled"].missing)


def test_what_does_not_rest_on_options_is_as_sure_in_any_version() -> None:
    seen = {"demand.state": "none", "server.newer_than_known": True}
    found = by_name(findings(seen))["no-demand"]
    assert found.confidence is Confidence.HIGH
    assert found.missing == ()


def test_evidence_without_a_clock_and_the_daemon_are_not_less_sure() -> None:
    for options in ({"watched_s": None}, {"watched_s": 10.0, "one_shot": False}):
        assert by_name(findings(STORY, **options))["pipeline-bubble"].confidence is Confidence.HIGH


def test_one_shot_findings_are_observed_and_those_of_the_daemon_pending() -> None:
    assert {finding.state for finding in findings(STORY)} == {State.OBSERVED}
    assert {finding.state for finding in findings(STORY, one_shot=False)} == {State.PENDING}


def test_an_accepted_risk_comes_last_and_is_not_loud() -> None:
    found = findings(STORY, ignore={"cuda-graph-disabled"})
    assert found[0].name == "micro-batch-unfilled"
    assert found[-1].name == "cuda-graph-disabled"
    assert found[-1].ignored
    assert not found[-1].is_loud


def test_an_option_that_the_command_does_not_hold_is_not_to_be_removed() -> None:
    elsewhere = server(argv=("python", "-m", "sglang.launch_server", "--config", "k26.yaml"), disable_cuda_graph=True)
    remedy = by_name(findings(STORY, elsewhere))["cuda-graph-disabled"].remedy
    assert remedy is not None
    assert remedy.remove == ()


def test_an_abbreviated_option_inside_a_shell_command_is_found() -> None:
    shell = server(argv=("bash", "-c", "exec python -m sglang.launch_server --disable-cuda-g"), disable_cuda_graph=True)
    remedy = by_name(findings(STORY, shell))["cuda-graph-disabled"].remedy
    assert remedy is not None
    assert remedy.remove == ("--disable-cuda-graph",)


def test_a_rule_of_another_scope_is_not_asked() -> None:
    assert judge_all(Target(Scope.GPU, "GPU-1"), signals(STORY), None, SHIPPED) == ()


def test_evidence_is_quoted_once_and_not_without_end() -> None:
    line = Evidence(EvidenceKind.LOG, "log", "the same line")
    lines = tuple(Evidence(EvidenceKind.LOG, "log", f"line {n}") for n in range(100))
    known = {
        "parallel.pp": Signal(8, "argv", Confidence.CERTAIN, (line, *lines)),
        "demand.running": Signal(8, "log", Confidence.HIGH, (line,)),
    }
    found = judge(TARGET, Signals(known), None, [rule()])
    assert len(found[0].evidence) == MAX_EVIDENCE
    assert [piece.text for piece in found[0].evidence].count("the same line") == 1


def test_a_case_is_clear_when_its_unless_is_known_to_hold() -> None:
    case = '  - {when: parallel.pp > 1, unless: demand.running > 4, confidence: low, message: "deep"}\n'
    text = RULE.replace("when: |\n  parallel.pp > 1\n  && demand.running >= 1\nconfidence: high\n", f"cases:\n{case}")
    for running, expected in ((8, Verdict.CLEAR), (1, Verdict.MATCH), (None, Verdict.MATCH)):
        given_values = {"parallel.pp": 8} | ({} if running is None else {"demand.running": running})
        assert judge_all(TARGET, signals(given_values), None, [rule(text)])[0].verdict is expected


def test_every_match_has_a_finding_and_nothing_else_has() -> None:
    for judgement in judge_all(TARGET, signals(STORY), EAGER, SHIPPED):
        assert (judgement.verdict is Verdict.MATCH) == (judgement.finding is not None)


@given(values(), st.sampled_from(list(Confidence)), st.sampled_from([None, 0.0, 1.0, 60.0]))
def test_any_signals_are_judged_without_an_exception(
    found: Mapping[str, SignalValue], confidence: Confidence, watched_s: float | None
) -> None:
    for judgement in judge_all(TARGET, signals(found, confidence), EAGER, SHIPPED, watched_s=watched_s):
        if judgement.verdict is Verdict.UNKNOWN:
            assert judgement.missing
        if judgement.finding is not None:
            assert judgement.finding.confidence <= confidence
            assert "{" not in judgement.finding.summary


@given(values(), st.randoms(use_true_random=False))
def test_the_order_of_signals_and_rules_changes_nothing(
    found: Mapping[str, SignalValue], shuffle: random.Random
) -> None:
    names, order = list(found), list(SHIPPED)
    shuffle.shuffle(names)
    shuffle.shuffle(order)
    once = judge(TARGET, signals(found), EAGER, SHIPPED)
    again = judge(TARGET, signals({name: found[name] for name in names}), EAGER, order)
    assert once == again


@given(values(), st.data())
def test_a_match_is_gone_when_all_that_it_used_is_missing(
    found: Mapping[str, SignalValue], data: st.DataObject
) -> None:
    one: Rule = data.draw(st.sampled_from(SHIPPED))
    used = {name for case in one.cases for name in case.when.names}
    blind = {name: value for name, value in found.items() if name not in used}
    assert judge_all(TARGET, signals(blind), EAGER, [one])[0].verdict is not Verdict.MATCH


@given(values())
def test_nothing_is_a_bubble_without_known_demand(found: Mapping[str, SignalValue]) -> None:
    blind = {name: value for name, value in found.items() if name != "demand.state"}
    assert "pipeline-bubble" not in by_name(findings(blind))


@given(values())
def test_held_back_and_ignored_findings_never_stand_before_loud_ones(found: Mapping[str, SignalValue]) -> None:
    loud = [finding.is_loud for finding in findings(found, ignore={"micro-batch-unfilled"})]
    assert loud == sorted(loud, reverse=True)
