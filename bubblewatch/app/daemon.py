"""The daemon: one watcher on the main thread, HTTP on another, the sampler in a process of its own."""

from __future__ import annotations

import logging
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType

from starlette.types import ASGIApp

from bubblewatch import __version__
from bubblewatch.app.config import KEYS, Config, Loaded, load
from bubblewatch.app.config_check import configured_rules
from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.live import LiveOptions, live_watcher
from bubblewatch.app.record import Recording
from bubblewatch.app.web_daemon import Web
from bubblewatch.diagnose.explain import explain_html, explain_text, find, rules_html
from bubblewatch.diagnose.rule import Rule
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import HTTP_LOG
from bubblewatch.model.clock import Clock, SystemClock
from bubblewatch.model.errors import RuleError, UsageError
from bubblewatch.model.findings import Snapshot, State
from bubblewatch.report.document import error_document, snapshot_document, to_json
from bubblewatch.runtime.feed_codec import feed_to_json
from bubblewatch.runtime.feed_desk import FeedDesk
from bubblewatch.runtime.flight_recorder import Bounds
from bubblewatch.runtime.hub import Hub
from bubblewatch.runtime.memory import Memory
from bubblewatch.runtime.sampler_cost import SamplerCost
from bubblewatch.runtime.state_store import StateStore
from bubblewatch.runtime.watch import Watcher
from bubblewatch.runtime.witness import Witness
from bubblewatch.sources.journal_log import JournalHandler
from bubblewatch.sources.proc import own_children
from bubblewatch.sources.service_manager import ServiceManager, tells_journal

TICK_S = 1.0
"""Seconds between two judgements: rules speak of tens of seconds, and a scrape comes every 15 s."""

LAST_WRITE_S = 0.5
"""Longest wait for the last state to reach the disk, in seconds; what is lost then is read from the logs again."""

