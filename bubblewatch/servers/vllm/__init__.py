"""vLLM, 0.8 to 0.33 and the lines of older ones: how it is launched, what its lines say, what its settings mean."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bubblewatch.model.logs import Event, LogLine, PoolSized, VersionSeen
from bubblewatch.model.server import Launch, Rank, Settings
from bubblewatch.servers.base import Facts
from bubblewatch.servers.logprefix import records
from bubblewatch.servers.patterns import first_meaning
from bubblewatch.servers.program import find_program
from bubblewatch.servers.versions import Bounds, Version
from bubblewatch.servers.vllm.dialect import bounds_of
from bubblewatch.servers.vllm.facts import facts_of
from bubblewatch.servers.vllm.launch import ENTRY, settings_of
from bubblewatch.servers.vllm.lines import PREFIX, QUOTES_USERS, rank_of
from bubblewatch.servers.vllm.table import TABLE

_TITLE = re.compile(
    r"VLLM::(?P<role>Worker|EngineCore|APIServer|DPCoordinator)(?:_(?P<index>\d{1,5}))?(?:_DP(?P<dp>\d{1,5}))?"
    r"(?:_PP(?P<pp>\d{1,5}))?(?:_PCP\d{1,5})?(?:_TP(?P<tp>\d{1,5}))?(?:_DCP\d{1,5})?(?:_EP\d{1,5})?"
)
"""`VLLM::Worker_PP0_TP1`, `VLLM::EngineCore_DP0` (vLLM 0.10.2+, setproctitle)."""


class VLLM:
    """See `ServerKind`."""

    kind = "vllm"
    label = "vLLM"

    def matches(self, launch: Launch, title: str) -> bool:
        if find_program(launch.argv, ENTRY) is not None or _TITLE.fullmatch(title) is not None:
            return True
        images = ENTRY.images
        return launch.image is not None and images is not None and images.fullmatch(launch.image) is not None

    def settings(self, launch: Launch, version: str | None) -> Settings:
        del version  # the options that are read here mean the same in every version
        return settings_of(launch)

    def parse(self, line: LogLine) -> tuple[Event, ...]:
        events: list[Event] = []
        for part in records(line, PREFIX):
            if not part.message.startswith(QUOTES_USERS):
                events += first_meaning(TABLE, part, rank_of(part.before))[1]
        return tuple(events)

    def tells(self, line: LogLine) -> bool:
        for part in records(line, PREFIX):
            if "day" in part.own:
                return True
            pattern, _ = first_meaning(TABLE, part, None)
            if pattern is not None and pattern.telling:
                return True
        return False

    def version_bounds(self, lines: Iterable[LogLine]) -> Bounds:
        """The version itself where a line says it, else what the form of the lines tells."""
        bounds = Bounds()
        for line in lines:
            for part in records(line, PREFIX):
                bounds = bounds.narrowed(bounds_of(part))
            for event in self.parse(line):
                if isinstance(event, VersionSeen) and (said := Version.parse(event.version)) is not None:
                    return Bounds(said, said)
        return Bounds() if bounds.is_empty else bounds

    def facts(
        self, settings: Settings, version: str | None, *, bounds: Bounds | None = None, pool: PoolSized | None = None
    ) -> Facts:
        del pool  # it prints no limit on requests that it computed
        return facts_of(settings, version, bounds)

    def gpu_rank(self, title: str) -> Rank | None:
        found = _TITLE.fullmatch(title)
        if found is None or found["role"] not in ("Worker", "EngineCore"):
            return None
        return Rank(int(found["pp"] or 0), int(found["tp"] or 0), int(found["dp"] or 0))
