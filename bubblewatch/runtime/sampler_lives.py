"""One sampler process after another: when one is replaced, left alone or tried beside the one that works.

What may go wrong, and what then happens:

* It ends: another is started after a pause that doubles. When it crashed while asking a GPU, that GPU is left out.
* A call hangs: it is killed and not waited for, since it may be stuck in the driver; the next one leaves that GPU out.
* GPUs are lost, could not be opened or are left out: now and then a second one is started beside the first. When it
  reads more GPUs it takes over, otherwise it goes. A fresh process is what a GPU needs that was reset, and a driver
  that was reloaded; and while a GPU still hangs, the others go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bubblewatch.model.clock import NS
from bubblewatch.model.errors import BubblewatchError, SourceError, UsageError
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.runtime.sampler_cost import Ledger, SamplerCost
from bubblewatch.runtime.sampler_grip import SEE_DMESG, Child, Patience
from bubblewatch.runtime.sampler_status import Options, Status
from bubblewatch.runtime.shared_ring import KEPT_S
from bubblewatch.runtime.telemetry_join import joined

MOST_STUCK = 3
"""Processes that may be stuck in the driver before no more are started: each holds what it has open."""
NEVER_NS = 2**63
"""Later than any monotonic time."""


@dataclass(slots=True)
class BackOff:
    """A pause that doubles with each failure."""

    first_s: float
    most_s: float
    now_s: float = 0.0

    def next_ns(self, now_ns: int) -> int:
        """When to try again, after one more failure."""
        self.now_s = min(max(self.now_s * 2, self.first_s), self.most_s)
        return now_ns + round(self.now_s * NS)

    def reset(self) -> None:
        self.now_s = 0.0


class Lives:
    """The sampler process of now, and what is left of those before it. Threading: one thread at a time.

    `end` is why the last one ended, None while one works. `left_out` is index of a GPU -> why no sampler asks it.
    """

    def __init__(self, options: Options, environ: Mapping[str, str], now_ns: int, patience: Patience) -> None:
        self._options = options
        self._environ = dict(environ)
        self._patience = patience
        self._ledger = Ledger()
        self._past = Telemetry()
        self._since_ns = 0
        self._retry_ns: int | None = None
        self._back_off = BackOff(*patience.back_off_s)
        self._trial_back_off = BackOff(*patience.trial_s)
        self._trial_ns: int | None = None
        self._stuck: list[Child] = []
        self._trial: Child | None = None
        self.end: BubblewatchError | None = None
        self.left_out: dict[int, str] = {}
        self.restarts = 0
        self.child = self._start(now_ns, Status())

    def supervise(self, now_ns: int) -> None:
        """Do what is due. Costs microseconds, a few ms when a process is started."""
        self._stuck = [one for one in self._stuck if not one.has_ended]
        child = self.child
        if self._retry_ns is not None:
            if now_ns >= self._retry_ns and len(self._stuck) < MOST_STUCK:
                self._succeed(self._start(now_ns, child.status))
        elif child.has_ended:
            self._bury(now_ns)
        elif child.hangs(now_ns):
            if child.silent_s(now_ns) > self._patience.replace_s:
                self._give_up(now_ns)
        elif child.has_read:
            self.end = None
            self._try_for_more(now_ns)

    def telemetry(self, since_ns: int, now_ns: int, wall_offset_ns: int) -> Telemetry:
        """Readings of the sampler of now and, before them, of the ended ones."""
        if self._past.end_ns < now_ns - KEPT_S * NS:
            self._past = Telemetry()
        if self._retry_ns is not None:  # the child of now is dead, and what it has read is in the past
            own = Telemetry((), now_ns, now_ns, wall_offset_ns)
        else:
            own = self.child.telemetry(max(since_ns, self._since_ns), now_ns, wall_offset_ns)
        return joined(self._past, own, since_ns)

    def cost(self) -> SamplerCost:
        """Totals over all of them."""
        return replace(self._ledger.total(self.child.page), restarts=self.restarts)

    def want_activity(self, wanted: bool) -> None:
        """Have SM activity sampled from now on, or not."""
        self._options = replace(self._options, sm_activity=wanted)
        for one in (self.child, self._trial):
            if one is not None:
                one.want_activity(wanted)

    def close(self) -> None:
        """End them. Takes a second at the most for each, even when a call hangs in the driver."""
        for one in (self.child, self._trial):
            if one is not None:
                one.stop()

    @property
    def stuck(self) -> tuple[int, ...]:
        """Processes that were killed and are not gone: they are stuck in the driver."""
        return tuple(one.process.pid for one in self._stuck)

    def _start(self, now_ns: int, before: Status, *, everything: bool = False) -> Child:
        left_out = () if everything else tuple(str(index) for index in sorted(self.left_out))
        options = replace(self._options, exclude=(*self._options.exclude, *left_out))
        return Child(options, self._environ, now_ns, replace(before, failure=None), self._patience)

    def _succeed(self, child: Child) -> None:
        """Let this one be the sampler of now. The one before must be in the past already."""
        self._retry_ns = None
        self._trial_ns = None
        self.restarts += 1
        self.child = child

    def _file(self, now_ns: int) -> None:
        """Keep what the sampler of now has read and cost; it is not asked again."""
        since_ns = now_ns - KEPT_S * NS
        own = self.child.telemetry(max(since_ns, self._since_ns), now_ns, 0)
        self._past = joined(self._past, own, since_ns)
        # The next one may be reading already: what it has read before this is not needed twice.
        ends_ns = (series.times_ns[-1] for gpu in self._past.gpus for series in gpu.series.values())
        self._since_ns = max(ends_ns, default=0) + 1
        self._ledger.close(self.child.page)

    def _bury(self, now_ns: int) -> None:
        """A sampler has ended by itself: say why, and set the time of the next one."""
        child = self.child
        self._file(now_ns)
        self.end = child.why_ended()
        if child.has_read:
            self._back_off.reset()
        busy = child.busy_gpu
        if child.crashed and busy is not None:
            self.left_out[busy] = "the driver's library crashed while it was asked"
        elif self.left_out and not child.has_read:
            self._ask_all_again(self.end)
        # A GPU that the user named and that is not there will not come by asking again.
        hopeless = isinstance(self.end, UsageError)
        self._retry_ns = NEVER_NS if hopeless else self._back_off.next_ns(now_ns)

    def _ask_all_again(self, end: BubblewatchError) -> None:
        """Without those left out nothing could be read: ask them too, once no process hangs on them any more."""
        why = "; ".join(f"GPU {index}: {reason}" for index, reason in sorted(self.left_out.items()))
        self.end = SourceError(f"{end.what}; left out: {why}", SEE_DMESG)
        if not self._stuck:
            self.left_out.clear()

    def _give_up(self, now_ns: int) -> None:
        """A sampler hangs: start the next one without the GPU on which it hangs."""
        child = self.child
        self._file(now_ns)
        busy = child.busy_gpu
        self.end = child.hang(now_ns)
        if busy is not None:
            self.left_out[busy] = "a call on it does not come back from the driver"
        child.give_up()
        self._stuck.append(child)
        if busy is not None and len(self._stuck) < MOST_STUCK:
            self._succeed(self._start(now_ns, child.status))
        else:
            self._retry_ns = self._back_off.next_ns(now_ns)

    def _try_for_more(self, now_ns: int) -> None:
        """When GPUs are missing, see now and then whether a fresh process reads more of them."""
        if self._trial is not None:
            self._judge_trial(self._trial, now_ns)
            return
        status = self.child.status
        if not (status.lost or status.absent or self.left_out):
            self._trial_ns = None
            self._trial_back_off.reset()
        elif self._trial_ns is None:
            self._trial_ns = self._trial_back_off.next_ns(now_ns)
        elif now_ns >= self._trial_ns and not self._stuck:
            self._trial = self._start(now_ns, status, everything=True)

    def _judge_trial(self, trial: Child, now_ns: int) -> None:
        if trial.has_read and trial.readable > self.child.readable:
            self._file(now_ns)
            self.child.stop()
            self._trial = None
            self.left_out.clear()
            self._trial_back_off.reset()
            self._succeed(trial)
            return
        if not (trial.has_read or trial.has_ended or trial.age_s(now_ns) > self._patience.trial_for_s):
            return
        if trial.has_read:
            trial.stop()
        else:
            trial.give_up()
        self._trial = None
        self._trial_ns = self._trial_back_off.next_ns(now_ns)
        if not trial.has_ended:
            self._stuck.append(trial)
