"""Recordings of real parts: a host with NVML's stand-in and journald, and the daemon, killed and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from bubblewatch.app.replay import Span, replay_recording, sessions
from bubblewatch.diagnose.rule import Rule
from bubblewatch.report.recording_parts import read_records
from bubblewatch.sources.recording_folder import parts_of
from bubblewatch.sources.recording_records import End, Tick
from tests.support.live import on_a_host, sglang


@pytest.mark.root
def test_what_is_recorded_on_a_host_is_diagnosed_the_same_without_it(tmp_path: Path) -> None:
    """NVML readings at ten a second, the journal and a real process; then the recording alone."""
    program = f"{sys.executable} -m bubblewatch"
    folder = tmp_path / "recording"
    both = (
        f"{program} record --unit sglang.service --seconds 10 --output {folder} > {tmp_path}/said "
        f"&& {program} replay {folder} --json"
    )
    done = on_a_host(tmp_path, [sglang("pp8-story")], command=["bash", "-c", both])
    assert done.code == 1
    assert done.names()[0] == "cuda-graph-disabled"
    assert {"pipeline-bubble", "micro-batch-unfilled", "async-depth-missing"} <= set(done.names())
    assert done.finding("cuda-graph-disabled")["confidence"] == "certain"
    (server,) = done.document["servers"]
    assert (server["kind"], server["version"], server["unit"]) == ("sglang", "0.5.10", "sglang.service")
    assert len(done.document["gpus"]) == 8
    assert "findings" in (tmp_path / "said").read_text()
    assert not any(part.is_log for part in parts_of(folder))


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def daemon_at_tick(folder: Path, least: int) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """A daemon that records a simulated host, as soon as it has judged so many times; and its snapshot then."""
    port = free_port()
    command = [sys.executable, "-m", "bubblewatch", "run", "--demo", "pp8-story", "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        command, env={**os.environ, "BUBBLEWATCH_RECORD_FOLDER": str(folder)}, stderr=subprocess.DEVNULL
    )
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/snapshot") as answer:
            snapshot: dict[str, Any] = json.load(answer)
            if snapshot["sequence"] >= least:
                return process, snapshot
        time.sleep(0.05)
    process.kill()
    pytest.fail("the daemon did not come up within a minute")


def test_the_daemon_records_and_a_kill_takes_nothing_that_was_judged(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    process, snapshot = daemon_at_tick(tmp_path, 3)
    process.kill()
    process.wait()
    recorder = next(source for source in snapshot["sources"] if source["name"] == "recorder")
    assert recorder["health"] == "ok"
    assert sum(isinstance(r, Tick) for r in read_records(tmp_path)) >= snapshot["sequence"]
    assert "cuda-graph-disabled" in {f.name for f in replay_recording(tmp_path, Span(), rules, one_shot=True).findings}

    process, _ = daemon_at_tick(tmp_path, 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert len(sessions(tmp_path)) == 2
    last = list(read_records(tmp_path))[-1]
    assert isinstance(last, End)
    assert last.last
