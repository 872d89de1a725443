"""What a recording shows, gathered: the one source of the page, the text and the Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from bubblewatch.model.findings import Finding, Severity, SourceHealth, State
from bubblewatch.model.server import Server
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.report.frames import RecordingFrames, need
from bubblewatch.sources.recording_records import Begin, Found, Gpus, HostFacts, Servers, Sources

SHOWN = (
    *("throughput.gen_tps", "demand.running", "demand.queued", "demand.state", "pipeline.stages_busy"),
    *("pipeline.stages", "duty.median", "power.median_w", "throughput.step_s", "roofline.tps"),
)
"""Signals of a server that a report draws or tabulates."""


@dataclass(frozen=True, slots=True)
class SeenFinding:
    """One finding over the recording: as it was last, and when. `seconds` is the time in which it stood."""

    finding: Finding
    first_ns: int
    last_ns: int
    seconds: float
    at_end: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """A recording between `start_ns` and `end_ns` (wall time).

    `states_s` are GPU-seconds by state, `lost_s` idle ones by server and cause, `joules` all energy (None = not known).
    `signals` has the signals of SHOWN as in `frames`.
    """

    program: str
    host: HostFacts
    scenario: str
    start_ns: int
    end_ns: int
    answers: Mapping[str, int]
    last_answer: str
    gpus: Sequence[GpuInfo]
    servers: Sequence[Server]
    sources: Sequence[SourceHealth]
    findings: Sequence[SeenFinding]
    states_s: Mapping[str, float]
    lost_s: Mapping[str, Mapping[str, float]]
    joules: float | None
    signals: pd.DataFrame
    restarts: Sequence[tuple[int, str]]

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def first(self) -> SeenFinding | None:
        """The finding to act on: the first that stood at the end and is loud, else the loud one that stood longest."""
        loud = [seen for seen in self.findings if seen.finding.is_loud]
        return next((seen for seen in loud if seen.at_end), max(loud, key=lambda s: s.seconds, default=None))


def summary(frames: RecordingFrames) -> Summary:
    """Raises UsageError when the recording holds nothing in its span."""
    ticks = need(frames.ticks(), frames.folder)
    start_ns, end_ns = int(ticks["time"].iloc[0].value), int(ticks["time"].iloc[-1].value)
    begin = Begin(0, "", "", 0, 0, 0, 0.0)
    gpus: dict[str, GpuInfo] = {}
    servers: dict[str, Server] = {}
    sources: Sequence[SourceHealth] = ()
    restarts: list[tuple[int, str]] = []
    history = _History(end_ns)
    for time_ns, _, record in frames.records():
        match record:
            case Begin():
                begin = record
            case Gpus():
                gpus |= {gpu.uuid: gpu for gpu in record.gpus}
            case Servers():
                for server in record.servers:
                    known = servers.get(server.key)
                    if known is not None and known.epoch != server.epoch:
                        restarts.append((time_ns, server.key))
                    servers[server.key] = server
            case Sources():
                sources = record.sources
            case Found():
                history.add(time_ns, record.findings)
            case _:
                pass
    energy = frames.energy()
    states = frames.states().groupby("state")["seconds"].sum()
    signals = frames.signals(SHOWN)
    return Summary(
        program=begin.program,
        host=begin.host,
        scenario=begin.scenario,
        start_ns=start_ns,
        end_ns=end_ns,
        answers={str(k): int(v) for k, v in ticks["answer"].value_counts().items()},
        last_answer=str(ticks["answer"].iloc[-1]),
        gpus=_in_order(gpus, servers),
        servers=list(servers.values()),
        sources=sources,
        findings=history.seen(),
        states_s={str(k): float(v) for k, v in states.items()},
        lost_s=_lost(frames.lost()),
        joules=float(energy["joules"].sum()) if len(energy) else None,
        signals=signals[signals["target"].str.startswith("server:")] if len(signals) else signals,
        restarts=restarts,
    )


class _History:
    """Findings over time: each set stands until the next one."""

    def __init__(self, end_ns: int) -> None:
        self._end_ns = end_ns
        self._last: dict[tuple[str, str], Finding] = {}
        self._first_ns: dict[tuple[str, str], int] = {}
        self._last_ns: dict[tuple[str, str], int] = {}
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)
        self._standing: list[tuple[str, str]] = []
        self._since_ns: int | None = None

    def add(self, time_ns: int, findings: Sequence[Finding]) -> None:
        self._count_until(time_ns)
        self._standing = []
        for finding in findings:
            if finding.state in (State.PENDING, State.RESOLVED):
                continue
            key = finding.name, str(finding.target)
            self._last[key] = finding
            self._first_ns.setdefault(key, time_ns)
            self._last_ns[key] = time_ns
            self._standing.append(key)

    def _count_until(self, time_ns: int) -> None:
        for key in self._standing if self._since_ns is not None else ():
            self._seconds[key] += (time_ns - (self._since_ns or time_ns)) / 1e9
            self._last_ns[key] = time_ns
        self._since_ns = time_ns

    def seen(self) -> list[SeenFinding]:
        """Those that stand at the end in their order, then the others, the longest first."""
        self._count_until(self._end_ns)
        gone = sorted(set(self._last) - set(self._standing), key=lambda k: -self._seconds[k])
        return [
            SeenFinding(self._last[k], self._first_ns[k], self._last_ns[k], self._seconds[k], k in self._standing)
            for k in (*self._standing, *gone)
        ]


def _lost(frame: pd.DataFrame) -> Mapping[str, Mapping[str, float]]:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for (server, cause), seconds in frame.groupby(["server", "cause"])["seconds"].sum().items():
        found[str(server)][str(cause)] = float(seconds)
    return dict(found)


def _in_order(gpus: Mapping[str, GpuInfo], servers: Mapping[str, Server]) -> list[GpuInfo]:
    """By stage and rank where a server tells them, else by index."""
    ranks = {uuid: rank for server in servers.values() for uuid, rank in server.gpus.items() if rank is not None}
    last = (9999, 9999, 9999)
    places = {uuid: (rank.dp, rank.pp, rank.tp) for uuid, rank in ranks.items()}
    return sorted(gpus.values(), key=lambda gpu: (places.get(gpu.uuid, last), gpu.index))


def gpu_label(gpu: GpuInfo, servers: Sequence[Server]) -> str:
    """`P0 GPU 3`: stage, where it is known, and index."""
    rank = next((s.gpus[gpu.uuid] for s in servers if s.gpus.get(gpu.uuid) is not None), None)
    if rank is None:
        return f"GPU {gpu.index}"
    return f"P{rank.pp}{f' T{rank.tp}' if rank.tp else ''} GPU {gpu.index}"


def is_worth_showing(seen: SeenFinding) -> bool:
    """Loud ones, those that stood at the end, and warnings that went away; not every passing remark."""
    return seen.at_end or seen.finding.severity >= Severity.WARNING
