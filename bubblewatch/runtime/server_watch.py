"""What we keep about one server while we watch it: its life, its log so far, its pages."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.logs import (
    CommNote,
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    LogLine,
    Note,
    Offload,
    OverlapOff,
    PoolSized,
    Ready,
    SettingsSeen,
    Starting,
    VersionSeen,
)
from bubblewatch.model.protocols import EndpointReading, EndpointSource, LogSource, ProcessSeen
from bubblewatch.model.server import BirthRecord, Server
from bubblewatch.model.shape import ModelShape
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.runtime.assess import facts_of, with_settings
from bubblewatch.runtime.feed import LINES, ShownLine, shown_line
from bubblewatch.runtime.life_paces import LifePaces
from bubblewatch.runtime.memory import ServerMemory
from bubblewatch.servers.base import ServerKind
from bubblewatch.servers.registry import events_of
from bubblewatch.servers.versions import Bounds
from bubblewatch.signals.evidence import ServerEvidence, Stated
from bubblewatch.signals.failures import is_life

KEEP_EVENTS_S = 900.0
"""How long events count, in seconds: the diagnosis looks back 15 minutes at the most."""

KEEP_LEAST = 200
"""Events that are kept however old: the last signs of work before a silence tell how long it lasts. A few of each of
eight ranks, with the accesses between them."""

MAX_EVENTS = 50_000
"""Bound on the events kept for one server: 15 minutes of eight ranks at seven lines a second."""

MAX_BIRTH_LINES = 400
"""Bound on the start-up lines kept for one life of a server; eight ranks print about 25 each."""

MAX_PAGES = 64
"""Readings of the server's own pages that are kept: five minutes at one every five seconds."""

DIALECT_LINES = 200
"""Lines kept to tell the version by their dialect."""

BIRTH = (
    SettingsSeen,
    VersionSeen,
    GraphCaptured,
    GraphOff,
    OverlapOff,
    PoolSized,
    Offload,
    CommNote,
    Note,
    Ready,
    Starting,
)
"""Events that are said once, at start: they hold for the whole life of a server."""


RECENT_LINES = 1000
"""Newest lines with a meaning that survive a restart of the daemon: some twenty seconds of eight busy ranks."""


def _is_after(event: Event, born_ns: int | None) -> bool:
    """Whether it belongs to the life that began at this wall time."""
    return born_ns is not None and event.time_ns is not None and event.time_ns >= born_ns


def _moved(event: Event, step_ns: int) -> Event:
    """The event as if its line had been written by the clock after a step."""
    if event.line.time_ns is None:
        return event
    return replace(event, line=replace(event.line, time_ns=event.line.time_ns + step_ns))


def server_key(seen: ProcessSeen) -> str:
    """Unit, container or pod; else a name made of the launch, so that a restart of the same launch has the same key."""
    named = seen.unit or seen.container or seen.pod
    if named:
        return named.removesuffix(".service")
    digest = hashlib.sha256("\0".join(seen.launch.argv).encode(errors="replace")).hexdigest()[:8]
    return f"launch-{digest}"


