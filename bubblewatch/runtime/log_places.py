"""Which log of which server was read how far, so that another reading goes on there."""

from __future__ import annotations

from bubblewatch.model.clock import NS
from bubblewatch.model.logs import LogPlace
from bubblewatch.model.protocols import LogSource, ResumableLog
from bubblewatch.model.server import Epoch
from bubblewatch.runtime.memory import Memory

CATCH_UP_S = 3600.0
"""What was not read for longer is not read line by line any more, in seconds: the start and the newest lines are, as of
a log that is seen for the first time. Eight ranks write 200,000 lines an hour, ten seconds of reading."""


class LogPlaces:
    """Knows every log by name (a unit, a path) and where its reading stands. One thread calls it."""

    def __init__(self, memory: Memory, now_ns: int) -> None:
        """`now_ns` is wall time."""
        self._left = {
            one.log_name: one.place
            for one in memory.servers.values()
            if one.place is not None and now_ns - one.seen_ns < CATCH_UP_S * NS
        }
        self._open: dict[Epoch, tuple[str, LogSource]] = {}

    def before(self, log_name: str) -> LogPlace | None:
        """Where an earlier reading of this log stopped; None = read it as one that was never seen."""
        return self._left.get(log_name)

    def opened(self, epoch: Epoch, log_name: str, log: LogSource) -> LogSource:
        """Take note that this is the log of the server with this first epoch; gives `log` back."""
        self._open[epoch] = (log_name, log)
        return log

    def now(self, epoch: Epoch) -> tuple[str, LogPlace | None]:
        """Name of the log that was opened under this epoch and how far it was read; ("", None) when there is none."""
        name, log = self._open.get(epoch, ("", None))
        place = log.place() if isinstance(log, ResumableLog) else None
        if place is not None:
            self._left[name] = place
        return name, place

    def closed(self, epoch: Epoch) -> None:
        """Nobody reads that log any more; where its reading stands is kept."""
        self.now(epoch)
        self._open.pop(epoch, None)
