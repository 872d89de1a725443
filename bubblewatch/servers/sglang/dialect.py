"""What the wording of SGLang's lines tells about a version that was never said."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bubblewatch.model.logs import SettingsSeen
from bubblewatch.servers.logprefix import Record
from bubblewatch.servers.sglang.options import bounds_of_fields
from bubblewatch.servers.sglang.server_args import settings_line
from bubblewatch.servers.versions import Bounds, Version

_MESSAGES: tuple[tuple[str, str, str], ...] = (
    (r"Decode batch\. ", "", "0.5.4"),
    (r"Decode batch \[\d+\], ", "0.5.4", ""),
    (r"Decode batch, ", "0.5.5", ""),
    (r"Decode batch.*(?:cuda|cpu|npu|musa) graph: ", "0.4.6.post4", ""),
    (r"Prefill batch.*cache hit rate: ", "", "0.4.4"),
    (r"Prefill batch.*(?:cuda|cpu|npu|musa) graph: ", "0.5.9", ""),
    (r"Prefill batch.*#pending-token: ", "0.5.11", ""),
    (r"Capture cuda graph begin", "", "0.5.14"),
    (r"Capture (?:target|draft) \w+ CUDA graph begin", "0.5.14", ""),
    (r"server_args=ServerArgs\(", "", "0.5.19"),
    (r"server_args=\{", "0.5.19", ""),
    (r"Watchdog timeout \(self\.", "", "0.5.7"),
    (r"(?:Scheduler|DetokenizerManager|TokenizerManager) watchdog timeout \(self\.", "0.5.7", ""),
    (r"KV cache pool is full\. Retract requests\..*#new_tokens_gained", "0.5.7", ""),
)
"""Pattern at the start of a message, first version that writes so, first version that does so no more ("" = open)."""

_TAGS: tuple[tuple[str, str, str], ...] = (
    (r"(?: DP\d+)? TP\d+(?: EP\d+)? PP\d+", "0.4.6.post2", "0.5.6"),
    (r"(?: DP\d+)? PP\d+(?: \w+\d+)* TP\d+", "0.5.6", ""),
    (r" PP\d+", "0.4.6.post2", ""),
)
"""The same for the rank tags of the prefix: the stage moved before the tensor rank in 0.5.6."""


def _bounds(low: str, below: str) -> Bounds:
    return Bounds(Version.parse(low), Version.parse(below))


_MESSAGE_BOUNDS = tuple((re.compile(pattern), _bounds(low, below)) for pattern, low, below in _MESSAGES)
_TAG_BOUNDS = tuple((re.compile(pattern), _bounds(low, below)) for pattern, low, below in _TAGS)
_LOOK = 1024
"""Characters of a message that are looked at; the telling words of decode and prefill lines stand well before."""


def bounds_of(records: Iterable[Record]) -> Bounds:
    """The versions that could have written all of these; open on both sides when they contradict each other."""
    bounds = Bounds()
    for record in records:
        message, tags = record.message[:_LOOK], record.own.get("tags", "")
        for pattern, each in _MESSAGE_BOUNDS:
            if pattern.match(message):
                bounds = bounds.narrowed(each)
        for pattern, each in _TAG_BOUNDS:
            if tags and pattern.fullmatch(tags):
                bounds = bounds.narrowed(each)
        for event in settings_line(record, None):
            if isinstance(event, SettingsSeen):
                bounds = bounds.narrowed(bounds_of_fields(frozenset(event.settings.values)))
    return Bounds() if bounds.is_empty else bounds
