"""The committed JSON is what the source builds, and every panel can be understood without its author."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from bubblewatch.exporter.catalogue import CATALOGUE
from dashboards.build import built
from dashboards.src.panels import STATES
from tests.dashboards import boards

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = {"up", "scrape_duration_seconds", "scrape_samples_scraped"}
"""Metrics that Prometheus makes itself."""

PROCESS = re.compile(r"bubblewatch_(sampler_)?process_[a-z_]+")
UIDS = ("bubblewatch-fleet", "bubblewatch-gpu", "bubblewatch-itself", "bubblewatch-pipeline")


def test_the_committed_files_are_what_the_source_builds() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in boards.GENERATED.glob("*.json")}

    assert built() == committed == built(), "run python -m dashboards.build"


def test_there_are_four_dashboards() -> None:
    assert tuple(boards.documents()) == UIDS
    assert [document["uid"] for document in boards.documents().values()] == list(UIDS)


@pytest.mark.parametrize("uid", UIDS)
def test_every_panel_says_what_it_shows_in_which_unit(uid: str) -> None:
    for panel in boards.panels(boards.documents()[uid]):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        assert panel["targets"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}", panel["title"]
        if panel["type"] != "table":
            assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


@pytest.mark.parametrize("uid", UIDS)
def test_no_panel_lies_on_another(uid: str) -> None:
    places = [panel["gridPos"] for panel in boards.documents()[uid]["panels"]]

    for one, other in itertools.combinations(places, 2):
        assert not (_overlap(one, other, "x", "w") and _overlap(one, other, "y", "h")), (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def _overlap(one: dict[str, int], other: dict[str, int], start: str, size: str) -> bool:
    return one[start] < other[start] + other[size] and other[start] < one[start] + one[size]


@pytest.mark.parametrize("uid", UIDS)
def test_panels_have_numbers_of_their_own(uid: str) -> None:
    numbers = [panel["id"] for panel in boards.documents()[uid]["panels"]]

    assert len(set(numbers)) == len(numbers)


def test_queries_name_metrics_that_exist() -> None:
    recording = yaml.safe_load((ROOT / "rules" / "alerts" / "bubblewatch-recording.yaml").read_text())
    recorded = {rule["record"] for group in recording["groups"] for rule in group["rules"]}
    for asked in (*boards.queries(), *boards.annotations()):
        for name in re.findall(r"(?:[a-z_]+:)?bubblewatch_[a-z_0-9]+(?::[a-z0-9]+)?", asked.expr):
            base = re.sub(r"_(bucket|count|sum)$", "", name)
            assert base in CATALOGUE or name in recorded | FOREIGN or PROCESS.fullmatch(name), asked


def test_every_metric_of_the_catalogue_is_looked_at_or_left_out_on_purpose() -> None:
    recording = (ROOT / "rules" / "alerts" / "bubblewatch-recording.yaml").read_text()
    alerts = (ROOT / "rules" / "alerts" / "bubblewatch-alerts.yaml").read_text()
    text = recording + alerts + " ".join(asked.expr for asked in (*boards.queries(), *boards.annotations()))
    for_other_uses = {
        "bubblewatch_server_requests_active",  # for joins: weigh others' metrics by demand
        "bubblewatch_snapshots_total",
        "bubblewatch_pipeline_bubble_ratio",  # S over stages says it
        "bubblewatch_pipeline_async_depth",  # a label of the settings
        "bubblewatch_cuda_graphs_enabled",  # as above
        "bubblewatch_work_duty_median_ratio",
        "bubblewatch_progress_stalled_seconds",  # the finding reads it
        "bubblewatch_finding_expected_gain_low_ratio",
        "bubblewatch_sampler_info",
        "bubblewatch_sampler_rate_hertz",
        "bubblewatch_sampler_ticks_total",
        "bubblewatch_sampler_rejected_answers_total",
        "bubblewatch_sampler_restarts_total",
        "bubblewatch_sampler_refresh_seconds",
    }
    unused = {name for name in CATALOGUE if not re.search(rf"\b{name}(_bucket)?\b", text)}

    assert unused == for_other_uses


@pytest.mark.parametrize("uid", UIDS)
def test_all_states_have_their_colour_wherever_they_are_shown(uid: str) -> None:
    for panel in boards.panels(boards.documents()[uid]):
        if any(target.get("legendFormat") == "{{state}}" for target in panel["targets"]):
            assert _named(panel) == set(STATES), panel["title"]


def _named(panel: dict[str, Any]) -> set[str]:
    return {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}


def test_the_states_that_are_coloured_are_those_that_exist() -> None:
    from bubblewatch.model.accounts import GpuState

    assert list(STATES) == [state.value for state in GpuState]


def test_a_rule_in_a_table_of_findings_leads_to_its_page() -> None:
    links = [
        prop["value"][0]["url"]
        for document in boards.documents().values()
        for panel in boards.panels(document)
        if panel["title"] == "Findings that fire"
        for override in panel["fieldConfig"]["overrides"]
        if override["matcher"]["options"] == "rule"
        for prop in override["properties"]
    ]

    assert links == ["http://${__data.fields.instance}/rules/${__data.fields.rule}"] * 2


def test_the_example_mounts_what_is_there() -> None:
    example = ROOT / "examples" / "prometheus-grafana"
    compose = yaml.safe_load((example / "compose.yaml").read_text())
    mounts = [volume for service in compose["services"].values() for volume in service.get("volumes", [])]
    sources = [mount.split(":")[0] for mount in mounts if mount.startswith(".")]

    assert len(sources) == 5
    for source in sources:
        assert (example / source).exists(), source
    rules = yaml.safe_load((example / "prometheus.yaml").read_text())["rule_files"]
    assert all((ROOT / "rules" / "alerts" / Path(rule).name).exists() for rule in rules)
    provider = yaml.safe_load((ROOT / "dashboards/provisioning/dashboards/bubblewatch.yaml").read_text())
    assert any(mount.endswith(f"{provider['providers'][0]['options']['path']}:ro") for mount in mounts)
