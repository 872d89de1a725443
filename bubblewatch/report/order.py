"""Which server is spoken of first."""

from __future__ import annotations

from bubblewatch.model.findings import Answer, Snapshot, TargetView

_WORST_FIRST = (Answer.FINDINGS, Answer.ERROR, Answer.CANNOT_JUDGE, Answer.QUIET, Answer.HEALTHY)


def worst_first(snapshot: Snapshot) -> tuple[TargetView, ...]:
    """The views, the one that needs a person most first; equals keep the order of the snapshot."""
    return tuple(sorted(snapshot.views, key=_badness))


def _badness(view: TargetView) -> tuple[int, int]:
    loudest = max((int(finding.severity) for finding in view.findings if finding.is_loud), default=-1)
    return -loudest, _WORST_FIRST.index(view.answer)
