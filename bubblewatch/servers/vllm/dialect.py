"""What the form of vLLM's lines tells about a version that was never said."""

from __future__ import annotations

import re

from bubblewatch.servers.logprefix import Record
from bubblewatch.servers.versions import Bounds, Version

_FORMS: tuple[tuple[str, str, str], ...] = (
    (r"\(EngineCore_DP\d+ pid=", "0.10.2", "0.19.0"),
    (r"\(EngineCore pid=", "0.19.0", ""),
    (r"\((?:VLLM::)?Worker(?:_\w+)? pid=", "0.10.2", ""),
    (r"\(VllmWorker rank=", "", "0.10.2"),
    (r"\d\d \w+\.py:\d+\] ", "", "0.9.0"),
    (r"Asynchronous scheduling is (?:enabled|disabled)\.", "0.14.0", "0.28.0"),
    (r"Engine \d{3}: Avg prompt throughput", "0.8.0", ""),
)
"""Form, first version that writes so, first version that does so no more ("" = open): vLLM logging_utils/formatter.py,
v1/metrics/loggers.py and the names that its processes give themselves."""

_BOUNDS = tuple((re.compile(form), Bounds(Version.parse(low), Version.parse(below))) for form, low, below in _FORMS)
_LOOK = 200
"""Characters of a message that are looked at."""


def bounds_of(record: Record) -> Bounds:
    """The versions that could have written this record."""
    text = record.before + record.message[:_LOOK]
    bounds = Bounds()
    for form, each in _BOUNDS:
        if form.search(text):
            bounds = bounds.narrowed(each)
    return bounds
