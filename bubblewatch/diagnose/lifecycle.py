"""How findings live in the daemon: pending, firing, resolved; with hysteresis, and never from unknown."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from bubblewatch.diagnose.judge import Judgement
from bubblewatch.diagnose.order import urgency
from bubblewatch.model.clock import NS
from bubblewatch.model.findings import Finding, State, Target, Verdict
from bubblewatch.model.server import Epoch

_Key = tuple[str, Target]


@dataclass(slots=True)
class _Life:
    """One finding's way. Times are ns of the caller's clock.

    `matched_ns` counts only time between two matches in a row, so that what was not seen never makes a finding fire.
    `quiet_since_ns` is when it stopped matching, `clear_since_ns` since when it has been clear without a break; None
    while that does not hold.
    """

    judgement: Judgement
    finding: Finding
    since_ns: int
    seen_ns: int
    matched_ns: int = 0
    is_firing: bool = False
    quiet_since_ns: int | None = None
    clear_since_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Remembered:
    """How a finding stood when an earlier daemon last saw it: since when (wall time), whether it fired, and for how
    long it had matched in all.
    """

    name: str
    target: Target
    since_ns: int
    is_firing: bool = False
    matched_s: float = 0.0


class Lifecycle:
    """The findings of one view (a server with its GPUs) over time. Called from one thread.

    A match must hold for the rule's `for` before the finding fires, and be clear for `clear_for` before it is resolved.
    UNKNOWN keeps a finding as it is for `clear_for` and then drops it: nothing is said any more, not even that it is
    resolved. A new epoch of the server drops everything.

    `remembered` are findings of this `epoch` from before a restart of the daemon: each goes on where it stood as soon
    as it matches again, and is forgotten when it is judged clear.
    """

    def __init__(self, remembered: Sequence[Remembered] = (), epoch: Epoch | None = None) -> None:
        self._lives: dict[_Key, _Life] = {}
        self._remembered = {(one.name, one.target): one for one in remembered}
        self._epoch = epoch

    def step(
        self, now_ns: int, judgements: Sequence[Judgement], *, epoch: Epoch | None = None, wall_offset_ns: int = 0
    ) -> tuple[Finding, ...]:
        """The findings at `now_ns` (monotonic), most urgent first; a resolved one is returned once.

        `wall_offset_ns` is added to make `since_ns` wall time. A rule that is not among `judgements` counts as unknown.
        """
        if epoch != self._epoch:
            self._lives.clear()
            self._remembered.clear()
            self._epoch = epoch
        by_key = {(j.rule.name, j.target): j for j in judgements}
        resolved = [life for key in list(self._lives) if (life := self._continue(key, by_key.get(key), now_ns))]
        for key, judgement in by_key.items():
            if judgement.finding is not None and key not in self._lives:
                self._lives[key] = self._begin(key, judgement, judgement.finding, now_ns, wall_offset_ns)
            elif judgement.verdict is Verdict.CLEAR:
                self._remembered.pop(key, None)
        shown = [(life, State.FIRING if life.is_firing else State.PENDING) for life in self._lives.values()]
        shown += [(life, State.RESOLVED) for life in resolved]
        shown.sort(key=lambda pair: (pair[1] is State.RESOLVED, urgency(pair[0].judgement.rule, pair[0].finding)))
        return tuple(
            dataclasses.replace(life.finding, state=state, since_ns=life.since_ns + wall_offset_ns)
            for life, state in shown
        )

    def remember(self, wall_offset_ns: int = 0) -> tuple[Remembered, ...]:
        """How every finding stands, for another Lifecycle of the same epoch."""
        lives = {
            key: Remembered(*key, life.since_ns + wall_offset_ns, life.is_firing, life.matched_ns / NS)
            for key, life in self._lives.items()
        }
        return tuple({**self._remembered, **lives}.values())

    def _begin(self, key: _Key, judgement: Judgement, finding: Finding, now_ns: int, wall_offset_ns: int) -> _Life:
        life = _Life(judgement, finding, now_ns, now_ns)
        life.is_firing = judgement.rule.for_s <= 0
        before = self._remembered.pop(key, None)
        if before is not None:
            life.since_ns = min(before.since_ns - wall_offset_ns, now_ns)  # the wall clock may have gone back
            life.matched_ns = round(before.matched_s * NS)
            life.is_firing = life.is_firing or before.is_firing
        return life

    def _continue(self, key: _Key, judgement: Judgement | None, now_ns: int) -> _Life | None:
        """Move one life on; the life when it has just been resolved, else None."""
        life = self._lives[key]
        verdict = judgement.verdict if judgement else Verdict.UNKNOWN
        elapsed_ns, life.seen_ns = max(now_ns - life.seen_ns, 0), now_ns
        if judgement is not None and judgement.finding is not None:
            _matched(life, judgement, judgement.finding, elapsed_ns)
            return None
        if life.quiet_since_ns is None:
            life.quiet_since_ns = now_ns
        if verdict is Verdict.CLEAR:
            return self._cleared(key, life, now_ns)
        life.clear_since_ns = None
        if now_ns - life.quiet_since_ns >= life.judgement.rule.clear_for_s * NS:
            del self._lives[key]
        return None

    def _cleared(self, key: _Key, life: _Life, now_ns: int) -> _Life | None:
        """A clear verdict: a pending finding was nothing; a firing one must stay clear for `clear_for`."""
        if not life.is_firing:
            del self._lives[key]
            return None
        if life.clear_since_ns is None:
            life.clear_since_ns = now_ns
        if now_ns - life.clear_since_ns < life.judgement.rule.clear_for_s * NS:
            return None
        del self._lives[key]
        return life


def _matched(life: _Life, judgement: Judgement, finding: Finding, elapsed_ns: int) -> None:
    if life.quiet_since_ns is None:
        life.matched_ns += elapsed_ns
    life.quiet_since_ns = life.clear_since_ns = None
    life.judgement, life.finding = judgement, finding
    life.is_firing = life.is_firing or life.matched_ns >= judgement.rule.for_s * NS
