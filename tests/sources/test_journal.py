"""A real journald, read both ways: by systemd-python and by journalctl. What one gives the other gives too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bubblewatch.model.errors import SourceUnavailable
from bubblewatch.model.findings import Health
from bubblewatch.model.logs import LogLine
from bubblewatch.model.protocols import LogSource
from bubblewatch.model.redact import REDACTED
from bubblewatch.sources.journal import JournalSource, open_journal
from bubblewatch.sources.journalctl import JournalctlSource
from tests.support.journald import EMITTER, SETTINGS, Journald, eventually, private_journald

pytestmark = pytest.mark.root

Open = Callable[..., LogSource]


@pytest.fixture(scope="module")
def journald() -> Iterator[Journald]:
    with Journald() as running:
        yield running


@pytest.fixture(params=[JournalSource, JournalctlSource])
def open_log(request: pytest.FixtureRequest, journald: Journald) -> Iterator[Open]:
    opened: list[LogSource] = []

    def opener(unit: str, since_ns: int = 0, **options: object) -> LogSource:
        source: LogSource = request.param(unit, since_ns, **{"path": journald.folder, **options})
        opened.append(source)
        return source

    yield opener
    for source in opened:
        source.close()


@pytest.fixture
def unit(request: pytest.FixtureRequest) -> str:
    """A unit that no other test of this module writes as."""
    return f"u{abs(hash(request.node.name)) % 10**9}.service"


def collect(source: LogSource, count: int) -> list[LogLine]:
    """What the source gives until `count` lines came, and what comes with them."""
    lines: list[LogLine] = []

    def read() -> list[LogLine]:
        lines.extend(source.read())
        return lines

    return list(eventually(read, lambda seen: len(seen) >= count))


def texts(lines: list[LogLine]) -> list[str]:
    return [line.text for line in lines]


def test_history_comes_first_and_then_what_is_new(journald: Journald, open_log: Open, unit: str) -> None:
    journald.emit(unit, "one\ntwo\n")
    source = open_log(unit)

    assert texts(collect(source, 2)) == ["one", "two"]
    journald.emit(unit, "three\n")
    new = collect(source, 1)
    assert texts(new) == ["three"]
    assert source.read() in ([], ())
    assert (new[0].unit, new[0].source, new[0].time_exact) == (unit, "journal", True)
    assert new[0].pid is not None
    assert new[0].cursor is not None
    assert source.health().health is Health.OK
    assert source.health().read_count == 3


def test_a_unit_that_writes_its_first_line_later_loses_none(journald: Journald, open_log: Open, unit: str) -> None:
    source = open_log(unit)
    assert list(source.read()) == []
    assert source.health().health is Health.OK
    assert "has written nothing" in source.health().detail

    journald.emit(unit, "".join(f"line {n}\n" for n in range(100)))

    assert texts(collect(source, 100)) == [f"line {n}" for n in range(100)]


def test_of_two_units_each_source_gives_its_own(journald: Journald, open_log: Open, unit: str) -> None:
    journald.emit(unit, "mine\n")
    journald.emit(f"not-{unit}", "theirs\n")
    journald.emit(unit, "mine too\n")

    assert texts(collect(open_log(unit.removesuffix(".service")), 2)) == ["mine", "mine too"]
    assert texts(collect(open_log(f"not-{unit}"), 1)) == ["theirs"]


def test_reading_starts_at_the_time_asked_for(journald: Journald, open_log: Open, unit: str) -> None:
    journald.emit(unit, "before\n")
    before = collect(open_log(unit), 1)[0]
    journald.emit(unit, "after\n")
    assert before.time_ns is not None

    assert texts(collect(open_log(unit, before.time_ns), 2)) == ["before", "after"]
    assert texts(collect(open_log(unit, before.time_ns + 1000), 1)) == ["after"]


def test_a_cursor_goes_on_behind_its_line(journald: Journald, open_log: Open, unit: str) -> None:
    journald.emit(unit, "one\ntwo\nthree\n")
    cursor = collect(open_log(unit), 3)[1].cursor
    source = open_log(unit, cursor=cursor)

    assert texts(collect(source, 1)) == ["three"]
    journald.emit(unit, "four\n")
    assert texts(collect(source, 1)) == ["four"]
    assert source.health().health is Health.OK


def test_a_cursor_that_is_none_reads_from_the_given_time_and_says_so(
    journald: Journald, open_log: Open, unit: str
) -> None:
    journald.emit(unit, "one\n")
    source = open_log(unit, cursor="nonsense")

    assert texts(collect(source, 1)) == ["one"]
    assert source.health().health is Health.DEGRADED
    assert "no cursor" in source.health().detail


def test_a_cursor_whose_entry_is_gone_gives_what_is_left_and_reports_the_gap(
    tmp_path: Path, open_log: Open, unit: str
) -> None:
    old, new = tmp_path / "old.journal", tmp_path / "new.journal"
    make_journal(old, unit, ["lost 1", "lost 2"], start_us=1_796_000_000_000_000)
    make_journal(new, unit, ["kept 1", "kept 2"], start_us=1_796_000_010_000_000)
    cursor = collect(open_log(unit, path=str(tmp_path)), 4)[0].cursor
    old.unlink()
    source = open_log(unit, path=str(tmp_path), cursor=cursor)

    assert texts(collect(source, 2)) == ["kept 1", "kept 2"]
    assert source.health().health is Health.DEGRADED
    assert "gone from the journal" in source.health().detail


def test_rotation_and_vacuum_lose_nothing(journald: Journald, open_log: Open, unit: str) -> None:
    source = open_log(unit)
    got: list[str] = []
    for turn in range(3):
        journald.emit(unit, "".join(f"{turn}.{n}\n" for n in range(50)))
        got += texts(collect(source, 50))
        journald.run(["journalctl", "--rotate"])
        journald.run(["journalctl", "--vacuum-files=1", "--quiet"])

    assert got == [f"{turn}.{n}" for turn in range(3) for n in range(50)]
    assert source.health().health is Health.OK


def test_bytes_colours_carriage_returns_and_secrets(journald: Journald, open_log: Open, unit: str) -> None:
    journald.emit(
        unit,
        b"\x1b[0;36m(Worker_PP0 pid=1)\x1b[0m INFO colour\n"
        b"caf\xe9\n"
        b"\r 10%|#  | 1/9\r 90%|## | 8/9\r100%|###| 9/9\n"
        b"crlf\r\n"
        b"\n"
        b"server_args=ServerArgs(api_key='topsecret', tp_size=8)\n",
    )

    assert texts(collect(open_log(unit), 5)) == [
        "(Worker_PP0 pid=1) INFO colour",
        "caf\ufffd",
        "100%|###| 9/9",
        "crlf",
        f"server_args=ServerArgs(api_key='{REDACTED}', tp_size=8)",
    ]


def test_a_line_that_journald_cut_is_whole_again(journald: Journald, open_log: Open, unit: str) -> None:
    line = "server_args=ServerArgs(" + ", ".join(f"option_{n}='{n:050}'" for n in range(2000)) + ")"
    assert len(line) > 2 * 48 * 1024
    journald.emit(unit, f"{line}\nnext\n")

    got = collect(open_log(unit), 2)

    assert [len(text) for text in texts(got)] == [len(line), 4]
    assert texts(got) == [line, "next"]


def test_what_the_manager_says_about_the_unit_belongs_to_it(open_log: Open, tmp_path: Path, unit: str) -> None:
    make_journal(
        tmp_path / "a.journal",
        unit,
        ["own"],
        extra=[
            {"MESSAGE": "Main process exited, code=killed", "_PID": "1", "UNIT": unit},
            {"MESSAGE": "a liar's line", "_PID": "77", "UNIT": unit},
            {"MESSAGE": "Process 9 dumped core", "_UID": "0", "COREDUMP_UNIT": unit},
            {"MESSAGE": "a user's dump", "_UID": "1000", "COREDUMP_UNIT": unit},
            {"MESSAGE": "about it", "_UID": "0", "OBJECT_SYSTEMD_UNIT": unit},
        ],
    )

    assert texts(collect(open_log(unit, path=str(tmp_path)), 4)) == [
        "own",
        "Main process exited, code=killed",
        "Process 9 dumped core",
        "about it",
    ]


def test_a_senders_own_time_is_used_when_it_is_sane(open_log: Open, tmp_path: Path, unit: str) -> None:
    own_us = 1_796_000_000_000_000
    make_journal(
        tmp_path / "a.journal",
        unit,
        [],
        extra=[
            {"MESSAGE": "sent earlier", "_SYSTEMD_UNIT": unit, "_SOURCE_REALTIME_TIMESTAMP": str(own_us - 2_000_000)},
            {"MESSAGE": "wrong clock", "_SYSTEMD_UNIT": unit, "_SOURCE_REALTIME_TIMESTAMP": "12345"},
        ],
        start_us=own_us,
    )

    times = [line.time_ns for line in collect(open_log(unit, path=str(tmp_path)), 2)]

    assert times == [(own_us - 2_000_000) * 1000, (own_us + 1_000_000) * 1000]


@pytest.mark.parametrize(
    ("bursts", "missing"),
    [((10, 40), range(10, 45)), ((10, 1, 5), [10]), ((10, 5), []), ((10, 2), []), ((10,), []), ((7,), [])],
)
def test_of_a_long_past_the_start_and_the_newest_are_read(
    journald: Journald, open_log: Open, unit: str, bursts: tuple[int, ...], missing: Sequence[int]
) -> None:
    numbers = iter(range(sum(bursts)))
    for burst in bursts:
        journald.emit(unit, "".join(f"{next(numbers)}\n" for _ in range(burst)))
    source = open_log(unit, head_entries=10, tail_entries=5)
    wanted = [str(n) for n in range(sum(bursts)) if n not in missing]

    assert texts(collect(source, len(wanted))) == wanted
    journald.emit(unit, "new\n")
    assert texts(collect(source, 1)) == ["new"]
    assert ("newest entries" in source.health().detail) is bool(missing)


def test_lines_that_the_rate_limit_dropped_are_counted() -> None:
    settings = SETTINGS.replace("RateLimitIntervalSec=0", "RateLimitIntervalSec=1s\nRateLimitBurst=10")
    with Journald(settings) as limited:
        source = JournalSource("busy", 0, path=limited.folder)
        limited.emit("busy.service", "x\n" * 3000)
        collect(source, 1)

        def again() -> str:
            limited.emit("busy.service", "later\n")
            source.read()
            return source.health().detail

        detail = eventually(again, lambda text: "rate limit" in text)
        source.close()

    assert "rate limit dropped" in detail
    assert source.health().health is Health.DEGRADED
    assert "LogRateLimitIntervalSec" in source.health().mend


def test_a_folder_that_is_not_there_is_absent_and_may_come_later(tmp_path: Path, open_log: Open, unit: str) -> None:
    folder = tmp_path / "later"
    source = open_log(unit, path=str(folder))

    assert list(source.read()) == []
    assert source.health().health in {Health.ABSENT, Health.LOST}
    folder.mkdir()
    make_journal(folder / "a.journal", unit, ["came"])
    assert texts(collect(source, 1)) == ["came"]
    assert source.health().health is Health.OK


def test_files_that_may_not_be_read_are_denied_with_the_command_that_mends_it(open_log: Open, unit: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        make_journal(Path(folder) / "a.journal", unit, ["hidden"])
        collect(open_log(unit, path=folder), 1)  # root can read it, and all that is imported late is imported now
        (Path(folder) / "a.journal").chmod(0o640)
        Path(folder).chmod(0o755)
        seen = as_nobody(lambda: look(open_log(unit, path=folder)))
        Path(folder).chmod(0o700)
        blocked = as_nobody(lambda: look(open_log(unit, path=folder)))

    assert seen == blocked == "0 lines, denied, sudo usermod -aG systemd-journal nobody"


def look(source: LogSource) -> str:
    lines = source.read()
    health = source.health()
    return f"{len(lines)} lines, {health.health}, {health.mend}"


def as_nobody(task: Callable[[], str]) -> str:
    """What `task` says when a user without any right runs it."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.environ.pop("LOGNAME", None)
            os.environ["USER"] = "nobody"
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            os.write(write_end, task().encode())
        finally:
            os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as pipe:
        return pipe.read()


