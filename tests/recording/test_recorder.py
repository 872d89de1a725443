"""The recorder: parts, bounds, trouble with the disk, and what is not recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.record import Recording
from bubblewatch.app.replay import Span, replay_recording
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.logs import LogLine
from bubblewatch.report.recording_parts import part_records, read_records
from bubblewatch.runtime.flight_recorder import RETRY_S, Bounds
from bubblewatch.runtime.flight_taps import TappedLog
from bubblewatch.servers.registry import by_name
from bubblewatch.sources.recording_folder import parts_of, surplus
from bubblewatch.sources.recording_log import read_log
from bubblewatch.sources.recording_records import Begin, End, Lines, Readings, Record, Tick, unpacked
from tests.support.recordings import record

SHORT = Bounds(part_s=8.0, least_free_bytes=0)


def test_every_part_can_be_judged_alone_and_says_the_same(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    last = record(tmp_path, rules, 40, bounds=SHORT)
    parts = parts_of(tmp_path)
    assert len(parts) == 6
    for part in parts[:-2]:  # what stays must fill the window of a judgement
        for path in part.path.iterdir():
            path.unlink()
        part.path.rmdir()
        if len(parts_of(tmp_path)) == 2:
            break
    snapshot = replay_recording(tmp_path, Span(), rules)
    named = [(f.name, f.remedy) for f in last.findings if "graph" in f.name]
    assert named
    assert [(f.name, f.remedy) for f in snapshot.findings if "graph" in f.name] == named
    assert snapshot.views[0].server == last.views[0].server


def test_parts_together_hold_each_reading_once(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    record(whole, rules, 20)
    record(cut, rules, 20, bounds=SHORT)
    assert len(parts_of(cut)) > 2

    def readings(folder: Path) -> list[tuple[str, str, int, str]]:
        return [
            (r.uuid, field, t, repr(v))
            for r in read_records(folder)
            if isinstance(r, Readings)
            for field, pair in r.series.items()
            for t, v in zip(*unpacked(pair), strict=True)
        ]

    assert readings(cut) == readings(whole)
    assert len(set(readings(whole))) == len(readings(whole)) > 1000


def test_a_session_ends_with_its_end_and_the_next_one_goes_on_counting(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    record(tmp_path, rules, 2)
    record(tmp_path, rules, 2)
    parts = parts_of(tmp_path)
    assert [part.number for part in parts] == [1, 2]
    each = [list(part_records(part)) for part in parts]
    assert [isinstance(records[-1], End) and records[-1].last for records in each] == [True, True]
    sessions = {r.session for records in each for r in records if isinstance(r, Begin)}
    assert len(sessions) == 2


def test_old_parts_go_first_and_the_newest_stays(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    record(tmp_path, rules, 40, bounds=SHORT)
    parts = parts_of(tmp_path)
    sizes = [part.size_bytes for part in parts]
    assert surplus(parts, sum(sizes), 0) == ()
    assert surplus(parts, sum(sizes) - 1, 0) == parts[:1]
    assert surplus(parts, 1, 0) == parts[:-1]
    os.utime(parts[2].path, ns=(1, 1))
    assert surplus(parts, sum(sizes), 2) == parts[:3]


def test_a_recording_stays_within_its_size(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    bounds = Bounds(part_s=4.0, most_bytes=400_000, least_free_bytes=0)
    record(tmp_path, rules, 30, bounds=bounds, compact=False)
    parts = parts_of(tmp_path)
    assert parts[0].number > 1
    assert sum(part.size_bytes for part in parts[:-1]) <= 400_000 + parts[-1].size_bytes


def test_a_disk_that_is_nearly_full_stops_the_recorder_and_not_the_watcher(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    clock = ManualClock()
    bounds = Bounds(least_free_bytes=1 << 60)
    with Recording(tmp_path, clock, 30.0, one_shot=True, bounds=bounds) as recording:
        watcher = simulated_watcher(scenarios()["pp8-story"], clock, rules, (), witness=recording.recorder)
        snapshot = watcher.tick()
        assert snapshot.views
        health = recording.recorder.health()
        assert health.health is Health.DEGRADED
        assert "MiB are free" in health.detail
        assert parts_of(tmp_path) == ()
        recording.recorder._bounds = Bounds(least_free_bytes=0)
        clock.sleep(RETRY_S / 2)
        watcher.tick()
        assert parts_of(tmp_path) == ()
        clock.sleep(RETRY_S)
        last = watcher.tick()
        assert recording.recorder.health().health is Health.OK
        watcher.close()
    again = replay_recording(tmp_path, Span(), rules)
    assert again.views[0].server == last.views[0].server, "what was missed is made up for at the head of the part"


def test_a_folder_has_one_recorder(tmp_path: Path) -> None:
    with (
        Recording(tmp_path, ManualClock(), 30.0, one_shot=True),
        pytest.raises(UsageError, match="another bubblewatch"),
    ):
        Recording(tmp_path, ManualClock(), 30.0, one_shot=True)


KILLED = """
import sys
from pathlib import Path
from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.record import Recording
from bubblewatch.model.clock import ManualClock
from bubblewatch.runtime.flight_recorder import Bounds
clock = ManualClock()
recording = Recording(Path(sys.argv[1]), clock, 30.0, one_shot=True, bounds=Bounds(part_s=3.0, least_free_bytes=0))
watcher = simulated_watcher(scenarios()["pp8-story"], clock, (), (), witness=recording.recorder)
while True:
    print(watcher.tick().time_ns, flush=True)
    clock.sleep(1.0)
