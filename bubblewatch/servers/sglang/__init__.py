"""SGLang, 0.4.3 to 0.5.23: how it is launched, what its lines say, what its settings mean."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bubblewatch.model.logs import Event, LogLine, PoolSized
from bubblewatch.model.server import Launch, Rank, Settings
from bubblewatch.servers.base import Facts
from bubblewatch.servers.logprefix import Record, records
from bubblewatch.servers.patterns import first_meaning
from bubblewatch.servers.program import find_program
from bubblewatch.servers.sglang.dialect import bounds_of
from bubblewatch.servers.sglang.facts import facts_of
from bubblewatch.servers.sglang.launch import ENTRY, settings_of
from bubblewatch.servers.sglang.lines import PREFIX, QUOTES_USERS, rank_of
from bubblewatch.servers.sglang.server_args import settings_line
from bubblewatch.servers.sglang.table import TABLE
from bubblewatch.servers.versions import Bounds

_TITLE = re.compile(r"sglang::(?P<role>\w+?)(?P<tags>(?:_(?:DP|PP|ATTN_CP|MOE_DP|TP|EP)\d{1,5})*)(?::\d{1,10})?")
"""`sglang::scheduler_PP3_TP1` (0.5.6+), `sglang::scheduler_TP1_PP3` (before), `sglang::detokenizer` (setproctitle)."""


class SGLang:
    """See `ServerKind`."""

    kind = "sglang"
    label = "SGLang"

    def matches(self, launch: Launch, title: str) -> bool:
        return find_program(launch.argv, ENTRY) is not None or _TITLE.fullmatch(title) is not None

    def settings(self, launch: Launch, version: str | None) -> Settings:
        return settings_of(launch, version)

    def parse(self, line: LogLine) -> tuple[Event, ...]:
        parts = records(line, PREFIX)
        if any(part.message.startswith(QUOTES_USERS) for part in parts):
            return ()
        return tuple(event for part in parts for event in _meaning(part))

    def tells(self, line: LogLine) -> bool:
        for part in records(line, PREFIX):
            if part.message.startswith(QUOTES_USERS):
                return "date" in part.own
            if settings_line(part, None):
                return True
            pattern, _ = first_meaning(TABLE, part, None)
            if pattern is not None and pattern.telling:
                return True
        return False

    def version_bounds(self, lines: Iterable[LogLine]) -> Bounds:
        return bounds_of(
            part for line in lines for part in records(line, PREFIX) if not part.message.startswith(QUOTES_USERS)
        )

    def facts(
        self, settings: Settings, version: str | None, *, bounds: Bounds | None = None, pool: PoolSized | None = None
    ) -> Facts:
        return facts_of(settings, version, bounds, pool)

    def gpu_rank(self, title: str) -> Rank | None:
        found = _TITLE.fullmatch(title)
        if found is None or found["role"] != "scheduler":
            return None
        return rank_of(found["tags"].replace("_", " ")) or Rank()


def _meaning(part: Record) -> tuple[Event, ...]:
    rank = rank_of(part.own.get("tags", ""))
    return settings_line(part, rank) or first_meaning(TABLE, part, rank)[1]
