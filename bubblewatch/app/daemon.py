"""The daemon: one watcher on the main thread, HTTP on another, the sampler in a process of its own."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType

from bubblewatch import __version__
from bubblewatch.app.demo import scenarios, simulated_watcher
from bubblewatch.app.live import LiveOptions, live_watcher
from bubblewatch.diagnose.rule import Rule
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import serve
from bubblewatch.model.clock import Clock, SystemClock
from bubblewatch.model.errors import UsageError
from bubblewatch.report.document import error_document, snapshot_document, to_json
from bubblewatch.runtime.hub import Hub
from bubblewatch.runtime.watch import Watcher

TICK_S = 1.0
"""Seconds between two judgements: rules speak of tens of seconds, and a scrape comes every 15 s."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """What to watch and where to serve it. `scenario` names a simulated host to watch instead of this one."""

    listen: str = "127.0.0.1:9736"
    gpus: str | None = None
    rate_hz: float = 10.0
    nvml: bool = True
    scenario: str | None = None
    ignore: tuple[str, ...] = ()


def run_daemon(options: DaemonOptions, rules: Sequence[Rule]) -> int:
    """Watch and serve until SIGTERM or SIGINT; then 0. Raises UsageError when the address cannot be listened on."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    clock = SystemClock()
    host, port = listen_address(options.listen)
    stop = threading.Event()

    def stop_on_signal(number: int, _frame: FrameType | None) -> None:
        log.info("stopping signal=%s", signal.Signals(number).name)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop_on_signal)
    hub = Hub(clock)
    documents = Documents(
        of_snapshot=lambda snapshot: to_json(snapshot_document(snapshot)),
        of_error=lambda what, hint: to_json(error_document(what, hint)),
    )
    watcher, sampler_pid = _watcher(options, rules, clock)
    try:
        with serve(application(hub, Exposition(hub, __version__, sampler_pid), documents), host, port) as served:
            log.info("serving url=%s", served.url)
            _watch(watcher, hub, clock, stop)
    finally:
        hub.close()
        watcher.close()
    return 0


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[V6]:PORT` or `:PORT` (loopback). Raises UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise UsageError(f"--listen {text!r} is not HOST:PORT", "for example 127.0.0.1:9736")
    return host.strip("[]") or "127.0.0.1", int(port)


def _watcher(
    options: DaemonOptions, rules: Sequence[Rule], clock: Clock
) -> tuple[Watcher, Callable[[], int | None] | None]:
    if options.scenario is None:
        live = LiveOptions(
            gpus=options.gpus, rate_hz=options.rate_hz, nvml=options.nvml, ignore=options.ignore, one_shot=False
        )
        return live_watcher(live, rules, clock)
    known = scenarios()
    if options.scenario not in known:
        raise UsageError(f"no scenario is called {options.scenario!r}", f"there are {', '.join(known)}")
    return simulated_watcher(known[options.scenario], clock, rules, options.ignore, one_shot=False), None


def _watch(watcher: Watcher, hub: Hub, clock: Clock, stop: threading.Event) -> None:
    """Tick at an even pace until told to stop. A tick that takes too long makes the next one late, never doubled."""
    next_ns = clock.monotonic_ns()
    while not stop.is_set():
        hub.publish(watcher.tick())
        next_ns = max(next_ns + round(TICK_S * 1e9), clock.monotonic_ns())
        stop.wait(max(next_ns - clock.monotonic_ns(), 0) / 1e9)