def test_without_systemd_python_journalctl_takes_over(
    monkeypatch: pytest.MonkeyPatch, journald: Journald, unit: str
) -> None:
    monkeypatch.setitem(sys.modules, "systemd.journal", None)
    journald.emit(unit, "hello\n")
    source = open_journal(unit, 0, path=journald.folder)

    assert texts(collect(source, 1)) == ["hello"]
    assert "journalctl" in source.health().detail
    source.close()


def test_with_neither_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "systemd.journal", None)
    monkeypatch.setenv("PATH", "/nowhere")

    with pytest.raises(SourceUnavailable, match=r"not installed .*bubblewatch\[journal\]"):
        open_journal("x", 0)


def test_a_journalctl_that_fails_is_told_and_started_again(tmp_path: Path, journald: Journald, unit: str) -> None:
    program = tmp_path / "journalctl"
    program.write_text("#!/bin/sh\necho 'api_key=abc123 is broken' >&2\nexit 3\n")
    program.chmod(0o755)
    source = JournalctlSource(unit, 0, path=journald.folder, journalctl=str(program))
    health = eventually(lambda: (source.read(), source.health())[1], lambda seen: seen.health is Health.LOST)

    assert f"api_key={REDACTED} is broken" in health.detail
    program.write_text(f'#!/bin/sh\nexec {shutil.which("journalctl")} "$@"\n')
    journald.emit(unit, "works\n")
    assert texts(collect(source, 1)) == ["works"]
    assert source.health().health is Health.OK
    source.close()


