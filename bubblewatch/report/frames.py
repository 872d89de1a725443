"""The tables of a recording as pandas frames: the API for people who want to look themselves.

    from pathlib import Path
    from bubblewatch.report.frames import RecordingFrames

    frames = RecordingFrames(Path("before"))
    frames.signals(["pipeline.stages_busy"]).plot(x="time", y="number")

Columns (`time` is always a UTC timestamp; what was not known is NA):

    gpus()      uuid, index, name, power_limit_w, memory_total_bytes
    ticks()     time, answer
    readings()  time, gpu (uuid), and one column for each field of `model.telemetry.FIELDS` that was delivered: distinct
                readings, which hold until the next one of that column
    signals()   time, target (`server:KEY`, `gpu:UUID`), name, number (0 and 1 for false and true), text
    findings()  time, name, target, state, severity, confidence, summary: each time something of it changed
    lines()     time, stream (the server's key), text: log lines that mean something
    settings()  time, server, name, value, origin, evidence: each server's settings, again whenever they changed
    states()    time, gpu, state, seconds: time by state (`model.accounts.GpuState`) since the row before
    lost()      time, server, cause, seconds: idle GPU time by cause since the row before
    energy()    time, gpu, joules: since the row before
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from bubblewatch.model.accounts import Accounts
from bubblewatch.model.errors import UsageError
from bubblewatch.model.server import Server
from bubblewatch.report.recording_parts import part_records
from bubblewatch.report.recording_tables import field_values, other_records, read_table, to_tables
from bubblewatch.sources.recording_folder import Part, recording_parts
from bubblewatch.sources.recording_records import Begin, Books, Found, Gpus, Record, Servers

Name = TypeVar("Name", bound=str)


@dataclass(frozen=True, slots=True)
class PartFrames:
    """One part. `times_ns` is the wall time of each tick, with one more for what came after the last."""

    session: str
    times_ns: np.ndarray[tuple[int], np.dtype[np.int64]]
    offset_ns: int
    tables: Mapping[str, pa.Table]
    records: Sequence[tuple[int, Record]]


class RecordingFrames:
    """A recording between two wall times (ns; None = as far as it goes).

    Raises UsageError for a folder that is none. Reading is done when a frame is asked for; `readings` of a day on eight
    GPUs take some GB, so `parts` gives them piece by piece.
    """

    def __init__(self, folder: Path, from_ns: int | None = None, until_ns: int | None = None) -> None:
        self.folder = folder
        self._from_ns = from_ns
        self._until_ns = until_ns
        self._parts = recording_parts(folder)

    def parts(self, *names: str, fields: Collection[str] | None = None) -> Iterator[PartFrames]:
        """Each part that has something of the span, with these tables besides `ticks` and `records`.

        `fields` are those of readings that are wanted, None = all; others may come all the same.
        """
        session = ""
        for part in self._parts:
            opened = _open(part, names, session, fields)
            if opened is None:
                continue
            session = opened.session
            first_ns, last_ns = int(opened.times_ns[0]), int(opened.times_ns[-1])
            if (self._until_ns is not None and first_ns > self._until_ns) or (
                self._from_ns is not None and last_ns < self._from_ns
            ):
                continue
            yield opened

    def records(self) -> Iterator[tuple[int, str, Record]]:
        """Wall time, session and record of everything but readings, lines and signals."""
        for part in self.parts():
            for tick, record in part.records:
                time_ns = int(part.times_ns[tick])
                # What was said before the span holds in it, if it holds from there on.
                holds = isinstance(record, Begin | Gpus | Servers) and not self._is_after(time_ns)
                if holds or self._is_in(time_ns):
                    yield time_ns, part.session, record

    def _is_in(self, time_ns: int) -> bool:
        return (self._from_ns is None or time_ns >= self._from_ns) and not self._is_after(time_ns)

    def _is_after(self, time_ns: int) -> bool:
        return self._until_ns is not None and time_ns > self._until_ns

    def within(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The rows of a frame that lie in the span."""
        if self._from_ns is not None:
            frame = frame[frame["time"] >= _stamp(self._from_ns)]
        if self._until_ns is not None:
            frame = frame[frame["time"] <= _stamp(self._until_ns)]
        return frame.reset_index(drop=True)

    def gpus(self) -> pd.DataFrame:
        known = {g.uuid: g for _, _, record in self.records() if isinstance(record, Gpus) for g in record.gpus}
        rows = [(g.uuid, g.index, g.name, g.power_limit_w, g.memory_total_bytes) for g in known.values()]
        return pd.DataFrame(rows, columns=["uuid", "index", "name", "power_limit_w", "memory_total_bytes"])

    def ticks(self) -> pd.DataFrame:
        each = [part.tables["ticks"].select(["wall_ns", "answer"]).to_pandas() for part in self.parts()]
        frame = _joined(each, ["wall_ns", "answer"])
        frame.insert(0, "time", pd.to_datetime(frame.pop("wall_ns"), utc=True))
        return self.within(frame)

    def readings(self) -> pd.DataFrame:
        return self.within(_joined([readings_of(part) for part in self.parts("readings")], ["time", "gpu"]))

    def signals(self, names: Iterable[str] | None = None) -> pd.DataFrame:
        wanted = None if names is None else set(names)
        each = []
        for part in self.parts("signals"):
            frame = part.tables["signals"].to_pandas()
            if wanted is not None:
                frame = frame[frame["name"].isin(wanted)]
            each.append(_timed(frame, part))
        frame = _joined(each, ["time", "target", "name", "number", "text"])
        return self.within(frame.sort_values(["target", "name", "time"], kind="stable"))

    def findings(self) -> pd.DataFrame:
        rows = [
            (_stamp(t), f.name, str(f.target), f.state.value, f.severity.word, f.confidence.word, f.summary)
            for t, _, record in self.records()
            if isinstance(record, Found)
            for f in record.findings
        ]
        columns = ["time", "name", "target", "state", "severity", "confidence", "summary"]
        return self.within(pd.DataFrame(rows, columns=columns))

    def lines(self) -> pd.DataFrame:
        each = []
        for part in self.parts("lines"):
            frame = part.tables["lines"].to_pandas()
            frame = frame[~frame["again"].astype(bool)].copy()
            frame["time"] = pd.to_datetime(frame["time_ns"], utc=True)
            each.append(frame[["time", "stream", "text"]])
        return self.within(_joined(each, ["time", "stream", "text"]))

    def settings(self) -> pd.DataFrame:
        rows = []
        before: dict[str, Server] = {}
        for t, _, record in self.records():
            for server in record.servers if isinstance(record, Servers) else ():
                known = before.get(server.key)
                before[server.key] = server
                if known is None or known.settings != server.settings:
                    rows += [
                        (_stamp(t), server.key, s.name, s.value, s.origin.value, s.evidence) for s in server.settings
                    ]
        return pd.DataFrame(rows, columns=["time", "server", "name", "value", "origin", "evidence"])

    def states(self) -> pd.DataFrame:
        rows = [
            (_stamp(t), uuid, state.value, spent / 1e9)
            for t, before, now in self.books()
            for uuid, account in now.gpus.items()
            for state, spent in _more(before.gpus[uuid].time_ns if uuid in before.gpus else {}, account.time_ns)
        ]
        return self.within(pd.DataFrame(rows, columns=["time", "gpu", "state", "seconds"]))

    def lost(self) -> pd.DataFrame:
        rows = [
            (_stamp(t), key, cause, spent / 1e9)
            for t, before, now in self.books()
            for key, account in now.servers.items()
            for cause, spent in _more(before.servers[key].lost_ns if key in before.servers else {}, account.lost_ns)
        ]
        return self.within(pd.DataFrame(rows, columns=["time", "server", "cause", "seconds"]))

    def energy(self) -> pd.DataFrame:
        rows = [
            (_stamp(t), uuid, account.energy_j - (before.gpus[uuid].energy_j or 0.0 if uuid in before.gpus else 0.0))
            for t, before, now in self.books()
            for uuid, account in now.gpus.items()
            if account.energy_j is not None
        ]
        return self.within(pd.DataFrame(rows, columns=["time", "gpu", "joules"]))

    def books(self) -> Iterator[tuple[int, Accounts, Accounts]]:
        """Wall time, the counters before and the counters then. They begin at zero with each session."""
        before, of = Accounts(), ""
        for t, session, record in self.records():
            if isinstance(record, Books):
                if session != of:
                    before, of = Accounts(), session
                yield t, before, record.accounts
                before = record.accounts


