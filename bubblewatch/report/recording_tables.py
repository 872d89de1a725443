"""A closed part of a recording as Parquet, and back: the only place that knows the columns.

Files of a part (zstd; `tick` numbers the judgements of the part from 0; what came after the last one has the next
number):

    ticks     tick, mono_ns, wall_ns, start_ns, holds, answer
    readings  tick, gpu (uuid), time_ns (monotonic), then one column for each field that was delivered
    lines     tick, stream, again, time_ns (wall), time_exact, source, unit, pid, cursor, number, text
    signals   tick, target, name, number (32-bit float; 0 and 1 for false and true), text
    records   tick, kind, json: everything else, as in `sources.recording_records`

A field's column is named `<field>_x10000` and holds whole ten-thousandths when that loses nothing, else `<field>` with
64-bit floats. Null = no reading at that time; NaN, or the least 64-bit number, = the device did not say.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bubblewatch.model.errors import SourceError
from bubblewatch.model.findings import Answer
from bubblewatch.model.logs import LogLine
from bubblewatch.model.signals import SignalValue
from bubblewatch.signals.vocabulary import VOCABULARY
from bubblewatch.sources.recording_records import (
    End,
    Lines,
    Readings,
    Record,
    SignalsSeen,
    Tick,
    plain_mapping,
    unpacked,
)

SCALE = 10_000
"""Exact for what NVML gives in mW, mJ and percent, and for ratios with four digits."""

NOT_SAID = np.iinfo(np.int64).min
"""Stands for NaN in a column of whole numbers."""

TABLES = ("ticks", "readings", "lines", "signals", "records")

LEVEL = 9
"""Of zstd: a third smaller than level 3 for readings, and an hour of eight GPUs still takes a few seconds."""

_KEYS = ("tick", "gpu", "time_ns")
_LINE_FIELDS = ("time_ns", "time_exact", "source", "unit", "pid", "cursor", "number", "text")
_LINES = pa.schema(
    [
        *(("tick", pa.int32()), ("stream", pa.string()), ("again", pa.bool_()), ("time_ns", pa.int64())),
        *(("time_exact", pa.bool_()), ("source", pa.string()), ("unit", pa.string()), ("pid", pa.int64())),
        *(("cursor", pa.string()), ("number", pa.int64()), ("text", pa.string())),
    ]
)
_TICKS = pa.schema(
    [
        *(("tick", pa.int32()), ("mono_ns", pa.int64()), ("wall_ns", pa.int64()), ("start_ns", pa.int64())),
        *(("holds", pa.bool_()), ("answer", pa.string())),
    ]
)
_SIGNALS = pa.schema(
    [
        *(("tick", pa.int32()), ("target", pa.string()), ("name", pa.string())),
        *(("number", pa.float32()), ("text", pa.string())),
    ]
)
_RECORDS = pa.schema([("tick", pa.int32()), ("kind", pa.string()), ("json", pa.string())])


def to_tables(records: Iterable[Record]) -> Mapping[str, pa.Table]:
    """The tables of one part."""
    rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in ("ticks", "lines", "signals", "records")}
    readings: dict[str, list[tuple[int, Readings]]] = defaultdict(list)
    encoder = msgspec.json.Encoder(enc_hook=plain_mapping)
    tick = 0
    for record in records:
        match record:
            case Tick():
                rows["ticks"].append(
                    (tick, record.mono_ns, record.wall_ns, record.start_ns, record.holds, record.answer)
                )
                tick += 1
            case Readings():
                readings[record.uuid].append((tick, record))
            case Lines():
                rows["lines"] += [
                    (tick, record.stream, record.again, *(getattr(line, name) for name in _LINE_FIELDS))
                    for line in record.lines
                ]
            case SignalsSeen():
                rows["signals"] += [(tick, record.target, *_signal(n, v)) for n, v in record.values.items()]
            case _:
                rows["records"].append((tick, record.__struct_config__.tag, encoder.encode(record).decode()))
    # By target and name the values of one signal stand together: they pack better.
    rows["signals"].sort(key=lambda row: (row[1], row[2], row[0]))
    schemas = {"ticks": _TICKS, "lines": _LINES, "signals": _SIGNALS, "records": _RECORDS}
    made = {name: _table(schema, rows[name]) for name, schema in schemas.items()}
    return {**made, "readings": _readings_table(readings)}


def _signal(name: str, value: SignalValue) -> tuple[str, float | None, str | None]:
    return (name, None, value) if isinstance(value, str) else (name, float(value), None)


def _table(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _readings_table(readings: Mapping[str, Sequence[tuple[int, Readings]]]) -> pa.Table:
    parts = [_one_gpu(uuid, of_gpu) for uuid, of_gpu in sorted(readings.items())]
    if not parts:
        return pa.table({"tick": pa.array([], pa.int32()), "gpu": pa.array([], pa.string())})
    names = dict.fromkeys(name for part in parts for name in part.column_names)
    for name in [n for n in names if f"{n}_x{SCALE}" in names]:  # whole on one GPU and not on another
        parts = [_as_floats(part, f"{name}_x{SCALE}", name) for part in parts]
    return pa.concat_tables(parts, promote_options="default")


def _as_floats(table: pa.Table, whole: str, name: str) -> pa.Table:
    if whole not in table.column_names:
        return table
    column = table[whole].combine_chunks()
    numbers = column.fill_null(0).to_numpy()
    values = np.where(numbers == NOT_SAID, np.nan, numbers / SCALE)
    floats = pa.array(values, mask=~column.is_valid().to_numpy(zero_copy_only=False))
    return table.set_column(table.column_names.index(whole), name, floats)


def _one_gpu(uuid: str, records: Sequence[tuple[int, Readings]]) -> pa.Table:
    """One row for each moment (and tick that learned of it), a column for each field."""
    series: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]]] = defaultdict(list)
    for tick, record in records:
        for field, pair in record.series.items():
            times, values = (np.asarray(part) for part in unpacked(pair))
            series[field].append((times, values, np.full(len(times), tick)))
    whole = {field: tuple(map(np.concatenate, zip(*blocks, strict=True))) for field, blocks in series.items()}
    keys = np.unique(np.concatenate([np.stack([t, n], axis=1) for t, _, n in whole.values()]), axis=0)
    keys = keys[np.lexsort((keys[:, 0], keys[:, 1]))]
    places = {(time, tick): row for row, (time, tick) in enumerate(map(tuple, keys.tolist()))}
    columns: dict[str, pa.Array] = {
        "tick": pa.array(keys[:, 1].astype(np.int32)),
        "gpu": pa.array([uuid] * len(keys)),
        "time_ns": pa.array(keys[:, 0]),
    }
    for field, (times, values, numbers) in sorted(whole.items()):
        rows = [places[key] for key in zip(times.tolist(), numbers.tolist(), strict=True)]
        name, numbers_or_values = _scaled(field, values)
        spread = np.zeros(len(keys), numbers_or_values.dtype)
        spread[rows] = numbers_or_values
        absent = np.ones(len(keys), bool)
        absent[rows] = False
        columns[name] = pa.array(spread, mask=absent)
    return pa.table(columns)


def _scaled(field: str, values: NDArray[np.float64]) -> tuple[str, NDArray[Any]]:
    """Name of the column and its values: whole numbers when that loses nothing."""
    unsaid = np.isnan(values)
    known = np.where(unsaid, 0.0, values)
    if not np.all(np.abs(known) < 1e14):
        return field, values
    numbers = np.rint(known * SCALE).astype(np.int64)
    is_exact = np.array_equal(numbers / SCALE, known) and not np.signbit(known[known == 0]).any()
    if not is_exact:
        return field, values
    return f"{field}_x{SCALE}", np.where(unsaid, NOT_SAID, numbers)


def write_part(tables: Mapping[str, pa.Table], folder: Path) -> None:
    """Write the tables into a folder that is there."""
    for name, table in tables.items():
        whole = [f.name for f in table.schema if pa.types.is_integer(f.type)]
        texts = [f.name for f in table.schema if pa.types.is_string(f.type) and f.name not in ("json", "text")]
        pq.write_table(
            table,
            folder / f"{name}.parquet",
            compression="zstd",
            compression_level=LEVEL,
            use_dictionary=texts,
            column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
        )


def read_table(folder: Path, name: str, fields: Collection[str] | None = None) -> pa.Table:
    """One table of a part, of readings only these fields. Raises SourceError when it cannot be read."""
    path = folder / f"{name}.parquet"
    try:
        columns = None
        if name == "readings" and fields is not None:
            there = pq.read_schema(path).names
            columns = [c for c in there if c in _KEYS or c.removesuffix(f"_x{SCALE}") in fields]
        return pq.read_table(path, columns=columns)
    except (OSError, pa.ArrowException) as error:
        raise SourceError(f"{path} cannot be read: {error}") from error


def read_part(folder: Path) -> Iterator[Record]:
    """The records of a part, in an order in which a replay can take them."""
    by_tick: dict[int, list[Record]] = defaultdict(list)
    for tick, record in other_records(read_table(folder, "records")):
        by_tick[tick].append(record)
    for name, unpack in (("readings", _readings), ("lines", _lines), ("signals", _signals)):
        for tick, record in unpack(read_table(folder, name)):
            by_tick[tick].append(record)
    last = -1
    for row in read_table(folder, "ticks").to_pylist():
        last = row["tick"]
        yield from by_tick.pop(last, ())
        yield Tick(row["mono_ns"], row["wall_ns"], row["start_ns"], row["holds"], Answer(row["answer"]))
    for tick in sorted(by_tick):
        yield from (r for r in by_tick[tick] if not isinstance(r, End))
        yield from (r for r in by_tick[tick] if isinstance(r, End))


def other_records(table: pa.Table) -> Iterator[tuple[int, Record]]:
    """Tick and record of everything without a table of its own; kinds that this version does not know are left out."""
    decoder = msgspec.json.Decoder(Record)
    for row in table.to_pylist():
        try:
            yield row["tick"], decoder.decode(row["json"])
        except msgspec.MsgspecError:
            continue


def field_values(table: pa.Table, column: str) -> tuple[str, NDArray[np.float64], NDArray[np.bool_]]:
    """Name of the field, its values as floats, and where there is a reading."""
    there = table[column].is_valid().to_numpy()
    values = table[column].fill_null(0).to_numpy()
    if not column.endswith(f"_x{SCALE}"):
        return column, np.asarray(values, dtype=np.float64), there
    return column.removesuffix(f"_x{SCALE}"), np.where(values == NOT_SAID, np.nan, values / SCALE), there


def _readings(table: pa.Table) -> Iterator[tuple[int, Record]]:
    if not table.num_rows:
        return
    gpus = table["gpu"].to_pylist()
    ticks = table["tick"].to_numpy()
    times = table["time_ns"].to_numpy()
    fields = [field_values(table, name) for name in table.column_names if name not in ("tick", "gpu", "time_ns")]
    # Rows of one GPU and tick stand together.
    edges = [0, *(i for i in range(1, len(gpus)) if gpus[i] != gpus[i - 1] or ticks[i] != ticks[i - 1]), len(gpus)]
    for first, end in pairwise(edges):
        series = {}
        for field, values, there in fields:
            rows = np.flatnonzero(there[first:end]) + first
            if len(rows):
                series[field] = (times[rows].astype("<i8").tobytes(), values[rows].astype("<f8").tobytes())
        yield int(ticks[first]), Readings(gpus[first], series)


def _lines(table: pa.Table) -> Iterator[tuple[int, Record]]:
    batch: list[LogLine] = []
    at: tuple[int, str, bool] | None = None
    for row in table.to_pylist():
        place = row["tick"], row["stream"], row["again"]
        if at is not None and place != at:
            yield at[0], Lines(at[1], tuple(batch), at[2])
            batch = []
        at = place
        batch.append(LogLine(**{name: row[name] for name in _LINE_FIELDS}))
    if at is not None:
        yield at[0], Lines(at[1], tuple(batch), at[2])


def _signals(table: pa.Table) -> Iterator[tuple[int, Record]]:
    seen: dict[tuple[int, str], dict[str, SignalValue]] = defaultdict(dict)
    for row in table.to_pylist():
        seen[row["tick"], row["target"]][row["name"]] = _value(row["name"], row["number"], row["text"])
    for (tick, target), values in seen.items():
        yield tick, SignalsSeen(target, values)


def _value(name: str, number: float | None, text: str | None) -> SignalValue:
    if number is None:
        return text or ""
    spec = VOCABULARY.get(name)
    if spec is not None and spec.type in ("bool", "int"):
        return bool(number) if spec.type == "bool" else int(number)
    return number