"""


@pytest.mark.parametrize("ticks", [2, 5, 8])
def test_a_kill_loses_no_tick_that_was_done(tmp_path: Path, ticks: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    done_ns = 0
    for _ in range(ticks):
        done_ns = int(child.stdout.readline())
    child.send_signal(signal.SIGKILL)
    done_ns = max([done_ns, *map(int, child.stdout.read().split())])
    child.wait()
    found = [r.wall_ns for r in read_records(tmp_path) if isinstance(r, Tick)]
    assert found[-1] >= done_ns
    assert [b - a for a, b in pairwise(found)] == [NS] * (len(found) - 1), "none is missing between"


class _Log:
    def __init__(self, *texts: str) -> None:
        self._lines = [LogLine(text, number) for number, text in enumerate(texts)]

    def read(self) -> Sequence[LogLine]:
        lines, self._lines = self._lines, []
        return lines

    def health(self) -> SourceHealth:
        return SourceHealth("log", Health.OK)

    def close(self) -> None: ...


def test_what_users_ask_is_never_recorded() -> None:
    told: list[Record] = []
    log = _Log(
        "INFO 06-01 10:00:00 api_server.py:495] vLLM API server version 0.6.3",
        "INFO 06-01 10:00:01 logger.py:37] Received request cmpl-1: prompt: 'my salary is', params: SamplingParams()",
        "INFO:     Application startup complete.",
        "a secret that a user wrote",
    )
    kind = by_name("vllm")
    assert TappedLog(log, "vllm", kind, told.append, lambda _s, _l: None).read()
    texts = [line.text for record in told if isinstance(record, Lines) for line in record.lines]
    assert texts
    assert not [text for text in texts if "salary" in text or "a user wrote" in text]


def test_the_append_only_form_is_readable_while_it_is_written(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    clock = ManualClock()
    with Recording(tmp_path, clock, 30.0, one_shot=True) as recording:
        watcher = simulated_watcher(scenarios()["tp8"], clock, rules, (), witness=recording.recorder)
        for _ in range(3):
            watcher.tick()
            clock.sleep(1.0)
        (part,) = parts_of(tmp_path)
        assert sum(isinstance(r, Tick) for r in read_log(part.path)) == 3
        watcher.close()
