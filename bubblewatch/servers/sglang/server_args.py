"""The line in which SGLang prints its settings, in both of its forms, whole or cut."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.logs import Event, SettingsSeen
from bubblewatch.model.redact import is_secret_name
from bubblewatch.model.server import Origin, Rank, Setting, Settings
from bubblewatch.servers.literal import plain, settings_printed
from bubblewatch.servers.logprefix import Record

REPR_EXAMPLE = (
    "[2026-02-25 03:20:11] server_args=ServerArgs(model_path='Qwen/Qwen3-8B', tp_size=1, pp_size=8, "
    "pp_async_batch_depth=0, disable_cuda_graph=True, api_key=None, cuda_graph_bs=[1, 2, 4])"
)
"""Shortened; SGLang up to 0.5.18 (real ones hold some 300 fields)."""

DICT_EXAMPLE = (
    "[2026-09-20 11:03:52] server_args={'model_path': 'Qwen/Qwen3-0.6B', 'pp_size': 1, 'disable_cuda_graph': False, "
    "'cuda_graph_config': {'decode': {'backend': 'full', 'max_bs': 32, 'bs': [1, 2, 4, 8]}}}"
)
"""Shortened; SGLang 0.5.19 and newer."""

_MARK = "server_args="
_REPR = "ServerArgs("


def settings_line(record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The settings that the line prints; () for any other line. Secrets are dropped, nested values become JSON.

    The resolved graph configuration also appears under the names of its options (`cuda_graph_backend_decode`), because
    it is what those options came to.
    """
    if not record.message.startswith(_MARK):
        return ()
    body = record.message[len(_MARK) :]
    if not body.startswith((_REPR, "{")):
        return ()
    fields = settings_printed(body)
    found = {name: _setting(name, value) for name, value in fields.items() if not is_secret_name(name)}
    found |= _resolved_graphs(fields.get("cuda_graph_config"))
    return (SettingsSeen(record.line, rank, settings=Settings(MappingProxyType(found))),) if found else ()


def _setting(name: str, value: object) -> Setting:
    shown = plain(value)
    return Setting(name, shown, Origin.LOG, f"server_args {name}={shown!r}"[:200])


def _resolved_graphs(config: object) -> dict[str, Setting]:
    """The decode phase of a resolved `cuda_graph_config` (0.5.14+) as the settings that it stands for."""
    phase = config.get("decode") if isinstance(config, Mapping) else None
    if not isinstance(phase, Mapping):
        return {}
    names = {"backend": "cuda_graph_backend_decode", "max_bs": "cuda_graph_max_bs_decode", "bs": "cuda_graph_bs_decode"}
    return {
        name: Setting(
            name, plain(phase[key]), Origin.LOG, f"server_args cuda_graph_config.decode.{key}={phase[key]!r}"[:200]
        )
        for key, name in names.items()
        if phase.get(key) is not None
    }
