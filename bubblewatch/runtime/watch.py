"""The tick: read every source, judge every server, publish one immutable snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from bubblewatch.diagnose.answer import answer, overall
from bubblewatch.diagnose.lifecycle import Lifecycle, Remembered
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.errors import SourceError
from bubblewatch.model.findings import Scope, Severity, Snapshot, SourceHealth, State, Target, TargetView
from bubblewatch.model.protocols import ProcessSeen, ProcessSource, TelemetrySource
from bubblewatch.model.server import Launch, Server
from bubblewatch.model.signals import Signals
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.runtime.assess import Assessment, assess
from bubblewatch.runtime.feed import SPAN_S, ScreenFeed, make_feed
from bubblewatch.runtime.gpu_time import GpuTime
from bubblewatch.runtime.log_places import LogPlaces
from bubblewatch.runtime.memory import Memory, ServerMemory
from bubblewatch.runtime.server_set import ServerSet
from bubblewatch.runtime.server_watch import OpenEndpoint, OpenLog, ReadModel, ServerWatch
from bubblewatch.runtime.witness import Witness
from bubblewatch.servers.base import Facts, ServerKind
from bubblewatch.signals.compute import gpu_only
from bubblewatch.signals.evidence import ServerEvidence, Stated

SCAN_S = 5.0
"""Time between two looks for servers and at their pages, in seconds: a server takes longer than that to start."""

STEP_S = 1.0
"""Jump of the wall clock against the monotonic one between two ticks, in seconds, that counts as a step. A clock that
is slewed moves 0.5 ms a second at the most."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What to watch and how to judge it. `wanted` None = every server that is found."""

    window_s: float = 30.0
    stated: Stated = field(default_factory=Stated)
    version: str | None = None
    ignore: tuple[str, ...] = ()
    wanted: Callable[[ProcessSeen], bool] | None = None
    one_shot: bool = True