def readings_of(part: PartFrames) -> pd.DataFrame:
    """The readings of one part, as `RecordingFrames.readings` gives them."""
    table = part.tables["readings"]
    columns: dict[str, object] = {}
    if table.num_rows:
        columns["time"] = pd.to_datetime(table["time_ns"].to_numpy() + part.offset_ns, utc=True)
        columns["gpu"] = table["gpu"].to_pandas()
        for name in table.column_names:
            if name not in ("tick", "gpu", "time_ns"):
                field, values, there = field_values(table, name)
                columns[field] = np.where(there, values, np.nan)
    return pd.DataFrame(columns or {"time": pd.to_datetime([], utc=True), "gpu": []})


def _open(part: Part, names: Sequence[str], session: str, fields: Collection[str] | None) -> PartFrames | None:
    if part.is_log:
        tables = to_tables(part_records(part))
    else:
        tables = {name: read_table(part.path, name, fields) for name in ("ticks", "records", *names)}
    ticks = tables["ticks"]
    if not ticks.num_rows:
        return None
    times_ns = ticks["wall_ns"].to_numpy()
    offset_ns = int(times_ns[-1]) - int(ticks["mono_ns"][-1].as_py())
    records = list(other_records(tables["records"]))
    session = next((r.session for _, r in records if isinstance(r, Begin)), session)
    return PartFrames(session, np.append(times_ns, times_ns[-1]), offset_ns, tables, records)


def _timed(frame: pd.DataFrame, part: PartFrames) -> pd.DataFrame:
    frame = frame.copy()
    frame.insert(0, "time", pd.to_datetime(part.times_ns[frame.pop("tick").to_numpy()], utc=True))
    return frame


def _more(before: Mapping[Name, int], now: Mapping[Name, int]) -> Iterator[tuple[Name, int]]:
    """What a counter gained. One that is smaller than before began anew."""
    for name, value in now.items():
        gained = value - before.get(name, 0)
        if gained:
            yield name, gained if gained > 0 else value


def _stamp(time_ns: int) -> pd.Timestamp:
    return pd.Timestamp(time_ns, unit="ns", tz="UTC")


def _joined(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    some = [frame for frame in frames if len(frame)]
    return pd.concat(some, ignore_index=True) if some else pd.DataFrame(columns=list(columns))


def need(frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The frame; UsageError when it is empty, because nothing was recorded in that span."""
    if not len(frame):
        raise UsageError(f"{folder} holds nothing between these times")
    return frame
