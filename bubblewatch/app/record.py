"""Recording: this machine or a simulated one, into a folder. Loads neither pandas nor pyarrow."""

from __future__ import annotations

import importlib.util
import logging
import os
import platform
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TextIO

from bubblewatch import __version__
from bubblewatch.app.demo import simulated_watcher
from bubblewatch.app.live import LiveOptions, live_watcher
from bubblewatch.diagnose.rule import Rule
from bubblewatch.model.clock import Clock, ManualClock, SystemClock
from bubblewatch.model.errors import SourceError, UsageError
from bubblewatch.model.findings import Health, Snapshot
from bubblewatch.runtime.flight_recorder import Bounds, FlightRecorder
from bubblewatch.sources.recording_folder import LOG_SUFFIX
from bubblewatch.sources.recording_lock import FolderLock
from bubblewatch.sources.recording_records import SCHEMA, Begin, HostFacts
from bubblewatch.sources.simulated import Scenario

TICK_S = 1.0
"""Seconds between two judgements while recording: what a kill loses at the most."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What `record` did: the last picture, and where it all is."""

    snapshot: Snapshot
    folder: Path
    seconds: float
    size_bytes: int
    interrupted: bool = False


class Compactor:
    """Starts the child that turns closed parts into Parquet, one at a time."""

    def __init__(self) -> None:
        self._waiting: list[Path] = []
        self._child: subprocess.Popen[bytes] | None = None

    def add(self, *log_paths: Path) -> None:
        """Take these parts, after those that are at work; does not wait."""
        self._waiting += log_paths
        if self._waiting and (self._child is None or self._child.poll() is not None):
            self._start()

    def _start(self) -> None:
        paths, self._waiting = self._waiting, []
        command = [sys.executable, "-m", "bubblewatch.report.compact", *map(str, paths)]
        try:
            self._child = subprocess.Popen(  # noqa: S603  our own interpreter and module
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
        except OSError as error:
            log.warning("parts stay as they are why=%s", error)

    def stop(self) -> None:
        """End the child. What it was at stays as it was, and the next recorder turns it."""
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()
            self._child.wait()

    def finish(self) -> None:
        """Wait until everything is turned."""
        while self._child is not None:
            self._child.wait()
            self._child = None
            if self._waiting:
                self._start()


def can_compact() -> bool:
    """Whether the child would find what it needs (the extra `report`)."""
    return importlib.util.find_spec("pyarrow") is not None


class Recording:
    """A folder that is being recorded into, as a context. `recorder` is the witness for a watcher.

    With `compact` closed parts become Parquet, where pyarrow is there. Raises UsageError when the folder cannot be
    used.
    """

    def __init__(
        self,
        folder: Path,
        clock: Clock,
        window_s: float,
        *,
        one_shot: bool,
        scenario: str = "",
        bounds: Bounds | None = None,
        compact: bool = True,
    ) -> None:
        self.folder = folder
        self._lock = FolderLock(folder)
        self._compactor = Compactor() if compact and can_compact() else None
        begin = Begin(
            schema=SCHEMA,
            program=__version__,
            session=uuid.uuid4().hex,
            part=0,
            wall_ns=clock.wall_ns(),
            mono_ns=clock.monotonic_ns(),
            window_s=window_s,
            one_shot=one_shot,
            host=HostFacts("simulated") if scenario else host_facts(),
            scenario=scenario,
        )
        add = None
        if self._compactor is not None:
            add = self._compactor.add
            add(*sorted(folder.glob(f"*{LOG_SUFFIX}")))  # nobody else records here: they are all closed
        self.recorder = FlightRecorder(folder, clock, begin, bounds, add)

    def close(self) -> None:
        """End the session at once: the next recorder turns what is left into Parquet."""
        self.recorder.close(hand_over=False)
        if self._compactor is not None:
            self._compactor.stop()
        self._lock.close()

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.recorder.close()
        if self._compactor is not None:
            self._compactor.finish()
        self._lock.close()


def host_facts() -> HostFacts:
    """What is known of this machine."""
    try:
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        memory_bytes = None
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return HostFacts(platform.node(), system, os.cpu_count(), memory_bytes)


def record_scenario(
    scenario: Scenario, rules: Sequence[Rule], seconds: float, folder: Path, running: int | None = None
) -> Recorded:
    """Record so many simulated seconds of a scenario, at once. `running` = another number of requests in flight."""
    if running is not None:
        scenario = replace(scenario, running=running)
    clock = ManualClock()
    with Recording(folder, clock, 30.0, one_shot=True, scenario=scenario.name) as recording:
        watcher = simulated_watcher(scenario, clock, rules, (), witness=recording.recorder)
        snapshot = watcher.tick()
        while snapshot.watched_s < seconds:
            clock.sleep(min(TICK_S, seconds - snapshot.watched_s))
            snapshot = watcher.tick()
        watcher.close()
        _check(recording)
    return Recorded(snapshot, folder, snapshot.watched_s, _size_bytes(folder))


def record_live(options: LiveOptions, rules: Sequence[Rule], folder: Path, progress: TextIO | None) -> Recorded:
    """Record this machine for `options.seconds`, or until Ctrl-C."""
    clock = SystemClock()
    interrupted = False
    window_s = min(options.seconds, LiveOptions().seconds)
    with ExitStack() as stack:
        recording = stack.enter_context(Recording(folder, clock, window_s, one_shot=True))
        watcher, _ = live_watcher(replace(options, seconds=window_s), rules, clock, recording.recorder)
        stack.callback(watcher.close)
        snapshot = watcher.tick()
        try:
            while snapshot.watched_s < options.seconds:
                _tell(progress, snapshot, options.seconds)
                clock.sleep(min(TICK_S, max(options.seconds - snapshot.watched_s, 0.05)))
                snapshot = watcher.tick()
        except KeyboardInterrupt:
            interrupted = True
        if progress is not None and progress.isatty():
            progress.write("\r\x1b[K")
        _check(recording)
    return Recorded(snapshot, folder, snapshot.watched_s, _size_bytes(folder), interrupted)


def _check(recording: Recording) -> None:
    """Whoever asked for a recording wants to hear that there is none."""
    health = recording.recorder.health()
    if health.health is not Health.OK:
        raise UsageError(f"not recorded: {health.detail}", health.mend)


def _tell(progress: TextIO | None, snapshot: Snapshot, seconds: float) -> None:
    if progress is not None and progress.isatty():
        progress.write(f"\r\x1b[Krecording {snapshot.watched_s:.0f} of {seconds:.0f} s (Ctrl-C to stop)")
        progress.flush()


def _size_bytes(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        raise SourceError(f"{folder}: {error.strerror or error}") from error
