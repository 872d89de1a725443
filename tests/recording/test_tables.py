"""Parquet holds what the append-only file held, to the bit where a replay needs it."""

from __future__ import annotations

import math
import subprocess
import sys
from array import array
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.errors import UsageError
from bubblewatch.report.recording_parts import compact, part_records, read_records
from bubblewatch.report.recording_tables import read_part, to_tables, write_part
from bubblewatch.sources.recording_folder import parts_of
from bubblewatch.sources.recording_log import LogWriter, read_log
from bubblewatch.sources.recording_records import SCHEMA, Begin, Lines, Readings, Record, SignalsSeen, Tick, unpacked
from tests.support.recordings import record

VALUES = st.one_of(
    st.floats(allow_infinity=False, width=64),
    st.integers(0, 10**9).map(lambda mw: mw / 1000),
    st.integers(0, 100).map(lambda percent: percent / 100),
    st.just(math.nan),
)
SERIES = st.lists(st.tuples(st.integers(0, 2**62), VALUES), min_size=1, max_size=8, unique_by=lambda one: one[0])
READINGS = st.builds(
    lambda uuid, series: Readings(
        uuid,
        {
            field: (array("q", [t for t, _ in sorted(rows, key=lambda r: r[0])]).tobytes(),
                    array("d", [v for _, v in sorted(rows, key=lambda r: r[0])]).tobytes())
            for field, rows in series.items()
        },
    ),
    st.sampled_from(["GPU-a", "GPU-b"]),
    st.dictionaries(st.sampled_from(["power_instant_w", "energy_j", "util_ratio"]), SERIES, min_size=1),
)  # fmt: skip


def plain(record: Record) -> object:
    if not isinstance(record, Readings):
        return repr(record)
    return record.uuid, {
        field: repr([list(p) for p in unpacked(pair)]) for field, pair in sorted(record.series.items())
    }


@settings(max_examples=60)
@given(st.lists(st.lists(READINGS, max_size=2, unique_by=lambda r: r.uuid), max_size=4))
def test_readings_come_back_to_the_bit(tmp_path_factory: pytest.TempPathFactory, by_tick: list[list[Readings]]) -> None:
    records: list[Record] = [Begin(SCHEMA, "0.1", "s", 1, 0, 0, 30.0)]
    for number, readings in enumerate(by_tick):
        records += [*readings, Tick(number, number, 0)]
    folder = tmp_path_factory.mktemp("part")
    write_part(to_tables(records), folder)
    found = list(read_part(folder))
    assert sorted(map(repr, map(plain, found))) == sorted(map(repr, map(plain, records)))
    ticks = [r.mono_ns for r in found if isinstance(r, Tick)]
    assert ticks == list(range(len(by_tick)))


def test_a_whole_part_comes_back_in_an_order_that_a_replay_can_take(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    record(tmp_path, rules, 12, compact=False)
    (part,) = parts_of(tmp_path)
    before = list(read_log(part.path))
    compact(part.path)
    after = list(read_records(tmp_path))
    assert [type(r).__name__ for r in before if isinstance(r, Begin | Tick)] == [
        type(r).__name__ for r in after if isinstance(r, Begin | Tick)
    ]
    exact = [r for r in before if not isinstance(r, SignalsSeen)]
    again = [r for r in after if not isinstance(r, SignalsSeen)]
    assert sorted(map(repr, map(plain, exact))) == sorted(map(repr, map(plain, again)))
    lines = [[line for r in rs if isinstance(r, Lines) for line in r.lines] for rs in (before, after)]
    assert lines[0] == lines[1]


def test_signals_come_back_to_seven_digits_with_their_types(tmp_path: Path) -> None:
    values = {"demand.running": 8, "server.ready": True, "demand.state": "running", "throughput.gen_tps": 95.31234567}
    write_part(to_tables([SignalsSeen("server:k", dict(values)), Tick(1, 1, 0)]), tmp_path)
    (found, _) = read_part(tmp_path)
    assert isinstance(found, SignalsSeen)
    assert found.values == {**values, "throughput.gen_tps": pytest.approx(95.31234567, rel=1e-7)}
    assert {type(v) for v in found.values.values()} == {int, bool, str, float}


def test_a_converter_that_was_ended_leaves_the_part_as_it_was(tmp_path: Path, rules: tuple[Rule, ...]) -> None:
    record(tmp_path, rules, 3, compact=False)
    before = list(read_records(tmp_path))
    unfinished = tmp_path / "000001.tmp"
    unfinished.mkdir()
    (unfinished / "ticks.parquet").write_bytes(b"half")
    assert list(read_records(tmp_path)) == before
    (part,) = parts_of(tmp_path)
    compact(part.path)
    assert not unfinished.exists()
    assert len(list(read_records(tmp_path))) == len(before)


def test_where_both_forms_are_there_the_finished_one_counts_and_the_other_goes(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    record(tmp_path, rules, 3, compact=False)
    log = tmp_path / "000001.bwlog"
    data = log.read_bytes()
    compact(log)
    log.write_bytes(data)
    (part,) = parts_of(tmp_path)
    assert not part.is_log
    compact(log)
    assert not log.exists()
    assert len(parts_of(tmp_path)) == 1


def test_a_recording_of_a_later_form_is_refused_with_its_version(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "000001.bwlog")
    writer.append([Begin(SCHEMA + 1, "9.9", "s", 1, 0, 0, 30.0)])
    writer.close()
    (part,) = parts_of(tmp_path)
    with pytest.raises(UsageError, match=r"bubblewatch 9\.9"):
        list(part_records(part))


def test_converters_of_recorders_that_were_killed_do_not_get_into_each_others_way(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    """Six at once on the same part: one makes it, the others find it made."""
    record(tmp_path, rules, 3, compact=False)
    before = sorted(map(repr, map(plain, read_records(tmp_path))))
    (part,) = parts_of(tmp_path)
    command = [sys.executable, "-m", "bubblewatch.report.compact", str(part.path)]
    children = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    said = [child.communicate()[1] for child in children]
    assert said == [""] * 6
    assert [child.returncode for child in children] == [0] * 6
    (made,) = parts_of(tmp_path)
    assert not made.is_log
    after = sorted(map(repr, map(plain, read_records(tmp_path))))
    assert [text for text in after if "SignalsSeen" not in text] == [t for t in before if "SignalsSeen" not in t]


def test_a_part_that_is_turned_while_somebody_reads_is_read_all_the_same(
    tmp_path: Path, rules: tuple[Rule, ...]
) -> None:
    record(tmp_path, rules, 3, compact=False)
    (before_opening,) = parts_of(tmp_path)
    reading = part_records(before_opening)
    first = next(reading)
    compact(before_opening.path)
    ticks = [r for r in (first, *reading) if isinstance(r, Tick)]
    assert ticks == [r for r in part_records(before_opening) if isinstance(r, Tick)]
    assert len(ticks) == 4
