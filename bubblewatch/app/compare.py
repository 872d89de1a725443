"""Which stretches of which recordings are compared."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bubblewatch.app.live import since_ns
from bubblewatch.model.clock import NS
from bubblewatch.model.errors import UsageError
from bubblewatch.report.recording_parts import MISSING
from bubblewatch.sources.recording_records import Servers

if TYPE_CHECKING:
    from bubblewatch.report.compare import Comparison
    from bubblewatch.report.frames import RecordingFrames

SETTLE_S = 60.0
"""Seconds after a restart or a split that do not count: caches and clocks settle, and signals still look back."""

AROUND_S = 3600.0
"""Most seconds on each side of a restart that count: the demand of another time of day is another demand."""


@dataclass(frozen=True, slots=True)
class CompareRequest:
    """Two recordings; or one, cut at `split` (a time) or at the last restart of the server `around_restart`."""

    before: Path
    after: Path | None = None
    split: str | None = None
    around_restart: str | None = None
    server: str | None = None


def compare_recordings(request: CompareRequest, now_ns: int) -> Comparison:
    """The comparison that was asked for. Raises UsageError for a request that cannot be."""
    try:
        from bubblewatch.report.compare import compare, side  # noqa: PLC0415  pandas is an extra
        from bubblewatch.report.frames import RecordingFrames  # noqa: PLC0415
    except ImportError as error:
        raise UsageError(f"a comparison needs {error.name}, which is not installed", MISSING) from error
    ways = [request.after, request.split, request.around_restart]
    if sum(way is not None for way in ways) != 1:
        raise UsageError("two stretches are needed", "a second recording, --split TIME, or --around-restart SERVER")
    key = request.around_restart or request.server
    if request.after is not None:
        first, second = RecordingFrames(request.before), RecordingFrames(request.after)
        labels = str(request.before), str(request.after)
    else:
        whole = RecordingFrames(request.before)
        if request.split is not None:
            split_ns = since_ns(request.split, now_ns) or now_ns
            begin_ns = end_ns = None
        else:
            begin_ns, split_ns, end_ns = _around_restart(whole, request.around_restart or "")
        settled_ns = split_ns + round(SETTLE_S * NS)
        first = RecordingFrames(request.before, begin_ns, split_ns - 1)
        second = RecordingFrames(request.before, settled_ns, end_ns)
        labels = "before", "after"
    return compare(side(first, labels[0], key), side(second, labels[1], key))


def _around_restart(frames: RecordingFrames, key: str) -> tuple[int, int, int]:
    """Where the stretch before the last restart of a server begins, the restart, and the end of the stretch after."""
    lives: list[tuple[int, object]] = []
    last_ns = 0
    for time_ns, _, record in frames.records():
        last_ns = time_ns
        for server in record.servers if isinstance(record, Servers) else ():
            if server.key == key and (not lives or lives[-1][1] != server.epoch):
                lives.append((time_ns, server.epoch))
    if not lives:
        raise UsageError(f"the recording has no server {key!r}")
    if len(lives) < 2:
        raise UsageError(f"{key} was not restarted while it was recorded", "--split TIME compares two times")
    restart_ns, begun_ns = lives[-1][0], lives[-2][0]
    around_ns = round(AROUND_S * NS)
    return max(begun_ns, restart_ns - around_ns), restart_ns, min(last_ns, restart_ns + around_ns)


def comparison_output(found: Comparison, *, as_json: bool) -> str:
    """What is printed."""
    from bubblewatch.report.compare_text import comparison_document, comparison_text  # noqa: PLC0415

    return json.dumps(comparison_document(found), indent=2) + "\n" if as_json else comparison_text(found)
