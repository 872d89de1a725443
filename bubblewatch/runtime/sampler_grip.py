"""The parent's grip on one life of the sampler process: start it, read its memory, see that it hangs, end it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import bubblewatch
from bubblewatch.model.clock import NS
from bubblewatch.model.errors import BubblewatchError, SourceError
from bubblewatch.model.telemetry import FIELDS, GpuReading, Telemetry
from bubblewatch.runtime.sampler_status import Options, Status
from bubblewatch.runtime.shared_ring import SharedPage, Word

CHILD_MODULE = "bubblewatch.runtime.sampler_child"
HANG_S = 2.0
"""No answer for this long, and for 5 periods, means that a call hangs."""
START_S = 30.0
"""Start-up without an answer for this long is a hang too. Without persistence mode the driver first initialises every
GPU, 1 to 3 s each."""
LEAVE_S = 0.5
"""How long close() waits for the sampler to go. One that is stuck in the driver is left to the kernel."""


class Child:
    """One life of the sampler process, with its memory."""

    def __init__(self, options: Options, environ: Mapping[str, str], now_ns: int, before: Status) -> None:
        self.page, fd = SharedPage.create(options.rate_hz)
        self.started_ns = now_ns
        self._before = before
        self._own: Status | None = None
        root = str(Path(bubblewatch.__file__).parent.parent)
        paths = os.pathsep.join(path for path in (root, environ.get("PYTHONPATH")) if path)
        # -P: a `pynvml.py` in the working directory must not become part of a root process.
        # A session of its own: Ctrl-C is for the parent, which still wants the last readings.
        command = [sys.executable, "-P", "-m", CHILD_MODULE, replace(options, fd=fd).encode()]
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module, no shell
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(fd,),
                env={**environ, "PYTHONPATH": paths},
                start_new_session=True,
            )
        finally:
            os.close(fd)

    @property
    def own_status(self) -> Status | None:
        """The last thing that it told, None when it has not said anything yet."""
        text = self.page.status()
        if text is not None:
            self._own = Status.decode(text)
        return self._own

    @property
    def status(self) -> Status:
        """The same; until it speaks, what the one before it told."""
        return self.own_status or self._before

    @property
    def has_read(self) -> bool:
        return self.page.get(Word.TICKS) > 0

    def silent_s(self, now_ns: int) -> float:
        """Seconds since it last came back from the driver, or since its start."""
        return (now_ns - (self.page.get(Word.HEARTBEAT_NS) or self.started_ns)) / NS

    def hangs(self, now_ns: int) -> bool:
        allowed_s = max(HANG_S, 5 * self.page.get(Word.PERIOD_NS) / NS) if self.has_read else START_S
        return self.silent_s(now_ns) > allowed_s

    def telemetry(self, since_ns: int, now_ns: int, wall_offset_ns: int) -> Telemetry:
        gpus = []
        status = self.own_status
        for position, gpu in enumerate(status.gpus if status else ()):
            series = {field: self.page.ring(position, field).since(since_ns) for field in FIELDS}
            gpus.append(GpuReading(gpu, MappingProxyType({field: one for field, one in series.items() if len(one)})))
        began_ns = self.page.get(Word.BEGAN_NS) or now_ns
        return Telemetry(tuple(gpus), max(since_ns, began_ns), now_ns, wall_offset_ns)

    def stop(self) -> None:
        """Ask it to go, then make it go; never wait for one that cannot."""
        if self.process.stdin:
            self.process.stdin.close()
        if not self._gone_within(LEAVE_S):
            self.process.kill()
            self._gone_within(LEAVE_S)

    def _gone_within(self, seconds: float) -> bool:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def why_ended(self) -> BubblewatchError:
        """What it said before it ended, else how it ended. Only after `process.poll()` has seen the end."""
        status, code = self.own_status, self.process.returncode
        if status and status.failure:
            return status.failure.as_error()
        return SourceError(f"the sampler process ended with {f'signal {-code}' if code < 0 else f'code {code}'}")
