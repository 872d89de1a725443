"""GPU-hours and energy lost over many recordings: one after the other, so that memory stays bounded."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bubblewatch.model.accounts import Accounts
from bubblewatch.model.errors import SourceError, UsageError
from bubblewatch.report.recording_tables import other_records
from bubblewatch.sources.recording_log import read_frames
from bubblewatch.sources.recording_records import Begin, Books, Record, Servers, Tick

_TABLES = re.compile(r"(\d{6,})/records\.parquet")
_LOG = re.compile(r"(\d{6,})\.bwlog")


@dataclass(slots=True)
class Loss:
    """What was lost to one cause. `joules` is what the same GPUs drew meanwhile, by share of time."""

    gpu_s: float = 0.0
    joules: float = 0.0


Key = tuple[str, str, str, str]
"""Host, server, day (UTC) and cause."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Sums over recordings. `gpu_s` is all GPU time that was watched; `skipped` says what could not be read."""

    by: Mapping[Key, Loss]
    gpu_s: float
    recordings: int
    skipped: tuple[str, ...]


def losses(urls: Iterable[str]) -> Losses:
    """The sums over every recording below these folders or URLs. Raises UsageError when there is none."""
    by: dict[Key, Loss] = defaultdict(Loss)
    total_s, recordings = 0.0, 0
    skipped: list[str] = []
    for url in urls:
        for system, folder, parts in _recordings(url):
            recordings += 1
            total_s += _add(by, system, folder, parts, skipped)
    if not recordings:
        raise UsageError("no recording is there", "folders that bubblewatch record or run wrote, at any depth")
    return Losses(dict(by), total_s, recordings, tuple(skipped))


def _recordings(url: str) -> Iterator[tuple[Any, str, list[str]]]:
    """File system, folder and parts (oldest first) of each recording below a URL."""
    try:
        system, root = fsspec.core.url_to_fs(url)
        found = system.find(root)
    except (OSError, ValueError, ImportError) as error:
        raise UsageError(f"{url} cannot be read: {error}") from error
    folders: dict[str, dict[int, str]] = defaultdict(dict)
    for path in sorted(found):
        folder, name = posixpath.split(path)
        if (log := _LOG.fullmatch(name)) is not None:
            folders[folder].setdefault(int(log[1]), path)
        elif (tables := _TABLES.fullmatch("/".join(path.split("/")[-2:]))) is not None:
            folders[posixpath.dirname(folder)][int(tables[1])] = folder
    for folder, parts in sorted(folders.items()):
        yield system, folder, [parts[number] for number in sorted(parts)]


def _add(by: dict[Key, Loss], system: Any, folder: str, parts: Iterable[str], skipped: list[str]) -> float:
    """Add one recording; gives its GPU-seconds."""
    host, session, before, total_s = folder, "", Accounts(), 0.0
    gpus: dict[str, tuple[str, ...]] = {}
    for part in parts:
        try:
            for time_ns, record in _timed(system, part):
                match record:
                    case Begin():
                        host = record.host.name or folder
                        if record.session != session:
                            session, before = record.session, Accounts()
                    case Servers():
                        gpus |= {server.key: tuple(server.gpus) for server in record.servers}
                    case Books():
                        total_s += _add_step(by, host, _day(time_ns), gpus, before, record.accounts)
                        before = record.accounts
        except (OSError, SourceError, pa.ArrowException, msgspec.MsgspecError) as error:
            skipped.append(f"{part}: {error}")
    return total_s


def _timed(system: Any, part: str) -> Iterator[tuple[int, Record]]:
    """Wall time and record of what the sums need."""
    if part.endswith(".bwlog"):
        with system.open(part, "rb") as file:
            waiting: list[Record] = []
            for record in read_frames(file, part):
                if isinstance(record, Tick):
                    yield from ((record.wall_ns, one) for one in waiting)
                    waiting = []
                elif isinstance(record, Begin | Servers | Books):
                    waiting.append(record)
        return
    with system.open(f"{part}/ticks.parquet", "rb") as file:
        times = pq.read_table(file, columns=["wall_ns"])["wall_ns"].to_pylist()
    if not times:
        return
    with system.open(f"{part}/records.parquet", "rb") as file:
        table = pq.read_table(file, filters=[("kind", "in", ["begin", "servers", "books"])])
    for tick, record in other_records(table):
        yield times[min(tick, len(times) - 1)], record


def _add_step(
    by: dict[Key, Loss],
    host: str,
    day: str,
    gpus: Mapping[str, tuple[str, ...]],
    before: Accounts,
    now: Accounts,
) -> float:
    spent_s = {uuid: _gained(before, now, uuid) for uuid in now.gpus}
    for key, account in now.servers.items():
        then = before.servers[key].lost_ns if key in before.servers else {}
        own = [uuid for uuid in gpus.get(key, ()) if uuid in spent_s]
        own_s, joules = sum(spent_s[u] for u in own), sum(_joules(before, now, u) for u in own)
        for cause, lost_ns in account.lost_ns.items():
            lost_s = max(lost_ns - then.get(cause, 0), 0) / 1e9
            if lost_s > 0:
                loss = by[host, key, day, cause]
                loss.gpu_s += lost_s
                loss.joules += joules * min(lost_s / own_s, 1.0) if own_s > 0 else 0.0
    return sum(spent_s.values())


def _gained(before: Accounts, now: Accounts, uuid: str) -> float:
    then = sum(before.gpus[uuid].time_ns.values()) if uuid in before.gpus else 0
    return max(sum(now.gpus[uuid].time_ns.values()) - then, 0) / 1e9


def _joules(before: Accounts, now: Accounts, uuid: str) -> float:
    then = before.gpus[uuid].energy_j if uuid in before.gpus else 0.0
    return max((now.gpus[uuid].energy_j or 0.0) - (then or 0.0), 0.0)


def _day(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d}"


def losses_text(found: Losses) -> str:
    """A table, the largest loss first."""
    rows = sorted(found.by.items(), key=lambda one: -one[1].gpu_s)
    lost_s = sum(loss.gpu_s for loss in found.by.values())
    lost_kwh = sum(loss.joules for loss in found.by.values()) / 3.6e6
    where = f"{found.recordings} recording{'' if found.recordings == 1 else 's'}"
    hours = f"{lost_s / 3600:,.2f} of {found.gpu_s / 3600:,.2f} GPU-hours"
    lines = [f"{hours} were lost while requests ran, and {lost_kwh:,.2f} kWh with them, in {where}"]
    if rows:
        widths = [max(len(key[at]) for key, _ in rows) for at in range(4)]
        lines += ["", f"{'GPU-hours':>10}  {'kWh':>8}  day         host, server, cause"]
        lines += [
            f"{loss.gpu_s / 3600:10,.3f}  {loss.joules / 3.6e6:8,.3f}  {key[2]}  "
            f"{key[0]:{widths[0]}}  {key[1]:{widths[1]}}  {key[3]}"
            for key, loss in rows
        ]
    lines += [f"not read: {text}" for text in found.skipped]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def losses_document(found: Losses) -> dict[str, Any]:
    """The sums as plain JSON values."""
    rows = sorted(found.by.items(), key=lambda one: (-one[1].gpu_s, one[0]))
    return {
        "schema_version": 1,
        "gpu_hours": found.gpu_s / 3600,
        "recordings": found.recordings,
        "lost": [
            {
                "host": key[0],
                "server": key[1],
                "day": key[2],
                "cause": key[3],
                "gpu_hours": loss.gpu_s / 3600,
                "kwh": loss.joules / 3.6e6,
            }
            for key, loss in rows
        ],
        "skipped": list(found.skipped),
    }
