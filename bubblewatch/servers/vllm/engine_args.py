"""The lines in which vLLM prints settings: what was changed by hand, and what the engine resolved."""

from __future__ import annotations

import re
from types import MappingProxyType

from bubblewatch.model.logs import Event, SettingsSeen, VersionSeen
from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Origin, Rank, Setting, Settings, SettingValue
from bubblewatch.servers.literal import SCALAR, plain, scalar, settings_printed
from bubblewatch.servers.logprefix import Record
from bubblewatch.servers.vllm.options import SHARED_NAMES

_ENGINE_FIELD = re.compile(rf"(?:^|\s)(?P<name>[a-z]\w{{0,63}})=(?:{SCALAR}|(?P<text>[\w./-]{{1,200}}))(?=,|$)")
# "cudagraph_mode":[2,1]   'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>   "cudagraph_mode":"PIECEWISE"
_MODE = re.compile(
    r"""['"]?cudagraph_mode['"]?\s{0,2}[:=]\s{0,2}(?:<CUDAGraphMode\.)?['"]?"""
    r"(?P<mode>NONE|PIECEWISE|FULL_AND_PIECEWISE|FULL_DECODE_ONLY|FULL|\d|[\[(]\d, ?\d[\])])"
)
_MODE_NAMES = MappingProxyType(
    {"0": "NONE", "1": "PIECEWISE", "2": "FULL", "2,0": "FULL_DECODE_ONLY", "2,1": "FULL_AND_PIECEWISE"}
)
"""CUDAGraphMode as older dumps print it, by number (vLLM 0.11.0 config/compilation.py)."""

_SIZES = re.compile(r"""['"]cudagraph_capture_sizes['"]:\s?\[(?P<sizes>[\d, ]{1,4000})\]""")
_PLACEHOLDERS = frozenset({"compilation_config", "speculative_config", "kv_transfer_config", "observability_config"})
"""Nested settings of the engine line: their text starts with a bracket and is no plain value."""


def nondefault_line(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """`non-default args: {…}`: what was set by hand; `args: Namespace(…)` (up to 0.8): everything."""
    body = record.message[found.start("body") :]
    values = {name: plain(value) for name, value in settings_printed(body).items() if not is_secret_name(name)}
    return _seen(record, rank, values | _compilation(body), "non-default args")


def engine_line(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """`Initializing a V1 LLM engine (v…) with config: …`: version, and the settings that the engine resolved."""
    version = VersionSeen(record.line, rank, version=found["version"])
    body = record.message[found.start("config") :]
    values: dict[str, SettingValue] = {}
    for field in _ENGINE_FIELD.finditer(body):
        name, text = field["name"], field["value"] or field["text"]
        if not is_secret_name(name) and name not in _PLACEHOLDERS:
            values.setdefault(name, scalar(text))
    if values.get("enforce_eager") is True:
        return (version, *_seen(record, rank, values, "engine line"))
    return (version, *_seen(record, rank, values | _compilation(body), "engine line"))


def _compilation(body: str) -> dict[str, SettingValue]:
    """Graph mode and captured sizes, wherever in the text the compilation configuration stands."""
    values: dict[str, SettingValue] = {}
    mode = _MODE.search(body)
    if mode is not None:
        text = mode["mode"].strip("[]()").replace(" ", "")
        values["cudagraph_mode"] = _MODE_NAMES.get(text, text)
    sizes = _SIZES.search(body)
    if sizes is not None:
        values["cudagraph_capture_sizes"] = " ".join(sizes["sizes"].replace(",", " ").split())
    return values


def _seen(record: Record, rank: Rank | None, values: dict[str, SettingValue], where: str) -> tuple[Event, ...]:
    found = {
        short: Setting(short, value, Origin.LOG, f"{where} {name}={value!r}"[:200])
        for name, value in values.items()
        for short in (SHARED_NAMES.get(name, name),)
    }
    return (SettingsSeen(record.line, rank, settings=Settings(MappingProxyType(found))),) if found else ()