def test_the_journalctl_child_goes_with_its_owner(journald: Journald, unit: str) -> None:
    source = JournalctlSource(unit, 0, path=journald.folder)
    child = source._child.pid
    source.close()

    assert not Path(f"/proc/{child}").exists()


INSIDE = """
import subprocess, sys
from bubblewatch.sources.journal import open_journal
from tests.support.journald import EMITTER, eventually
source = open_journal("sglang.service", 0)
print(list(source.read()), source.health().health)
subprocess.run([sys.executable, EMITTER, "sglang.service", "echo", "from a service"], check=True)
lines = []
eventually(lambda: lines.extend(source.read()) or lines, lambda seen: len(seen) == 2)
print([(line.text, line.unit) for line in lines], source.health().health)
"""


def test_the_hosts_own_journal_is_read_without_a_path() -> None:
    done = private_journald([sys.executable, "-c", INSIDE], env={"PYTHONPATH": os.fspath(EMITTER.parents[2])})

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[] ok",
        "[('Started sglang.service', 'sglang.service'), ('from a service', 'sglang.service')] ok",
    ]


LATER = """
import subprocess, sys
from bubblewatch.sources.journal import JournalSource
from bubblewatch.sources.journalctl import JournalctlSource
from tests.support.journald import EMITTER, START, eventually
sources = [JournalSource("sglang", 0), JournalctlSource("sglang", 0)]
print([(list(source.read()), str(source.health().health)) for source in sources])
subprocess.run(["bash", "-c", START], check=True)
subprocess.run([sys.executable, EMITTER, "sglang.service"], input=b"at last", check=True)
print([([line.text for line in eventually(source.read, bool)], str(source.health().health)) for source in sources])
"""


