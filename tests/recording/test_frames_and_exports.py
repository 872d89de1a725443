"""Tables, trace, CSV and sums of recordings."""

from __future__ import annotations

import csv
import json
import resource
from pathlib import Path

import fsspec
import pandas as pd
import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from bubblewatch.app.demo import scenarios
from bubblewatch.app.replay import Span
from bubblewatch.app.report import write_export
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.accounts import GpuState
from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Snapshot
from bubblewatch.model.telemetry import FIELDS
from bubblewatch.report import frames as frames_module
from bubblewatch.report.frames import RecordingFrames
from bubblewatch.report.lost import losses, losses_document, losses_text
from bubblewatch.report.timeline import timeline
from bubblewatch.runtime.flight_recorder import Bounds
from bubblewatch.sources.recording_records import Begin
from tests.support.recordings import STORED, record

FRAMES = ("gpus", "ticks", "readings", "signals", "findings", "lines", "settings", "states", "lost", "energy")


@pytest.mark.parametrize("name", FRAMES)
def test_every_frame_has_the_columns_that_are_documented(story: Path, name: str) -> None:
    frame = getattr(RecordingFrames(story), name)()
    documented = next(
        line for line in (frames_module.__doc__ or "").splitlines() if line.strip().startswith(f"{name}()")
    )
    columns = [word.partition(" (")[0] for word in documented.split(")", 1)[1].split(": ")[0].split(", ")]
    assert len(frame) > 0
    if name == "readings":
        assert set(frame.columns) - {"time", "gpu"} <= set(FIELDS)
    else:
        assert list(frame.columns) == [c.strip() for c in columns if "`" not in c and not c.startswith("and")]
    if "time" in frame:
        assert str(frame["time"].dtype).endswith("UTC]")


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory, rules: tuple[Rule, ...]) -> tuple[Path, Snapshot]:
    """The story over 40 s in six parts, the last one not in Parquet yet; with its last picture."""
    folder = tmp_path_factory.mktemp("cut")
    return folder, record(folder, rules, 40, bounds=Bounds(part_s=8.0, least_free_bytes=0), compact=False)


def test_what_adds_up_is_what_the_watcher_counted(cut: tuple[Path, Snapshot]) -> None:
    folder, last = cut
    frames = RecordingFrames(folder)
    counted = {s.value: 0.0 for s in GpuState}
    for account in last.accounts.gpus.values():
        for state, spent in account.time_ns.items():
            counted[state.value] += spent / 1e9
    summed = frames.states().groupby("state")["seconds"].sum().to_dict()
    assert summed == pytest.approx({state: spent for state, spent in counted.items() if spent}, abs=1e-6)
    joules = sum(account.energy_j or 0.0 for account in last.accounts.gpus.values())
    assert frames.energy()["joules"].sum() == pytest.approx(joules)


def test_a_span_cuts_every_frame(cut: tuple[Path, Snapshot]) -> None:
    folder, last = cut
    from_ns, until_ns = last.time_ns - 20 * NS, last.time_ns - 10 * NS
    frames = RecordingFrames(folder, from_ns, until_ns)
    assert len(frames.ticks()) == 11
    for name in ("readings", "signals", "findings", "states", "energy"):
        times = getattr(frames, name)()["time"]
        assert pd.Timestamp(from_ns, tz="UTC") <= times.min()
        assert times.max() <= pd.Timestamp(until_ns, tz="UTC")
    assert len(frames.gpus()) == 8, "what was said before the span holds in it"


def test_a_timeline_has_the_mean_that_the_energy_counter_has(cut: tuple[Path, Snapshot]) -> None:
    folder, last = cut
    frames = RecordingFrames(folder)
    lanes = timeline(frames, last.time_ns - 40 * NS, last.time_ns)
    energy = frames.energy()
    for uuid, means in lanes.means.items():
        watts = energy[energy["gpu"] == uuid]["joules"].sum() / 40
        assert means["power_instant_w"].mean() == pytest.approx(watts, rel=0.02)


def test_a_gap_in_the_readings_stays_a_gap_in_the_timeline(tmp_path: Path) -> None:
    first = record(tmp_path, (), 10, compact=False)
    later = ManualClock(first.time_ns + 60 * NS)
    last = record(tmp_path, (), 10, clock=later, compact=False)
    lanes = timeline(RecordingFrames(tmp_path), first.time_ns - 10 * NS, last.time_ns)
    for means in lanes.means.values():
        power = means["power_instant_w"]
        assert pd.isna(power[20:60]).all()
        assert not pd.isna(power[:9]).any()
        assert not pd.isna(power[72:79]).any()