RUNBOOK_WIDTH = 100
"""Characters of a line on the page of a rule."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """Where the configuration comes from: file (None = the usual one), environment, and flags by field of Config.

    `scenario` names a simulated host to watch instead of this one.
    """

    file: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, object] = field(default_factory=dict)
    scenario: str | None = None

    def load(self) -> Loaded:
        """The configuration as it is now. Raises ConfigError."""
        return load(self.file, self.environ, self.flags)


def run_daemon(options: DaemonOptions) -> int:
    """Watch and serve until SIGTERM or SIGINT; then 0. SIGHUP reads the configuration and the rules again.

    Raises UsageError when the configuration cannot be followed or an address cannot be listened on.
    """
    loaded = options.load()
    rules = configured_rules(loaded.config)
    _log_to(options.environ, loaded.config.log_level)
    daemon = _Daemon(options, loaded, rules, ServiceManager(options.environ, os.getpid()))
    try:
        daemon.run()
    finally:
        daemon.close()
    return 0


class _Daemon:
    """One run of it, on the main thread, which the signals come to."""

    def __init__(self, options: DaemonOptions, loaded: Loaded, rules: Sequence[Rule], manager: ServiceManager) -> None:
        self._options = options
        self._loaded = loaded
        self._manager = manager
        self._clock = SystemClock()
        self._hub = Hub(self._clock)
        self._desk = FeedDesk(self._clock)
        self._wake = threading.Event()
        self._is_stopping = False
        self._is_reloading = False
        self._is_running = False
        self._web_hangs = False
        self._web = Web()
        self._web.bind(loaded.config)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        self._store = _store(options, loaded.config, manager, self._clock)
        memory = self._store.load() if self._store is not None else None
        self._recording = _recording(options, loaded.config, manager, self._clock)
        witness = self._recording.recorder if self._recording is not None else None
        self._watcher, self._sampler_cost = _watcher(
            options.scenario, loaded.config, rules, self._clock, memory, witness
        )
        self._web.apply(loaded.config, self._app(rules))

    def run(self) -> None:
        """Tick at an even pace until told to stop. A tick that takes long makes the next one late, never doubled."""
        log.info("serving url=%s", " ".join(self._web.urls))
        next_ns = self._clock.monotonic_ns()
        while not self._is_stopping:
            if self._is_reloading:
                self._reload()
            snapshot = self._tick()
            if not self._is_running:
                self._manager.ready(status_line(snapshot))
                self._is_running = True
            self._show_health(snapshot)
            next_ns = max(next_ns + round(TICK_S * 1e9), self._clock.monotonic_ns())
            self._wake.wait(max(next_ns - self._clock.monotonic_ns(), 0) / 1e9)
            self._wake.clear()

    def close(self) -> None:
        """End everything within two seconds; a child that is stuck in the driver is named and left behind."""
        self._manager.stopping()
        self._hub.close()
        self._web.begin_stop()
        if self._store is not None:
            self._store.close(self._watcher.memory(), LAST_WRITE_S)
        self._watcher.close()
        if self._recording is not None:
            self._recording.close()
        self._web.close()
        for pid in own_children():
            log.warning("a child does not end, it may be stuck in the driver, and is left behind pid=%d", pid)

    def _tick(self) -> Snapshot:
        snapshot = self._watcher.tick()
        if self._store is not None:
            self._store.offer(self._watcher.memory)
            snapshot = replace(snapshot, sources=(*snapshot.sources, self._store.health()))
        if self._recording is not None:
            snapshot = replace(snapshot, sources=(*snapshot.sources, self._recording.recorder.health()))
        snapshot = self._hub.publish(snapshot)
        if self._desk.is_wanted:
            self._desk.put(self._watcher.feed(snapshot, platform.node()))
        return snapshot

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            self._is_reloading = True
        else:
            log.info("stopping signal=%s", signal.Signals(number).name)
            self._is_stopping = True
            if not self._is_running:
                raise SystemExit(0)  # NVML may take long to start, and there is nothing to put away yet
        self._wake.set()

    def _show_health(self, snapshot: Snapshot) -> None:
        """Tell systemd that we live: a judgement was just made and the web side answers. Otherwise it restarts us."""
        if self._web.is_answering:
            self._web_hangs = False
            self._manager.alive(status_line(snapshot))
        elif not self._web_hangs:
            self._web_hangs = True
            log.error("the web side does not answer any more")

    def _reload(self) -> None:
        """Put into force what changed; what is wrong is told, and everything stays as it was."""
        self._is_reloading = False
        self._manager.reloading(self._clock)
        try:
            loaded = self._options.load()
            rules = configured_rules(loaded.config)
            self._web.apply(loaded.config, self._app(rules))
        except UsageError as error:
            log.error("reload refused, the old configuration stays error=%s", error)  # noqa: TRY400  no bug of ours
            for problem in error.problems[1:] if isinstance(error, RuleError) else ():
                log.error("wrong rule problem=%s", problem)  # noqa: TRY400  no bug of ours
            self._manager.ready("reload refused, the old configuration stays")
            return
        before, self._loaded = self._loaded, loaded
        self._watcher.judge_by(rules, loaded.config.ignore, loaded.config.window_s)
        logging.getLogger().setLevel(loaded.config.log_level.upper())
        for name in changed(before.config, loaded.config):
            key = KEYS[name]
            log.info("setting changed key=%s in_force=%s", key.name, "now" if key.is_live else "after a restart")
        log.info("reloaded file=%s", loaded.file or "none")
        self._manager.ready("reloaded")

    def _app(self, rules: Sequence[Rule]) -> ASGIApp:
        def feed() -> bytes | None:
            latest = self._desk.take()
            return feed_to_json(latest) if latest is not None else None

        documents = Documents(
            of_snapshot=lambda snapshot: to_json(snapshot_document(snapshot)),
            of_error=lambda what, hint: to_json(error_document(what, hint)),
            of_rule=lambda name: _explained(rules, name, partial(explain_text, width=RUNBOOK_WIDTH)),
            rule_page=lambda name: _explained(rules, name, explain_html),
            rule_index=rules_html(rules),
            feed=feed,
        )
        exposition = Exposition(self._hub, __version__, self._sampler_cost, host=platform.node())
        return application(self._hub, exposition, documents)


def _explained(rules: Sequence[Rule], name: str, render: Callable[[Rule], str]) -> str | None:
    rule = find(rules, name)
    return None if rule is None else render(rule)


def status_line(snapshot: Snapshot) -> str:
    """What `systemctl status` shows: what is watched and what it comes to."""
    servers = sum(view.server is not None for view in snapshot.views)
    loud = sorted({f.name for f in snapshot.findings if f.state is State.FIRING and f.is_loud})
    said = f"findings: {', '.join(loud)}" if loud else snapshot.answer.value.replace("_", " ")
    return f"{servers} server{'' if servers == 1 else 's'}, {len(snapshot.gpus)} GPUs, {said}"


def changed(before: Config, after: Config) -> tuple[str, ...]:
    """Fields of Config that differ."""
    return tuple(name for name in KEYS if getattr(before, name) != getattr(after, name))


def _log_to(environ: Mapping[str, str], level: str) -> None:
    """Our log to the journal with fields where that is where we write to anyway, else to standard error."""
    handler: logging.Handler
    if tells_journal(environ, sys.stderr.fileno()):
        handler = JournalHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler])
    for chatty in ("httpx", "httpcore", HTTP_LOG):  # every request is a line of theirs
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _store(options: DaemonOptions, config: Config, manager: ServiceManager, clock: Clock) -> StateStore | None:
    """Where the state is kept; None when nobody named a place, or when the host is simulated."""
    folder = config.state_folder or manager.state_folder
    if folder is None or options.scenario is not None:
        return None
    return StateStore(Path(folder), config.state_bytes, config.state_every_s, clock)


def _recording(options: DaemonOptions, config: Config, manager: ServiceManager, clock: Clock) -> Recording | None:
    """Where what is seen is recorded; None when that is switched off or no place for it is known.

    A folder that was named must do; that beside the state is left alone when it does not, so that we watch anyway.
    """
    state = config.state_folder or manager.state_folder
    folder = config.record_folder or (f"{state}/recording" if state is not None else None)
    if not config.record or folder is None or (options.scenario is not None and config.record_folder is None):
        return None
    bounds = Bounds(most_bytes=config.record_bytes, most_age_s=config.record_age_s)
    try:
        return Recording(
            Path(folder), clock, config.window_s, one_shot=False, scenario=options.scenario or "", bounds=bounds
        )
    except UsageError as error:
        if config.record_folder is not None:
            raise
        log.warning("nothing is recorded error=%s", error)
        return None


def _watcher(
    scenario: str | None,
    config: Config,
    rules: Sequence[Rule],
    clock: Clock,
    memory: Memory | None,
    witness: Witness | None,
) -> tuple[Watcher, Callable[[], SamplerCost] | None]:
    if scenario is None:
        live = LiveOptions(
            gpus=config.gpus,
            seconds=config.window_s,
            rate_hz=config.rate_hz,
            nvml=config.nvml,
            ignore=config.ignore,
            one_shot=False,
        )
        return live_watcher(live, rules, clock, witness, memory)
    known = scenarios()
    if scenario not in known:
        raise UsageError(f"no scenario is called {scenario!r}", f"there are {', '.join(known)}")
    return simulated_watcher(known[scenario], clock, rules, config.ignore, one_shot=False, witness=witness), None