def test_a_host_without_a_journal_is_absent_until_journald_comes() -> None:
    environment = {"PYTHONPATH": os.fspath(EMITTER.parents[2])}
    done = private_journald([sys.executable, "-c", LATER], env=environment, started=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[([], 'absent'), ([], 'absent')]",
        "[(['at last'], 'ok'), (['at last'], 'ok')]",
    ]


def test_a_unit_of_a_user(open_log: Open, tmp_path: Path, unit: str) -> None:
    make_journal(
        tmp_path / "a.journal",
        unit,
        ["of the system"],
        extra=[
            {"MESSAGE": "mine", "_SYSTEMD_USER_UNIT": unit, "_UID": "0"},
            {"MESSAGE": "another user's", "_SYSTEMD_USER_UNIT": unit, "_UID": "1000"},
        ],
    )

    assert texts(collect(open_log(unit, path=str(tmp_path), user=True), 1)) == ["mine"]


def make_journal(
    path: Path,
    unit: str,
    lines: list[str],
    *,
    extra: list[dict[str, str]] | None = None,
    start_us: int = 1_796_000_000_000_000,
) -> None:
    """A journal file with one entry a second, all fields as given (systemd-journal-remote)."""
    entries = [*({"MESSAGE": line, "_SYSTEMD_UNIT": unit} for line in lines), *(extra or [])]
    records = []
    for number, fields in enumerate(entries):
        address = {
            "__REALTIME_TIMESTAMP": start_us + number * 1_000_000,
            "__MONOTONIC_TIMESTAMP": 1000 + number * 1_000_000,
            "_BOOT_ID": "a" * 32,
        }
        records.append("".join(f"{name}={value}\n" for name, value in {**address, **fields}.items()))
    remote = "/lib/systemd/systemd-journal-remote"
    subprocess.run(
        [remote, "-o", str(path), "-"], input="\n".join([*records, ""]), text=True, check=True, capture_output=True
    )
