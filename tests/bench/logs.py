"""How many log lines a second one core reads, beside `journalctl -o json` and `json.loads` of the same lines."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

from bubblewatch.model.logs import LogLine
from bubblewatch.servers import registry

T = TypeVar("T")

REMOTE = Path("/lib/systemd/systemd-journal-remote")
JOURNAL_LINES = 50_000
"""Lines in the journal file: about a second of work for journalctl."""

LINES = 2_000
"""Different lines of each kind, read over and over."""


def _sglang(i: int) -> str:
    return (
        f"[2026-04-05 20:{i // 60 % 60:02d}:{i % 60:02d} TP0] Decode batch, #running-req: {32 + i % 7}, "
        f"#token: {11000 + i}, token usage: 0.{i % 90 + 10}, cuda graph: True, "
        f"gen throughput (token/s): {1600 + i % 50}.11, #queue-req: {i % 5}"
    )


def _vllm(i: int) -> str:
    return (
        f"(APIServer pid=7) INFO 04-28 20:{i // 60 % 60:02d}:{i % 60:02d} [loggers.py:257] Engine 000: "
        f"Avg prompt throughput: {i % 900}.5 tokens/s, Avg generation throughput: {i % 700}.4 tokens/s, "
        f"Running: {i % 90} reqs, Waiting: {i % 14} reqs, GPU KV cache usage: {i % 100}.7%, "
        "Prefix cache hit rate: 92.0%"
    )


def _noise(i: int) -> str:
    return f"[2026-04-05 20:{i // 60 % 60:02d}:{i % 60:02d}] worker {i} wrote block {i * 7919 % 65536} of the index"


def logs(seconds: float) -> None:
    """Print lines per second of one core: what a server's lines mean, and the journal's JSON around the same lines."""
    print("\nlog lines per second on one core")
    for name, kind, text in (
        ("SGLang decode", "sglang", _sglang),
        ("vLLM totals", "vllm", _vllm),
        ("noise, by SGLang", "sglang", _noise),
        ("noise, by vLLM", "vllm", _noise),
    ):
        lines = [LogLine(text=text(i), source="bench") for i in range(LINES)]
        entries = [_entry(line.text, i) for i, line in enumerate(lines)]
        server = registry.by_name(kind)
        read = _rate(lines, partial(registry.events_of, server), seconds / 2)
        unpacked = _rate(entries, json.loads, seconds / 2)
        print(f"  {name:18s} {read:10,.0f} read   {unpacked:10,.0f} json.loads of the journal's entries")
    printed = _journalctl([_sglang(i) for i in range(JOURNAL_LINES)])
    if printed is None:
        print("  journalctl -o json: not here (needs journalctl and systemd-journal-remote)")
    else:
        print(f"  {'SGLang decode':18s} {printed:10,.0f} printed by journalctl -o json --all")


def _journalctl(texts: Sequence[str]) -> float | None:
    """Lines per second of processor time that `journalctl -o json --all` prints from a journal file of these lines."""
    if shutil.which("journalctl") is None or not REMOTE.exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench.journal"
        records = (
            f"__REALTIME_TIMESTAMP={1_790_000_000_000_000 + i}\n__MONOTONIC_TIMESTAMP={1000 + i}\n"
            f"_BOOT_ID={'77aa' * 8}\n"
            f"_SYSTEMD_UNIT=sglang.service\n_PID=4711\nPRIORITY=6\nSYSLOG_IDENTIFIER=python3\nMESSAGE={text}\n\n"
            for i, text in enumerate(texts)
        )
        written = subprocess.run(
            [REMOTE, "-o", file, "-"], input="".join(records), text=True, capture_output=True, check=False
        )
        if written.returncode != 0:
            return None
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = ["journalctl", "-o", "json", "--all", "--no-pager", "--file", file]
        lines = subprocess.run(command, capture_output=True, check=True).stdout.count(b"\n")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return lines / (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def _entry(text: str, i: int) -> str:
    """One line as `journalctl -o json` prints it: the fields that journald adds to every line of a unit."""
    fields = {
        "__CURSOR": f"s=8f1c;i={i:x};b=77aa;m=1;t={i:x};x=1",
        "__REALTIME_TIMESTAMP": str(1_790_000_000_000_000 + i),
        "__MONOTONIC_TIMESTAMP": str(1_000_000 + i),
        "_BOOT_ID": "77aa" * 8,
        "_MACHINE_ID": "55bb" * 8,
        "_HOSTNAME": "node",
        "_SYSTEMD_UNIT": "sglang.service",
        "_PID": "4711",
        "_UID": "0",
        "_TRANSPORT": "stdout",
        "PRIORITY": "6",
        "SYSLOG_IDENTIFIER": "python3",
        "MESSAGE": text,
    }
    return json.dumps(fields)


def _rate(items: Sequence[T], work: Callable[[T], object], seconds: float) -> float:
    """Items per second of processor time over about `seconds`."""
    begun, done = time.process_time(), 0
    while (spent := time.process_time() - begun) < seconds:
        for item in items:
            work(item)
        done += len(items)
    return done / spent
