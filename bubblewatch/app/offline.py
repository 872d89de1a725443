"""Judging from evidence files: a launch, a log, telemetry, and what the user knows. No GPU, no server needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Health, Snapshot, SourceHealth
from bubblewatch.model.logs import Event, LogLine, SettingsSeen, VersionSeen
from bubblewatch.model.server import Launch, Server
from bubblewatch.model.shape import ModelShape
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.runtime.assess import assess, facts_of, with_settings
from bubblewatch.servers import registry
from bubblewatch.servers.base import ServerKind
from bubblewatch.signals.evidence import ServerEvidence, Stated
from bubblewatch.sources.launch_text import read_launch, read_unit_file
from bubblewatch.sources.logfile import read_log
from bubblewatch.sources.model_files import given_model
from bubblewatch.sources.smi import read_telemetry


@dataclass(frozen=True, slots=True)
class EvidenceFiles:
    """What the user hands over; None = not given. A path `-` is standard input, for one of them."""

    command: str | None = None
    unit_file: str | None = None
    log: str | None = None
    telemetry: str | None = None
    server: str | None = None
    version: str | None = None
    model_config: str | None = None
    stated: Stated = field(default_factory=Stated)

    @property
    def given(self) -> bool:
        """Whether there is any evidence to judge from."""
        return any(part is not None for part in (self.command, self.unit_file, self.log, self.telemetry))


def judge_files(files: EvidenceFiles, rules: Sequence[Rule], ignore: Sequence[str], wall_ns: int) -> Snapshot:
    """The answer from these files alone. Raises UsageError for a file that cannot be read as what it is said to be."""
    readers = [files.command, files.unit_file, files.log, files.telemetry]
    if readers.count("-") > 1:
        raise UsageError("only one option may read standard input")
    if files.command is not None and files.unit_file is not None:
        raise UsageError("--command and --unit-file both say how the server is launched", "give one of them")
    launch = _launch(files)
    lines = read_log(files.log) if files.log is not None else ()
    telemetry = read_telemetry(files.telemetry) if files.telemetry is not None else Telemetry()
    model = given_model(files.model_config) if files.model_config is not None else None
    kind, name = _kind(files.server, launch, lines)
    evidence = replace(_evidence(files, launch, lines, telemetry, kind, name), model=model)
    result = assess(evidence, rules, ignore, None, one_shot=True)
    return Snapshot(
        time_ns=wall_ns,
        answer=result.view.answer,
        views=(result.view,),
        gpus=tuple(g.gpu for g in telemetry.gpus),
        gpu_signals=result.computed.gpus,
        sources=(*_sources(files, launch, lines, telemetry), *_model_source(model)),
        one_shot=True,
        sequence=1,
    )


def _launch(files: EvidenceFiles) -> Launch | None:
    if files.unit_file is not None:
        return read_unit_file(files.unit_file)
    if files.command is None:
        return None
    return read_launch(files.command, recognise=lambda launch: registry.recognise(launch, "") is not None)


def _kind(stated: str | None, launch: Launch | None, lines: Sequence[LogLine]) -> tuple[ServerKind | None, str]:
    """The kind of server and its name: as stated, else by the launch, else by the lines of its log."""
    if stated is not None:
        return registry.by_name(stated), stated
    kind = registry.recognise(launch, "") if launch is not None else None
    kind = kind or registry.recognise_lines(lines)
    return kind, kind.kind if kind else "unknown"


def _evidence(
    files: EvidenceFiles,
    launch: Launch | None,
    lines: Sequence[LogLine],
    telemetry: Telemetry,
    kind: ServerKind | None,
    name: str,
) -> ServerEvidence:
    events: list[Event] = [event for line in lines for event in registry.events_of(kind, line)]
    printed = next((e.version for e in reversed(events) if isinstance(e, VersionSeen)), None)
    server = Server(
        kind=name,
        key=Path(files.unit_file).stem if files.unit_file and files.unit_file != "-" else name,
        version=files.version or printed,
        version_basis="stated" if files.version else "log" if printed else "",
        launch=launch,
    )
    server = with_settings(kind, server, events)
    bounds = kind.version_bounds(lines) if kind else None
    return ServerEvidence(
        server=server,
        facts=facts_of(kind, server, events, bounds),
        events=events,
        log_read=bool(lines),
        birth_complete=any(isinstance(e, SettingsSeen | VersionSeen) for e in events),
        telemetry=telemetry,
        stated=files.stated,
        now_ns=_last_time(events),
        window_s=telemetry.seconds,
    )


def _last_time(events: Sequence[Event]) -> int | None:
    times = [e.time_ns for e in events if e.time_ns is not None]
    return max(times) if times else None


def _sources(
    files: EvidenceFiles, launch: Launch | None, lines: Sequence[LogLine], telemetry: Telemetry
) -> tuple[SourceHealth, ...]:
    """What was read and what was not given, for the answer's "Read" and "Not read"."""
    given = SourceHealth("launch", Health.OFF, "not given", "--command or --unit-file")
    if launch is not None:
        given = SourceHealth("launch", Health.OK, launch.where, read_count=len(launch.argv))
    log = SourceHealth("log", Health.OFF, "not given", "--log")
    if files.log is not None:
        log = SourceHealth("log", Health.OK, f"{len(lines)} lines", read_count=len(lines))
    sensors = SourceHealth("telemetry", Health.OFF, "not given", "--telemetry")
    if files.telemetry is not None:
        count = sum(len(s) for g in telemetry.gpus for s in g.series.values())
        detail = f"{len(telemetry.gpus)} GPUs over {telemetry.seconds:.0f} s"
        sensors = SourceHealth("telemetry", Health.OK, detail, read_count=count)
    return (given, log, sensors)


def _model_source(model: ModelShape | None) -> tuple[SourceHealth, ...]:
    """That the model's files were read; nothing where none were given."""
    return () if model is None else (SourceHealth("model", Health.OK, f"{model.where}, sizes from its {model.basis}"),)
