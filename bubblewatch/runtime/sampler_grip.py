"""The parent's grip on one life of the sampler process: start it, read its memory, see that it hangs, end it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

import bubblewatch
from bubblewatch.model.clock import NS
from bubblewatch.model.errors import BubblewatchError, SourceError
from bubblewatch.model.telemetry import FIELDS, GpuReading, Telemetry
from bubblewatch.runtime.sampler_status import ACTIVITY_OFF, ACTIVITY_ON, Options, Status
from bubblewatch.runtime.shared_ring import SharedPage, Word

SEE_DMESG = "see dmesg for NVRM and Xid lines"
CHILD_MODULE = "bubblewatch.runtime.sampler_child"
LEAVE_S = 0.5
"""How long close() waits for the sampler to go. One that is stuck in the driver is left to the kernel."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long what is waited for, in seconds; pairs are a first pause and the longest that doubling makes of it."""

    hang_s: float = 2.0
    """No answer for this long, and for 5 periods, means that a call hangs."""
    start_s: float = 30.0
    """Start-up without an answer for this long is a hang too. Without persistence mode the driver first initialises
    every GPU, 1 to 3 s each."""
    replace_s: float = 20.0
    """A sampler that hangs this long is given up. A GPU that is being reset may answer after several seconds."""
    back_off_s: tuple[float, float] = (1.0, 60.0)
    """A sampler that ended is started again after this; one that had readings begins with the first."""
    trial_s: tuple[float, float] = (10.0, 600.0)
    """While GPUs are missing, a second sampler is tried after this."""
    trial_for_s: float = 20.0
    """How long that one may take to its first readings."""


class Child:
    """One life of the sampler process, with its memory."""

    def __init__(
        self, options: Options, environ: Mapping[str, str], now_ns: int, before: Status, patience: Patience
    ) -> None:
        self.page, fd = SharedPage.create(options.rate_hz)
        self.started_ns = now_ns
        self._before = before
        self._patience = patience
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

    def age_s(self, now_ns: int) -> float:
        """Seconds since its start."""
        return (now_ns - self.started_ns) / NS

    @property
    def crashed(self) -> bool:
        """Whether a fault of its own ended it; only once it has ended. Nobody else sends these signals."""
        return -(self.process.returncode or 0) in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE)

    def hangs(self, now_ns: int) -> bool:
        patience = self._patience
        allowed_s = max(patience.hang_s, 5 * self.page.get(Word.PERIOD_NS) / NS) if self.has_read else patience.start_s
        return self.silent_s(now_ns) > allowed_s

    def telemetry(self, since_ns: int, now_ns: int, wall_offset_ns: int) -> Telemetry:
        gpus = []
        status = self.own_status
        for position, gpu in enumerate(status.gpus if status else ()):
            series = {field: self.page.ring(position, field).since(since_ns) for field in FIELDS}
            gpus.append(GpuReading(gpu, MappingProxyType({field: one for field, one in series.items() if len(one)})))
        began_ns = self.page.get(Word.BEGAN_NS) or now_ns
        return Telemetry(tuple(gpus), max(since_ns, began_ns), now_ns, wall_offset_ns)

    @property
    def has_ended(self) -> bool:
        """Whether it is gone; one that was killed inside a driver call may never be."""
        return self.process.poll() is not None

    @property
    def readable(self) -> int:
        """GPUs, and parts of them, that it reads now."""
        status = self.own_status
        return len(status.gpus) - len(status.lost) if status and self.has_read else 0

    @property
    def busy_gpu(self) -> int | None:
        """Index of the GPU that it was asking when it was last heard of; None when it was asking none."""
        return self.page.get(Word.BUSY_GPU) - 1 if self.page.get(Word.BUSY_GPU) else None

    def want_activity(self, wanted: bool) -> None:
        """Have SM activity sampled from now on, or not. Nothing happens when the process has ended."""
        if self.process.stdin:
            with contextlib.suppress(OSError):
                os.write(self.process.stdin.fileno(), ACTIVITY_ON if wanted else ACTIVITY_OFF)

    def give_up(self) -> None:
        """Kill it and do not wait: it may be stuck in the driver."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.kill()

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

    def hang(self, now_ns: int) -> BubblewatchError:
        """The hang in words."""
        silent = f"NVML has not answered for {self.silent_s(now_ns):.0f} s"
        words = silent if self.busy_gpu is None else f"{silent}: a call hangs on GPU {self.busy_gpu}"
        return SourceError(words, SEE_DMESG)

    def why_ended(self) -> BubblewatchError:
        """What it said before it ended, else how it ended. Only after `process.poll()` has seen the end."""
        status, code = self.own_status, self.process.returncode
        if status and status.failure:
            return status.failure.as_error()
        return SourceError(f"the sampler process ended with {f'signal {-code}' if code < 0 else f'code {code}'}")
