"""The append-only file: whatever cuts or spoils it, what was whole before that place is read, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.errors import SourceError
from bubblewatch.model.telemetry import Series
from bubblewatch.sources.recording_log import MAGIC, LogWriter, read_log
from bubblewatch.sources.recording_records import Begin, End, Readings, Record, Tick, packed, unpacked

RECORDS: tuple[Record, ...] = (
    Begin(1, "0.1", "s", 1, 5, 6, 30.0),
    Readings("GPU-1", {"power_instant_w": packed(Series((1, 2), (80.0, 81.5)), None) or (b"", b"")}),
    Tick(7, 8, 6),
    Tick(9, 10, 6),
    End(11),
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("log") / "000001.bwlog"
    writer = LogWriter(path)
    for record in RECORDS:
        writer.append([record])
    writer.close()
    assert writer.size_bytes == path.stat().st_size
    return path.read_bytes()


def read(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> list[Record]:
    path = tmp_path_factory.mktemp("read") / "000001.bwlog"
    path.write_bytes(data)
    return list(read_log(path))


def test_what_was_appended_is_read_back(tmp_path_factory: pytest.TempPathFactory, written: bytes) -> None:
    assert tuple(read(tmp_path_factory, written)) == RECORDS


def test_a_file_cut_anywhere_gives_the_records_before_the_cut(
    tmp_path_factory: pytest.TempPathFactory, written: bytes
) -> None:
    counts = []
    for length in range(len(written) + 1):
        found = tuple(read(tmp_path_factory, written[:length]))
        assert found == RECORDS[: len(found)]
        counts.append(len(found))
    assert counts == sorted(counts)
    assert (counts[0], counts[-2], counts[-1]) == (0, len(RECORDS) - 1, len(RECORDS))


@given(st.data())
def test_a_spoilt_byte_never_gives_a_record_that_was_not_written(
    tmp_path_factory: pytest.TempPathFactory, written: bytes, data: st.DataObject
) -> None:
    place = data.draw(st.integers(len(MAGIC), len(written) - 1))
    flipped = data.draw(st.integers(1, 255))
    spoilt = bytearray(written)
    spoilt[place] ^= flipped
    found = tuple(read(tmp_path_factory, bytes(spoilt)))
    assert found == RECORDS[: len(found)]
    assert len(found) < len(RECORDS)


def test_a_file_of_somebody_else_is_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(SourceError, match="no recording"):
        read(tmp_path_factory, b"PAR1 and so on, much longer than the first bytes")


class _Later(msgspec.Struct, tag="later"):
    value: int


class _LaterSources(msgspec.Struct, tag="sources"):
    sources: str


class _LaterTick(msgspec.Struct, tag="tick"):
    mono_ns: str


def test_kinds_of_a_later_version_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "000001.bwlog"
    writer = LogWriter(path)
    later = [_Later(1), _LaterSources("none")]
    writer.append([RECORDS[0], *later, RECORDS[2]])  # type: ignore[list-item]  that is the point
    assert list(read_log(path)) == [RECORDS[0], RECORDS[2]]
    writer.append([_LaterTick("x")])  # type: ignore[list-item]  a replay cannot do without it
    writer.close()
    with pytest.raises(SourceError, match="cannot be read"):
        list(read_log(path))


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "000001.bwlog").write_bytes(b"precious")
    with pytest.raises(SourceError, match="exists"):
        LogWriter(tmp_path / "000001.bwlog")
    assert (tmp_path / "000001.bwlog").read_bytes() == b"precious"


FULL = """
import resource, sys
from pathlib import Path
from bubblewatch.model.errors import SourceError
from bubblewatch.sources.recording_log import LogWriter
from bubblewatch.sources.recording_records import Tick
writer = LogWriter(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    for number in range(1000):
        writer.append([Tick(number, number, 0)])
except SourceError as error:
    print(number, error)
"""


def test_a_limit_of_the_system_is_one_sentence_and_spoils_nothing(tmp_path: Path) -> None:
    path = tmp_path / "000001.bwlog"
    done = subprocess.run([sys.executable, "-c", FULL, path], capture_output=True, text=True, check=True)
    number, _, message = done.stdout.partition(" ")
    assert "File too large" in message
    assert [r.mono_ns for r in read_log(path) if isinstance(r, Tick)] == list(range(int(number)))


@given(
    st.lists(
        st.tuples(st.integers(0, 2**62), st.floats(allow_infinity=False)), unique_by=lambda one: one[0], max_size=50
    ),
    st.integers(0, 2**62),
)
def test_only_readings_after_a_time_are_packed(readings: list[tuple[int, float]], after_ns: int) -> None:
    readings.sort()
    series = Series(tuple(t for t, _ in readings), tuple(v for _, v in readings))
    pair = packed(series, after_ns)
    later = [(t, v) for t, v in readings if t > after_ns]
    assert (pair is None) == (not later)
    if pair is not None:
        times, values = unpacked(pair)
        assert repr(list(zip(times, values, strict=True))) == repr(later)  # NaN is not equal to itself