def test_a_trace_has_a_track_for_each_stage_and_instants_for_findings(story: Path, tmp_path: Path) -> None:
    path = tmp_path / "story.pftrace"
    write_export(story, Span(), "perfetto", path)
    trace = pb.Trace()
    trace.ParseFromString(path.read_bytes())
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}
    names = [track.name for track in tracks.values()]
    assert [name for name in names if name.startswith("P")] == [f"P{n} GPU {n}" for n in range(8)]
    assert names.count("power") == names.count("SM activity") == 8
    assert {"stages at work (S)", "tokens per second", "requests running"} <= set(names)
    events = [p for p in trace.packet if p.HasField("track_event")]
    assert {p.track_event.track_uuid for p in events} <= set(tracks)
    instants = {p.track_event.name for p in events if p.track_event.type == pb.TrackEvent.TYPE_INSTANT}
    assert {"cuda-graph-disabled", "Ready"} <= instants
    counters = [p for p in events if p.track_event.type == pb.TrackEvent.TYPE_COUNTER]
    assert counters
    assert all(tracks[p.track_event.track_uuid].HasField("counter") for p in counters)
    begun = sum(p.track_event.type == pb.TrackEvent.TYPE_SLICE_BEGIN for p in events)
    assert begun == sum(p.track_event.type == pb.TrackEvent.TYPE_SLICE_END for p in events)


def test_the_table_for_other_tools_holds_readings_and_signals(story: Path, tmp_path: Path) -> None:
    path = tmp_path / "story.csv"
    said = write_export(story, Span(), "csv", path)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert said == f"{path}: {len(rows)} rows"
    by_name = {row["name"]: row for row in rows}
    assert 100 < float(by_name["power_instant_w"]["value"]) < 250
    assert float(by_name["demand.running"]["value"]) == 8
    assert by_name["demand.state"]["text"] == "running"
    assert {row["target"].split(":")[0] for row in rows} == {"gpu", "server"}
    assert all(row["time"].endswith("Z") for row in rows)


def test_losses_over_many_recordings_are_the_sum_of_each() -> None:
    each = [losses([str(STORED / name)]) for name in ("pp8-story", "single-stream")]
    both = losses([str(STORED / "pp8-story"), str(STORED / "single-stream")])
    assert both.recordings == 2
    assert both.gpu_s == pytest.approx(sum(one.gpu_s for one in each))
    lost = sum(loss.gpu_s for loss in both.by.values())
    assert lost == pytest.approx(sum(loss.gpu_s for one in each for loss in one.by.values()))
    key = ("simulated", "sglang-k26", "2026-01-01", "pipeline-bubble")
    assert both.by[key].gpu_s > 300
    assert 0 < both.by[key].joules < 8 * 60 * 250
    assert losses_document(both)["lost"][0]["cause"] == "pipeline-bubble"
    assert losses_text(both).splitlines()[3].endswith("2026-01-01  simulated  sglang-k26  pipeline-bubble")


def test_every_recording_below_a_folder_is_found_and_a_broken_one_is_named(
    tmp_path: Path, cut: tuple[Path, Snapshot]
) -> None:
    """Two hosts, several parts, one of them spoilt; found through a file system that is not the local one."""
    folder, last = cut
    memory = fsspec.filesystem("memory")
    for path in folder.rglob("*"):
        if path.is_file():
            memory.pipe(f"/fleet/host-a/{path.relative_to(folder)}", path.read_bytes())
    for path in (STORED / "tp8").rglob("*"):
        if path.is_file():
            memory.pipe(f"/fleet/host-b/{path.relative_to(STORED / 'tp8')}", path.read_bytes())
    memory.pipe("/fleet/host-c/000001.bwlog", b"something else altogether")
    found = losses(["memory://fleet"])
    assert found.recordings == 3
    assert [text.split(":")[0] for text in found.skipped] == ["/fleet/host-c/000001.bwlog"]
    assert found.gpu_s == pytest.approx(8 * 40 + 8 * 30, rel=0.01)
    own = sum(spent for spent in last.accounts.servers["sglang-k26"].lost_ns.values()) / 1e9
    assert sum(loss.gpu_s for loss in losses([str(folder)]).by.values()) == pytest.approx(own)
    with pytest.raises(UsageError, match="no recording"):
        losses([str(tmp_path)])


def test_a_second_look_takes_no_more_memory_than_the_first() -> None:
    """Bounded memory: fifty recordings leave the high-water mark where a few put it."""
    folders = [str(STORED / name) for name in scenarios()]
    losses(folders)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    losses(folders * 6)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 30_000


def test_a_recording_tells_where_it_comes_from(story: Path) -> None:
    begins = [r for _, _, r in RecordingFrames(story).records() if isinstance(r, Begin)]
    assert [b.scenario for b in begins] == ["pp8-story"]
    assert json.dumps(begins[0].host.name) == '"simulated"'
