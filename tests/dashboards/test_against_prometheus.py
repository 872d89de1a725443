"""The proof: a real Prometheus scrapes three simulated hosts, every query of every panel and alert has an answer, the
right alerts fire, and a real Alertmanager delivers them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from tests.dashboards import boards
from tests.dashboards.boards import Asked
from tests.dashboards.stack import ALERTS, HISTORY_ENDS_S, Stack, fetched, programs, stack, until

LIVE_ONLY = ("bubblewatch_sampler_",)
"""What a simulated host does not have: there is no sampler process. The history has it, so these are asked of that."""

QUIET_HERE = {
    "BubblewatchGpuLost",
    "BubblewatchServerRestarts",
    "BubblewatchNewFindingAfterRestart",
    "BubblewatchSourceBlind",
}
"""Alerts for which nothing in this play gives a reason; promtool's tests make them fire."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    programs()
    with stack(tmp_path_factory.mktemp("stack")) as made:
        yield made


def unanswered(running: Stack, asked: list[Asked]) -> list[Asked]:
    in_history_s = running.started_s - HISTORY_ENDS_S
    return [
        one
        for one in asked
        if not running.query(one.expr, in_history_s if any(name in one.expr for name in LIVE_ONLY) else None)
    ]


def test_every_query_of_every_panel_has_an_answer(running: Stack) -> None:
    open_ones = boards.queries()
    assert len(open_ones) > 50

    def ask_again() -> bool:
        open_ones[:] = unanswered(running, open_ones)
        return not open_ones

    until(ask_again, lambda: "no data for\n" + "\n".join(map(str, open_ones)))


def test_restarts_versions_and_settings_are_marked_where_they_happened(running: Stack) -> None:
    end_s = running.started_s - HISTORY_ENDS_S
    marked = {one.panel: running.query_range(one.expr, end_s - 5 * 3600, end_s, 60) for one in boards.annotations()}

    assert set(marked) == {"Restarts", "Versions", "Settings"}
    for name, found in marked.items():
        assert len(found) == 1, name
        times = [float(at) for at, _ in found[0]["values"]]
        assert max(times) - min(times) <= 240, name
        assert min(times) == pytest.approx(end_s - 3 * 3600, abs=240), name


def test_every_variable_has_values(running: Stack) -> None:
    for name, selector, label in boards.variables():
        found = running.asked("series", {"match[]": selector})
        assert any(labels.get(label) for labels in found), name


def test_every_recording_rule_has_recorded(running: Stack) -> None:
    texts = [(ALERTS / f"bubblewatch-{part}.yaml").read_text() for part in ("recording", "joins")]
    groups = [group for text in texts for group in yaml.safe_load(text)["groups"]]
    names = [rule["record"] for group in groups for rule in group["rules"]]
    open_ones = list(names)

    def ask_again() -> bool:
        open_ones[:] = [name for name in open_ones if not running.query(name)]
        return not open_ones

    until(ask_again, lambda: f"nothing recorded under {open_ones}")


def test_the_recorded_pipeline_is_the_story_and_its_neighbours_stay_apart(running: Stack) -> None:
    busy = running.query("pipeline:bubblewatch_pipeline_stages_busy:sum")
    value = {one["metric"]["pipeline"]: float(one["value"][1]) for one in busy}

    assert set(value) == {f"{host}/sglang-k26" for host in ("gpu07", "gpu08", "gpu09")}
    assert 0.3 < value["gpu07/sglang-k26"] < 1.0


def test_the_states_of_gpu_time_sum_to_the_number_of_gpus(running: Stack) -> None:
    def summed() -> bool:
        found = running.query("sum(rate(bubblewatch_gpu_time_seconds_total[20s]))")
        return bool(found) and float(found[0]["value"][1]) == pytest.approx(24, rel=0.05)

    until(summed, lambda: str(running.query("sum by (instance) (rate(bubblewatch_gpu_time_seconds_total[20s]))")))


STORY = {"server": "sglang-k26", "pipeline": "gpu07/sglang-k26"}
JOINS: dict[str, list[tuple[dict[str, str], float]]] = {
    "server_stage:dcgm_sm_active_ratio:avg": [
        ({**STORY, "stage": str(stage)}, 0.25 if stage == 7 else 0.05) for stage in range(8)
    ],
    "server_stage:nvidia_smi_power_draw_watts:sum": [({**STORY, "stage": str(s)}, 160.0 + s) for s in range(8)],
    "server:vllm_num_requests_running:sum": [({"server": "sglang-k26", "pipeline": "gpu08/sglang-k26"}, 64.0)],
    "server:sglang_gen_throughput:max": [(STORY, 95.7)],
    'pod:bubblewatch_finding:max{rule="cuda-graph-disabled"}': [
        ({"namespace": "llm", "pod": "k26-0", "rule": "cuda-graph-disabled", "severity": "warning"}, 1.0)
    ],
}
"""Query -> labels and values that it must give."""


@pytest.mark.parametrize("expr", JOINS)
def test_what_others_export_joins_with_our_servers(running: Stack, expr: str) -> None:
    def found() -> list[tuple[dict[str, str], float]]:
        series = running.query(expr)
        without_name = [({k: v for k, v in one["metric"].items() if k != "__name__"}, one) for one in series]
        return sorted(((labels, float(one["value"][1])) for labels, one in without_name), key=str)

    until(lambda: found() == sorted(JOINS[expr], key=str), lambda: str(found()))


def firing(running: Stack) -> set[tuple[str, str, str]]:
    found = running.asked("alerts", {})["alerts"]
    return {
        (a["labels"]["alertname"], a["labels"]["instance"], a["labels"].get("cause", ""))
        for a in found
        if a["state"] == "firing"
    }


def test_the_right_alerts_fire_and_no_other(running: Stack) -> None:
    story, hung = running.daemons["gpu07"], running.daemons["gpu09"]
    wanted = {("BubblewatchServerHung", hung, ""), ("BubblewatchGpuHoursLost", story, "pipeline-bubble")}

    until(lambda: wanted <= firing(running), lambda: str(firing(running)))
    others = firing(running) - wanted
    assert {name for name, _, _ in others} == {"BubblewatchDown"}
    assert not {instance for _, instance, _ in others} & set(running.daemons.values())


def test_every_alert_reads_series_that_exist(running: Stack) -> None:
    rules = yaml.safe_load((ALERTS / "bubblewatch-alerts.yaml").read_text())
    named = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    known = {alert["labels"]["alertname"] for alert in running.asked("alerts", {})["alerts"]}

    assert named == known | QUIET_HERE
    groups = running.asked("rules", {})["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}


@pytest.mark.root
def test_a_real_alertmanager_delivers_the_alert_and_its_runbook_answers(running: Stack) -> None:
    def hung() -> list[dict[str, str]]:
        alerts = [alert for post in running.posts for alert in post["alerts"]]
        return [a["annotations"] for a in alerts if a["labels"]["alertname"] == "BubblewatchServerHung"]

    until(lambda: bool(hung()), lambda: f"{len(running.posts)} posts")
    page = fetched(hung()[0]["runbook_url"])
    assert page.startswith("BW303 server-hung")
    assert "how to mend" in page
