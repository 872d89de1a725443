"""A journal that is flooded, torn, filled with huge lines or set back in time: what journald kept, we read."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bubblewatch.model.findings import Health
from bubblewatch.sources.journal import JournalSource
from bubblewatch.sources.text import MAX_LINE_CHARS
from tests.support.journald import EMITTER, Journald, eventually

pytestmark = pytest.mark.root

BURST = int(os.environ.get("STRESS_LINES", "1000000"))
"""Lines of the flood; fewer make a quick try."""

MOST_GROWTH_KIB = 64 * 1024
"""What the reader may grow by: 20,000 entries at once, and what Python keeps of them."""

FLOOD = """
import sys
out = sys.stdout
for number in range(int(sys.argv[1])):
    out.write(f"Decode batch, #running-req: 8, #token: {number}, token usage: 0.02\\n")
"""


@pytest.fixture
def journald() -> Iterator[Journald]:
    with Journald() as running:
        yield running


def own_kib() -> int:
    """Memory of this process alone: the journal's files are mapped and belong to the page cache."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+)", text)
    assert found is not None
    return int(found[1])


def test_a_burst_of_a_million_lines_is_read_whole_and_in_order(journald: Journald, record_property: Any) -> None:
    source = JournalSource("sglang.service", 0, path=journald.folder)
    assert list(source.read()) == []
    before_kib = own_kib()
    command = [sys.executable, str(EMITTER), "sglang.service", sys.executable, "-c", FLOOD, str(BURST)]
    writer = subprocess.Popen(["nsenter", "-t", str(journald._pid), "-m", "-p", "-C", *command])
    expected, most_kib, started = 0, before_kib, time.monotonic()
    while expected < BURST and time.monotonic() - started < 110:
        lines = source.read()
        for line in lines:
            if line.text.startswith("Started"):
                continue
            assert f"#token: {expected}," in line.text
            expected += 1
        most_kib = max(most_kib, own_kib())
        if not lines:
            time.sleep(0.02)
    writer.wait(60)
    record_property("lines read", expected)
    record_property("lines lost", BURST - expected)
    record_property("memory KiB", f"{before_kib} -> {most_kib}")
    record_property("seconds", round(time.monotonic() - started, 1))
    source.close()
    assert expected == BURST
    assert source.health().health is Health.OK
    assert most_kib - before_kib < MOST_GROWTH_KIB


def test_lines_of_a_megabyte_are_cut_and_their_neighbours_stay(journald: Journald) -> None:
    text = "".join(f"before {n}\n{'x' * 1_048_576}{n}\nafter {n}\n" for n in range(8))
    journald.emit("u.service", text)
    source = JournalSource("u.service", 0, path=journald.folder)
    seen: list[str] = []
    eventually(lambda: seen.extend(line.text for line in source.read()) or seen, lambda s: "after 7" in s)
    source.close()
    assert [t for t in seen if len(t) < 100] == [f"{word} {n}" for n in range(8) for word in ("before", "after")]
    assert all(len(t) < MAX_LINE_CHARS + 100 for t in seen)


def export(lines: list[tuple[int, str]], boot: str = "a" * 32) -> bytes:
    """Entries for systemd-journal-remote: seconds of wall time and text."""
    return b"".join(
        f"__REALTIME_TIMESTAMP={at * 1_000_000}\n__MONOTONIC_TIMESTAMP={1000 + n}\n_BOOT_ID={boot}\n"
        f"_SYSTEMD_UNIT=u.service\nPRIORITY=6\nMESSAGE={text}\n\n".encode()
        for n, (at, text) in enumerate(lines)
    )


def remote(folder: Path, lines: list[tuple[int, str]], name: str = "a") -> Path:
    file = folder / f"{name}.journal"
    command = ["/lib/systemd/systemd-journal-remote", "-o", str(file), "-"]
    subprocess.run(command, input=export(lines), check=True, capture_output=True)
    return file


def test_a_clock_that_was_set_back_loses_no_line(tmp_path: Path) -> None:
    start = 1_790_000_000
    lines = [(start + n, f"line {n}") for n in range(100)]
    lines += [(start - 3600 + n, f"line {100 + n}") for n in range(100)]
    remote(tmp_path, lines)
    source = JournalSource("u.service", 0, path=str(tmp_path))
    seen: list[str] = []
    eventually(lambda: seen.extend(line.text for line in source.read()) or seen, lambda s: len(s) >= 200)
    source.close()
    assert sorted(seen, key=lambda text: int(text.split()[1])) == [text for _, text in lines]


def test_a_torn_journal_file_stops_nothing(journald: Journald) -> None:
    journald.emit("u.service", "".join(f"old {n}\n" for n in range(500)))
    journald.run(["journalctl", "--rotate"])
    journald.emit("u.service", "".join(f"new {n}\n" for n in range(100)))
    archived = next(Path(journald.folder).rglob("system@*.journal"))
    data = bytearray(archived.read_bytes())
    data[len(data) // 4 : len(data) // 4 + 65536] = os.urandom(65536)
    archived.write_bytes(data)

    source = JournalSource("u.service", 0, path=journald.folder)
    seen: list[str] = []
    eventually(lambda: seen.extend(line.text for line in source.read()) or seen, lambda s: "new 99" in s, 10)
    journald.emit("u.service", "and on\n")
    eventually(lambda: seen.extend(line.text for line in source.read()) or seen, lambda s: "and on" in s, 10)
    source.close()
    assert [t for t in seen if t.startswith("new")] == [f"new {n}" for n in range(100)]
    assert "and on" in seen


def test_a_file_that_journald_found_damaged_and_set_aside_is_told(journald: Journald) -> None:
    journald.emit("u.service", "line\n")
    now_ns = time.time_ns()
    source = JournalSource("u.service", now_ns - 60 * 10**9, path=journald.folder)
    eventually(source.read, bool)
    assert source.health().health is Health.OK
    folder = next(Path(journald.folder).iterdir())
    (folder / "system@0123.journal~").write_bytes(b"")
    assert source.health().health is Health.DEGRADED
    assert "damaged files aside" in source.health().detail
    later = JournalSource("u.service", now_ns + 3600 * 10**9, path=journald.folder)
    assert "damaged" not in later.health().detail
    source.close()
    later.close()


def test_a_vacuum_under_the_reader_loses_nothing_that_is_kept(journald: Journald) -> None:
    source = JournalSource("u.service", 0, path=journald.folder)
    seen: list[str] = []
    stop = threading.Event()

    def clean() -> None:
        while not stop.wait(0.2):
            journald.run(["journalctl", "--rotate"])
            journald.run(["journalctl", "--vacuum-files=2"])

    cleaner = threading.Thread(target=clean)
    cleaner.start()
    for batch in range(20):
        journald.emit("u.service", "".join(f"line {batch * 50 + n}\n" for n in range(50)))
        eventually(
            lambda: seen.extend(line.text for line in source.read()) or seen,
            lambda s, last=batch * 50 + 49: f"line {last}" in s[-50:],  # type: ignore[misc]
        )
    stop.set()
    cleaner.join()
    source.close()
    assert seen == [f"line {n}" for n in range(1000)]


def test_no_memory_is_lost_to_reading_again_and_again(journald: Journald) -> None:
    journald.emit("u.service", "".join(f"line {n}\n" for n in range(2000)))
    sizes = []
    for _ in range(40):
        source = JournalSource("u.service", 0, path=journald.folder)
        source.read()
        source.close()
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert sizes[-1] - sizes[10] < 8 * 1024
