"""The exposition: both formats parse, promtool is content, and what is stale is gone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from bubblewatch.exporter.collector import Exposition
from bubblewatch.model.clock import ManualClock
from bubblewatch.model.findings import Snapshot
from bubblewatch.runtime.hub import STALE_S, Hub
from bubblewatch.runtime.sampler_cost import SamplerCost
from tests.support import snapshots
from tests.support.strategies import snapshots as any_snapshot

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def scraped(*published: Snapshot, accept: str = "", age_s: float = 0.0) -> str:
    clock = ManualClock()
    hub = Hub(clock)
    for snapshot in published:
        hub.publish(snapshot)
    clock.sleep(age_s)
    body, _ = Exposition(hub, "0.1.0").render(accept)
    return body.decode()


def names(text: str) -> set[str]:
    return {sample.name for family in parse_text(text) for sample in family.samples}


def of_a_snapshot(text: str) -> set[str]:
    """Names of the series that only a snapshot can tell."""
    own = ("bubblewatch_process_", "bubblewatch_build_info", "bubblewatch_snapshot_age", "bubblewatch_snapshots_total")
    return {name for name in names(text) if not name.startswith(own)}


@pytest.fixture(scope="module")
def promtool() -> str:
    unpacked = sorted((Path(__file__).parents[2] / ".tools").rglob("promtool"))
    found = shutil.which("promtool") or next((str(path) for path in unpacked if os.access(path, os.X_OK)), None)
    if found is None:
        pytest.skip("promtool is not here: `make test` unpacks it into .tools/")
    return found


@pytest.mark.parametrize("make", [snapshots.story, snapshots.cannot_judge, snapshots.two_servers, snapshots.hostile])
def test_promtool_finds_nothing_to_say(make: Callable[[], Snapshot], promtool: str) -> None:
    text = scraped(make())

    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_both_formats_say_the_same() -> None:
    text, open_text = scraped(snapshots.story()), scraped(snapshots.story(), accept=OPENMETRICS)
    open_names = {sample.name for family in parse_openmetrics(open_text) for sample in family.samples}

    assert open_names == names(text)
    assert open_text.endswith("# EOF\n")


def test_a_browser_gets_the_text_format() -> None:
    _, content_type = Exposition(Hub(ManualClock()), "0.1.0").render("text/html,*/*;q=0.8")

    assert content_type.startswith("text/plain; version=0.0.4")


def test_before_the_first_snapshot_only_the_program_itself_shows() -> None:
    text = scraped()

    assert of_a_snapshot(text) == set()
    assert 'bubblewatch_build_info{version="0.1.0"} 1.0' in text
    assert "bubblewatch_process_cpu_seconds_total" in text
    assert "bubblewatch_process_resident_memory_bytes" in text


def test_series_are_gone_when_the_snapshot_is_stale_and_its_age_stays() -> None:
    fresh = scraped(snapshots.story(), age_s=STALE_S)
    stale = scraped(snapshots.story(), age_s=STALE_S + 1)

    assert "bubblewatch_pipeline_stages_busy" in of_a_snapshot(fresh)
    assert of_a_snapshot(stale) == set()
    assert "bubblewatch_snapshot_age_seconds 31.0" in stale


def test_nothing_of_an_older_snapshot_remains() -> None:
    text = scraped(snapshots.story(), snapshots.nothing_seen())

    assert "GPU-0000" not in text
    assert "sglang-k26" not in text


def test_the_cost_of_the_sampler_process_shows_beside_ours() -> None:
    hub = Hub(ManualClock())

    here, _ = Exposition(hub, "0.1.0", lambda: SamplerCost(pid=os.getpid())).render("")
    gone, _ = Exposition(hub, "0.1.0", SamplerCost).render("")

    assert b"bubblewatch_sampler_process_cpu_seconds_total" in here
    assert b"bubblewatch_sampler_process" not in gone
    assert b"bubblewatch_process_cpu_seconds_total" in gone


def test_hostile_text_makes_no_line_of_its_own() -> None:
    lines = scraped(snapshots.hostile()).splitlines()

    assert all(line.startswith(("# HELP bubblewatch_", "# TYPE bubblewatch_", "bubblewatch_")) for line in lines)


@settings(max_examples=60)
@given(any_snapshot)
def test_any_snapshot_gives_text_that_parses(snapshot: Snapshot) -> None:
    assert "bubblewatch_snapshot_timestamp_seconds" in names(scraped(snapshot))
    assert list(parse_openmetrics(scraped(snapshot, accept=OPENMETRICS)))