class Watcher:
    """Watches one host through whatever plays its sources. Every method is called from one thread, the one that
    ticks.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        telemetry: TelemetrySource,
        processes: ProcessSource,
        recognise: Callable[[Launch, str], ServerKind | None],
        open_log: OpenLog,
        open_endpoint: OpenEndpoint,
        rules: Sequence[Rule],
        options: WatchOptions,
        read_model: ReadModel | None = None,
        witness: Witness | None = None,
        memory: Memory | None = None,
        places: LogPlaces | None = None,
        born_ns: Callable[[ProcessSeen], int | None] = lambda _seen: None,
    ) -> None:
        if witness is not None:
            telemetry, processes = witness.telemetry(telemetry), witness.processes(processes)
            open_log = witness.open_log(open_log, recognise)
            open_endpoint = witness.open_endpoint(open_endpoint)
            read_model = witness.read_model(read_model) if read_model is not None else None
        self._witness = witness
        self._clock = clock
        self._telemetry = telemetry
        self._processes = processes
        self._recognise = recognise
        self._open_log = open_log
        self._open_endpoint = open_endpoint
        self._read_model = read_model
        self._rules = rules
        self._options = options
        memory = memory or Memory()
        self._born_ns = born_ns
        self._set = ServerSet(self._server, memory, places or LogPlaces(memory, clock.wall_ns()))
        self._lives: dict[str, Lifecycle] = {}
        self._started_ns = clock.monotonic_ns()
        self._offset_ns = clock.wall_ns() - self._started_ns
        self._next_scan_ns = self._started_ns
        if witness is not None:
            witness.started(self._started_ns)
        self._sequence = 0
        self._failing: set[str] = set()
        self._gpu_time = GpuTime()

    @property
    def servers(self) -> Sequence[ServerWatch]:
        """Servers under watch, by key."""
        return list(self._set)

    def judge_by(self, rules: Sequence[Rule], ignore: Sequence[str], window_s: float) -> None:
        """Judge by these from the next tick on. What was seen so far is kept; findings of rules that went end."""
        self._rules = rules
        self._options = replace(self._options, ignore=tuple(ignore), window_s=window_s)

    def look(self) -> tuple[int, int]:
        """Read every source and judge nothing; gives the monotonic and the wall time. A replay skips judgements so."""
        now_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()
        self._follow_clock(wall_ns - now_ns)
        if now_ns >= self._next_scan_ns:
            self._next_scan_ns = now_ns + round(SCAN_S * NS)
            self._scan()
            for server in self._set:
                self._guarded(f"pages of {server.key}", server.ask)
        for server in self._set:
            self._guarded(f"log of {server.key}", partial(server.listen, wall_ns))
        return now_ns, wall_ns

    def tick(self) -> Snapshot:
        """Read, judge, and give the picture of this moment."""
        now_ns, wall_ns = self.look()
        watched_s = (now_ns - self._started_ns) / NS
        window_s = self._options.window_s
        telemetry = self._telemetry.window(now_ns - round(window_s * NS))
        views, gpu_signals = self._judge(telemetry, now_ns, wall_ns, watched_s)
        self._sequence += 1
        snapshot = Snapshot(
            time_ns=wall_ns,
            answer=overall([view.answer for view in views]),
            views=views,
            gpus=tuple(g.gpu for g in telemetry.gpus),
            gpu_signals=gpu_signals,
            sources=self._health(),
            watched_s=watched_s,
            one_shot=self._options.one_shot,
            sequence=self._sequence,
            accounts=self._gpu_time.step(now_ns, telemetry, views),
        )
        if self._witness is not None:
            self._witness.ticked(now_ns, snapshot)
        return snapshot

    def feed(self, snapshot: Snapshot, host: str) -> ScreenFeed:
        """What a screen shows of `snapshot`, which must be the last one. `host` is how it calls this machine."""
        telemetry = self._telemetry.window(self._clock.monotonic_ns() - round(SPAN_S * NS))
        lines = (line for server in self.servers for line in server.newest_lines)
        return make_feed(snapshot, telemetry, lines, host)

    def _follow_clock(self, offset_ns: int) -> None:
        """Events carry wall time: when that clock is set, or the host slept, they are moved along with it."""
        step_ns, self._offset_ns = offset_ns - self._offset_ns, offset_ns
        if abs(step_ns) > STEP_S * NS:
            log.warning("the clock was set or the host slept seconds=%.1f", step_ns / NS)
            for server in self._set:
                server.clock_stepped(step_ns)

    def memory(self) -> Memory:
        """What should survive a restart, as of the last tick."""
        now_ns, wall_ns = self._clock.monotonic_ns(), self._clock.wall_ns()

        def findings(key: str) -> Sequence[Remembered]:
            life = self._lives.get(key)
            return life.remember(wall_ns - now_ns) if life is not None else ()

        return self._set.memory(wall_ns, findings)

    def _guarded(self, what: str, read: Callable[[], None]) -> None:
        """Call `read`; a source that fails is logged once and once more when it is back."""
        try:
            read()
        except SourceError as error:
            if what not in self._failing:
                self._failing.add(what)
                log.warning("source fails source=%s error=%s", what, error)
        else:
            if what in self._failing:
                self._failing.discard(what)
                log.warning("source is back source=%s", what)

    def _scan(self) -> None:
        try:
            found = self._processes.scan()
        except SourceError as error:
            if "processes" not in self._failing:
                self._failing.add("processes")
                log.warning("source fails source=processes error=%s", error)
            return
        self._failing.discard("processes")
        wanted = self._options.wanted
        for key in self._set.met([seen for seen in found if wanted is None or wanted(seen)], self._clock.wall_ns()):
            self._lives.pop(key, None)

    def _server(self, key: str, seen: ProcessSeen, memory: ServerMemory | None) -> ServerWatch:
        kind = self._recognise(seen.launch, seen.title)
        endpoint = self._open_endpoint(seen, kind.kind if kind else "unknown")
        log = self._open_log(seen)
        if memory is not None:
            self._lives[key] = Lifecycle(memory.findings, memory.epoch)
            if self._witness is not None:
                self._witness.remembered(seen, (*memory.birth, *memory.recent))
        version, model = self._options.version, self._read_model
        return ServerWatch(key, seen, kind, log, endpoint, version, model, memory, self._born_ns)

    def _judge(
        self, telemetry: Telemetry, now_ns: int, wall_ns: int, watched_s: float
    ) -> tuple[tuple[TargetView, ...], Mapping[str, Signals]]:
        options = self._options
        signals: dict[str, Signals] = dict(gpu_only(telemetry))
        assessed: list[Assessment] = []
        taken = frozenset(uuid for server in self.servers for uuid in server.seen.workers)
        for server in self.servers:
            evidence = server.evidence(telemetry, wall_ns, options.window_s, options.stated)
            evidence = replace(evidence, taken=taken)
            result = assess(evidence, self._rules, options.ignore, watched_s, one_shot=options.one_shot)
            own = evidence.server.gpus
            signals |= {uuid: s for uuid, s in result.computed.gpus.items() if uuid in own}
            server.note_pace(now_ns, result.view.signals)
            assessed.append(result)
        if not assessed:
            assessed.append(self._nobody(telemetry, wall_ns, watched_s))
        if options.one_shot:
            return tuple(a.view for a in assessed), signals
        return tuple(self._lived(a, now_ns, wall_ns) for a in assessed), signals

    def _lived(self, assessment: Assessment, now_ns: int, wall_ns: int) -> TargetView:
        """The view with its findings pending, firing or just resolved."""
        view = assessment.view
        life = self._lives.setdefault(view.target.id, Lifecycle())
        epoch = view.server.epoch if view.server is not None else None
        findings = life.step(now_ns, assessment.judgements, epoch=epoch, wall_offset_ns=wall_ns - now_ns)
        firing = [
            f for f in findings if f.state is State.FIRING or (f.severity is Severity.INFO and f.state is State.PENDING)
        ]
        verdict, missing = answer(view.signals, firing)
        return replace(view, findings=findings, answer=verdict, missing=missing)

    def _nobody(self, telemetry: Telemetry, wall_ns: int, watched_s: float) -> Assessment:
        """The view of a host on which no server was found: its GPUs, and what the user told us."""
        options = self._options
        evidence = ServerEvidence(
            server=Server("unknown", "host"),
            facts=Facts(),
            telemetry=telemetry,
            stated=options.stated,
            now_ns=wall_ns,
            window_s=options.window_s,
            live=True,
        )
        result = assess(evidence, self._rules, options.ignore, watched_s, one_shot=options.one_shot)
        return replace(result, view=replace(result.view, target=Target(Scope.HOST, "host"), server=None))

    def _health(self) -> tuple[SourceHealth, ...]:
        own = (self._telemetry.health(), self._processes.health())
        return (*own, *(health for server in self.servers for health in server.health()))

    def close(self) -> None:
        """Let go of every source."""
        self._set.close()
        self._telemetry.close()