class ServerWatch:
    """One server under watch. Called only from the thread that ticks.

    `memory` is what an earlier daemon knew of it. `born_ns` tells the wall time at which a process started, None = not
    known. `first_epoch` is the one under which its log was opened, `gone_ns` the wall time at which its process was
    missed first, None while it is there.
    """

    def __init__(
        self,
        key: str,
        seen: ProcessSeen,
        kind: ServerKind | None,
        log: LogSource | None,
        endpoint: EndpointSource | None,
        version: str | None = None,
        read_model: ReadModel | None = None,
        memory: ServerMemory | None = None,
        born_ns: Callable[[ProcessSeen], int | None] = lambda _seen: None,
    ) -> None:
        self.key = key
        self.first_epoch = seen.epoch
        self.gone_ns: int | None = None
        self._born_ns = born_ns
        self._starts_ns: list[int] = []
        self._paces = LifePaces()
        self._running: float | None = None
        self.kind = kind
        self.seen = seen
        self._log = log
        self._endpoint = endpoint
        self._stated_version = version
        self._read_model = read_model
        self._model_name: str | None = None
        self._model: ModelShape | None = None
        self._birth: list[Event] = []
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._pages: deque[EndpointReading] = deque(maxlen=MAX_PAGES)
        self._dialect: deque[LogLine] = deque(maxlen=DIALECT_LINES)
        self._shown: deque[ShownLine] = deque(maxlen=LINES)
        self._bounds: Bounds | None = None
        self._lines = 0
        if memory is not None:
            self._recall(memory)

    def met(self, seen: ProcessSeen, now_ns: int) -> None:
        """Take note of how the process stands at this wall time; a new epoch forgets the old life."""
        if seen.epoch != self.seen.epoch:
            self._begin_life(seen, now_ns)
        self.seen, self.gone_ns = seen, None

    def leave(self, now_ns: int) -> None:
        """Take note that its process is gone since this wall time: it holds no GPU and no connection any more."""
        self.gone_ns = now_ns
        self.seen = replace(self.seen, workers={}, connections=None)

    @property
    def is_broken(self) -> bool:
        """Whether the log says that it ended by a fault, and nothing of a life after that."""
        broken = False
        for event in sorted((*self._birth, *self._events), key=lambda e: e.time_ns or 0):
            broken = (isinstance(event, Failure) and event.fatal) or (broken and not is_life(event))
        return broken

    def _begin_life(self, seen: ProcessSeen, now_ns: int) -> None:
        born_ns = self._born_ns(seen)
        self._birth = [e for e in self._birth if _is_after(e, born_ns)]
        self._forget_work(born_ns)
        self._pages.clear()
        self._model_name = None
        self._paces.new_life()
        oldest = now_ns - round(KEEP_EVENTS_S * NS)
        self._starts_ns = [*(at for at in self._starts_ns if at > oldest), born_ns or now_ns]

    def _forget_work(self, born_ns: int | None = None) -> None:
        """Forget what the life before did, but not how it failed."""
        kept = [e for e in self._events if isinstance(e, Failure) or _is_after(e, born_ns)]
        self._events.clear()
        self._events.extend(kept)

    def memory(self, now_ns: int) -> ServerMemory:
        """What an other daemon should know of it at this wall time; where its log was read to comes from elsewhere."""
        recent = dict.fromkeys(e.line for e in tuple(self._events)[-RECENT_LINES:])
        failed = dict.fromkeys(e.line for e in self._events if isinstance(e, Failure))
        return ServerMemory(
            key=self.key,
            seen_ns=now_ns,
            epoch=self.seen.epoch,
            line_count=self._lines,
            birth=tuple(dict.fromkeys(e.line for e in self._birth)),
            recent=tuple(sorted({**failed, **recent}, key=lambda line: line.time_ns or 0)),
            starts_ns=tuple(self._starts_ns),
            paces=self._paces.now,
            before=self._paces.before,
        )

    def _recall(self, memory: ServerMemory) -> None:
        """Take up what is remembered. Of another life only its failures and its pace count."""
        self._lines = memory.line_count
        self._starts_ns = list(memory.starts_ns)
        self._paces = LifePaces(memory.paces, memory.before)
        is_same = memory.epoch == self.seen.epoch
        for line in (*memory.birth, *memory.recent) if is_same else memory.recent:
            for event in events_of(self.kind, line):
                if is_same or isinstance(event, Failure):
                    self._keep(event)
            if is_same and len(self._dialect) < DIALECT_LINES:
                self._dialect.append(line)
        if not is_same:
            self._begin_life(self.seen, memory.seen_ns)

    def clock_stepped(self, step_ns: int) -> None:
        """The wall clock was set forward by so much (negative: back): what was just now stays just now."""
        self._birth = [_moved(event, step_ns) for event in self._birth]
        moved = [_moved(event, step_ns) for event in self._events]
        self._events.clear()
        self._events.extend(moved)
        pages = [replace(page, time_ns=page.time_ns + step_ns) for page in self._pages]
        self._pages.clear()
        self._pages.extend(pages)
        self._starts_ns = [at + step_ns for at in self._starts_ns]

    def note_pace(self, now_ns: int, signals: Signals) -> None:
        """Take note of how fast it is at this monotonic time."""
        self._paces.note(now_ns, signals)
        self._running = signals.number("demand.running")

    def listen(self, now_ns: int) -> None:
        """Read what the log has that is new."""
        if self._log is None:
            return
        for line in self._log.read():
            self._lines += 1
            events = events_of(self.kind, line)
            self._shown.append(shown_line(self.key, self._lines, line, events))
            if len(self._dialect) < DIALECT_LINES:
                self._dialect.append(line)
                self._bounds = None
            for event in events:
                self._keep(event)
        oldest = now_ns - round(KEEP_EVENTS_S * NS)
        while len(self._events) > KEEP_LEAST and (at := self._events[0].time_ns) is not None and at < oldest:
            self._events.popleft()

    def _keep(self, event: Event) -> None:
        if not isinstance(event, BIRTH):
            self._events.append(event)
            return
        prints_settings_once = self.kind is not None and self.kind.kind != "ollama"  # Ollama does at each model load
        is_launcher = isinstance(event, SettingsSeen) and event.rank is None and prints_settings_once
        if is_launcher and any(isinstance(e, Ready) for e in self._birth):
            self._birth.clear()  # the launcher prints its settings first: another life has begun in the same log
            self._forget_work()
        if len(self._birth) < MAX_BIRTH_LINES:
            self._birth.append(event)

    @property
    def newest_lines(self) -> Sequence[ShownLine]:
        """The last lines of its log, understood or not."""
        return tuple(self._shown)

    def ask(self) -> None:
        """Read the server's own pages, if it has any."""
        if self._endpoint is not None and (page := self._endpoint.read()) is not None:
            self._pages.append(page)

    def server(self) -> Server:
        """The server as it is known now."""
        seen, kind = self.seen, self.kind
        version, basis = self._version()
        ranks = {uuid: kind.gpu_rank(title) if kind else None for uuid, title in seen.workers.items()}
        server = Server(
            kind=kind.kind if kind else "unknown",
            key=self.key,
            version=version,
            version_basis=basis,
            unit=seen.unit,
            container=seen.container,
            epoch=seen.epoch,
            main_pid=seen.pid,
            port=seen.port,
            launch=seen.launch,
            gpus=ranks,
        )
        server = with_settings(kind, server, self._birth)
        lines = tuple(e.line.text for e in self._birth)
        birth = BirthRecord(seen.launch.argv, lines, server.settings, self._birth_complete())
        return replace(server, birth=birth)

    def _version(self) -> tuple[str | None, str]:
        if self._stated_version is not None:
            return self._stated_version, "stated"
        printed = next((e.version for e in reversed(self._birth) if isinstance(e, VersionSeen)), None)
        if printed:
            return printed, "log"
        page = next((p.version for p in reversed(self._pages) if p.version), None)
        if page:
            return page, "endpoint"
        if self.seen.version_hint:
            return self.seen.version_hint, "package beside its interpreter"
        return None, ""

    def _birth_complete(self) -> bool:
        """Whether the start-up lines of this life were all read: they begin with the settings or the version."""
        return any(isinstance(e, SettingsSeen | VersionSeen) for e in self._birth)

    def evidence(self, telemetry: Telemetry, now_ns: int, window_s: float, stated: Stated) -> ServerEvidence:
        """Everything known about this server at this moment."""
        server = self.server()
        if self.kind is not None and self._bounds is None:
            self._bounds = self.kind.version_bounds(self._dialect)
        events: Sequence[Event] = (*self._birth, *self._events)
        return ServerEvidence(
            server=server,
            facts=facts_of(self.kind, server, events, self._bounds),
            events=events,
            log_read=self._lines > 0,
            birth_complete=self._birth_complete(),
            telemetry=telemetry,
            endpoint=tuple(self._pages),
            connections=self.seen.connections,
            stated=stated,
            now_ns=now_ns,
            window_s=window_s,
            live=True,
            model=self._model_of(server),
            restarts=sum(at > now_ns - KEEP_EVENTS_S * NS for at in self._starts_ns) or None,
            rate_ratio=self._paces.ratio(self._running),
            log_gaps=self._log.health().gaps if self._log is not None else (),
        )

    def _model_of(self, server: Server) -> ModelShape | None:
        """What the files of its model say; they are read once for each life and name ("" = not known)."""
        if self._read_model is None:
            return None
        name = str(server.settings.get("model_path") or server.settings.get("model") or "")
        if name != self._model_name:
            self._model_name, self._model = name, self._read_model(self.seen, name)
        return self._model

    def health(self) -> tuple[SourceHealth, ...]:
        """How this server's own sources fare, its model's files among them when they were read."""
        own = tuple(source.health() for source in (self._log, self._endpoint) if source is not None)
        model = self._model
        if model is None:
            return own
        return (*own, SourceHealth("model", Health.OK, f"{model.where}, sizes from its {model.basis}"))

    def close(self) -> None:
        """Let go of the log."""
        if self._log is not None:
            self._log.close()


OpenLog = Callable[[ProcessSeen], LogSource | None]
"""Opens the log of a server; None when it has none that can be read."""

OpenEndpoint = Callable[[ProcessSeen, str], EndpointSource | None]
"""Opens the pages of a server of the given kind; None when it has none."""

ReadModel = Callable[[ProcessSeen, str], ModelShape | None]
"""Reads the shape of the model that a server calls by this name; None when its files cannot be read."""
