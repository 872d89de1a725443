"""Log files, growing or whole."""

from __future__ import annotations

import gzip
import io
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Health
from bubblewatch.model.logs import LogLine
from bubblewatch.model.redact import REDACTED
from bubblewatch.sources.container_log import unwrapped
from bubblewatch.sources.logfile import LogFileSource, read_log
from bubblewatch.sources.text import MAX_LINE_CHARS


def texts(lines: object) -> list[str]:
    return [line.text for line in lines]  # type: ignore[attr-defined]  # any sequence of lines


def append(path: Path, text: str | bytes) -> None:
    with path.open("ab") as file:
        file.write(text.encode() if isinstance(text, str) else text)


def everything(source: LogFileSource) -> list[str]:
    got: list[str] = []
    while lines := source.read():
        got += texts(lines)
    return got


def test_what_is_there_and_then_what_is_appended(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "one\ntwo\n")
    source = LogFileSource(str(path))

    assert texts(source.read()) == ["one", "two"]
    assert source.read() == []
    append(path, "three\r\n")
    assert texts(source.read()) == ["three"]
    assert source.health().health is Health.OK
    assert source.health().read_count == 3


def test_an_unfinished_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "one\nDecode ba")
    source = LogFileSource(str(path))

    assert texts(source.read()) == ["one"]
    append(path, "tch\nnext")
    assert texts(source.read()) == ["Decode batch"]


def test_a_secret_in_two_writes_is_redacted(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "api_key='abc")
    source = LogFileSource(str(path))
    source.read()
    append(path, "def' x=1\n")

    assert texts(source.read()) == [f"api_key='{REDACTED}' x=1"]


def test_a_file_that_comes_later(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    source = LogFileSource(str(path))

    assert source.read() == ()
    assert source.health().health is Health.ABSENT
    append(path, "hello\n")
    assert texts(source.read()) == ["hello"]
    assert source.health().health is Health.OK


def test_rotation_reads_the_rest_of_the_old_file_first(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "old 1\n")
    source = LogFileSource(str(path))
    source.read()
    append(path, "old 2\nold 3 without an end")
    path.rename(tmp_path / "server.log.1")
    append(tmp_path / "server.log.1", " really\nold 4")

    assert texts(source.read()) == ["old 2", "old 3 without an end really"]
    append(path, "new 1\n")
    assert everything(source) == ["old 4", "new 1"]
    append(path, "new 2\n")
    assert everything(source) == ["new 2"]


def test_a_file_cut_to_nothing_is_read_from_its_start_and_told(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "a long old line\n")
    source = LogFileSource(str(path))
    source.read()
    path.write_text("new\n")

    assert texts(source.read()) == ["new"]
    assert source.health().health is Health.DEGRADED
    assert "cut to nothing" in source.health().detail


def test_of_a_long_file_the_start_and_the_newest_part_are_read(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "".join(f"line {n:04}\n" for n in range(1000)))  # ten bytes each
    source = LogFileSource(str(path), head_bytes=100, tail_bytes=55)

    assert everything(source) == [f"line {n:04}" for n in [*range(10), *range(995, 1000)]]
    append(path, "new\n")
    assert everything(source) == ["new"]


def test_a_line_without_end_is_not_kept_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    append(path, "x" * (MAX_LINE_CHARS + 10))
    source = LogFileSource(str(path))

    assert texts(source.read()) == ["x" * MAX_LINE_CHARS + " [10 more characters cut]"]


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_told(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "thing"
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    source = LogFileSource(str(path))

    assert source.read() == ()
    assert "not a regular file" in source.health().detail


def test_a_whole_log_with_line_numbers(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_bytes(b"one\n\n\x1b[31mred\x1b[0m\r\ncaf\xe9\nlast without end")

    assert [(line.number, line.text) for line in read_log(str(path))] == [
        (1, "one"),
        (3, "red"),
        (4, "caf\ufffd"),
        (5, "last without end"),
    ]
    assert read_log(str(path))[0] == LogLine("one", source=str(path), number=1)


def test_a_packed_log_and_one_of_another_encoding(tmp_path: Path) -> None:
    packed, wide = tmp_path / "server.log.gz", tmp_path / "server.txt"
    packed.write_bytes(gzip.compress(b"one\ntwo\n", mtime=0))
    wide.write_bytes("one\r\ntwo\r\n".encode("utf-16"))

    assert texts(read_log(str(packed))) == texts(read_log(str(wide))) == ["one", "two"]


def test_standard_input() -> None:
    assert read_log("-", io.BytesIO(b"hello\n")) == (LogLine("hello", source="standard input", number=1),)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file"),
        (b"", "empty"),
        (b"\n \n", "empty"),
        (gzip.compress(b"text\n" * 99, mtime=0)[:-20], "cannot be read"),
    ],
)
def test_a_log_that_cannot_be_had_is_one_sentence(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "server.log"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UsageError, match=re.escape(str(path)) + f".*{problem}") as caught:
        read_log(str(path))
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder"):
        read_log(str(tmp_path))


@given(st.binary(min_size=1, max_size=400))
def test_any_bytes_are_lines_or_one_clear_error(data: bytes) -> None:
    try:
        lines = read_log("-", io.BytesIO(data))
    except UsageError:
        return
    numbers = [line.number for line in lines]
    assert numbers == sorted(numbers, key=lambda number: number or 0)


def test_docker_json_lines_give_their_text_and_time() -> None:
    record = b'{"log":"\\u001b[31mDecode\\u001b[0m batch\\n","stream":"stderr","time":"1970-01-02T00:00:01.5Z"}'

    assert unwrapped(record, "f", 7) == [LogLine("Decode batch", 86_401 * NS + NS // 2, True, source="f", number=7)]


def test_cri_lines_give_their_text_and_time() -> None:
    record = b"1970-01-01T07:00:01.333962774+07:00 stdout F (Worker pid=549) INFO x"

    assert unwrapped(record, "f") == [LogLine("(Worker pid=549) INFO x", NS + 333_962_774, True, source="f")]


@pytest.mark.parametrize(
    "record",
    [
        b'{"log": broken',
        b'{"log":1',
        b"2026-99-99T00:00:00Z stdout F text",
        b"2026-01-01 10:00:00 text",
        b"7 of 9",
        b"{}",
    ],
)
def test_what_only_looks_like_a_wrapping_stays_text(record: bytes) -> None:
    (line,) = unwrapped(record, "f")

    assert line.text.endswith(record.decode()[-4:])
    assert line.time_ns is None
