"""A daemon that is killed at any moment loses no line of a log and counts none twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.journald import EMITTER, Journald

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import sys, time
total, pause_s = int(sys.argv[1]), float(sys.argv[2])
line = ("Decode batch, #running-req: 8, #token: {}, token usage: 0.02, cuda graph: False, "
        "gen throughput (token/s): 95.60, #queue-req: 0{}")
for number in range(1, total + 1):
    # journald cuts a line at 48 KiB, so that some are written in pieces
    print(line.format(number, ", " + "x" * 120_000 if number % 1000 == 0 else ""), flush=number % 50 == 0)
    if number % 50 == 0:
        time.sleep(pause_s)
"""


def run_rig(folder: Path, config: dict[str, Any]) -> dict[str, Any]:
    file = folder / "rig.json"
    file.write_text(json.dumps({"seed": 1, "state": str(folder / "state"), **config}))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kill_rig", str(file)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.root
def test_two_hundred_kills_lose_no_line_of_the_journal(tmp_path: Path, record_property: Any) -> None:
    total = 15_000
    with Journald() as journald:
        command = [sys.executable, str(EMITTER), "sglang.service", sys.executable, "-c", WRITER, str(total), "0.04"]
        writer = threading.Thread(target=journald.run, args=(command,))
        writer.start()

        def rotate() -> None:
            while writer.is_alive():
                time.sleep(2)
                journald.run(["journalctl", "--rotate"])

        threading.Thread(target=rotate, daemon=True).start()
        where = {"path": journald.folder, "log": "sglang.service"}
        # one line that says "Started" comes first
        done = run_rig(tmp_path, {"kills": 200, **where, "total": total + 1, "other_lines": 1})
        writer.join()
    record_property("kills", done["kills"])
    assert done["lines"] == total + 1
    assert done["with_state"] == 200


def test_kills_lose_no_line_of_a_file_that_is_rotated(tmp_path: Path, record_property: Any) -> None:
    total = 6000
    log = tmp_path / "server.log"
    log.touch()
    writer = subprocess.Popen(
        [sys.executable, "-c", ROTATING_WRITER, str(log), str(total)], env={**os.environ, "PYTHONUNBUFFERED": "1"}
    )
    try:
        done = run_rig(tmp_path, {"kills": 60, "log": str(log), "total": total})
    finally:
        writer.kill()
        writer.wait()
    assert done["lines"] == total
    assert done["with_state"] == 60


ROTATING_WRITER = """
import os, sys, time
path, total = sys.argv[1], int(sys.argv[2])
line = ("Decode batch, #running-req: 8, #token: {}, token usage: 0.02, cuda graph: False, "
        "gen throughput (token/s): 95.60, #queue-req: 0\\n")
file = open(path, "a")
for number in range(1, total + 1):
    file.write(line.format(number))
    if number % 20 == 0:
        file.flush()
        time.sleep(0.015)
    if number % 1500 == 0:
        file.close()
        os.rename(path, f"{path}.{number}")
        file = open(path, "a")
file.close()
time.sleep(60)
"""
