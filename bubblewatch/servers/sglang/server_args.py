"""The line in which SGLang prints its settings, in both of its forms, whole or cut."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.logs import Event, SettingsSeen
from bubblewatch.model.redact import is_secret_name, redact_text
from bubblewatch.model.server import Origin, Rank, Setting, Settings, SettingValue
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
_TEXT_LIMIT = 500
"""Characters of a text value that are kept: longer ones are chat templates and model configurations."""

# pp_size=8, …   and   'pp_size': 8, …   when the whole cannot be parsed (cut by journald, objects with no literal)
_SCALAR = r"(?P<value>None|True|False|-?\d{1,15}(?:\.\d{1,12})?|'[^'\\]{0,500}')"
_REPR_FIELD = re.compile(rf"(?<=[(\s])(?P<name>[a-z]\w{{0,63}})={_SCALAR}(?=[,)])")
_DICT_FIELD = re.compile(rf"(?<=[{{\s])'(?P<name>[a-z]\w{{0,63}})': {_SCALAR}(?=[,}}])")


def settings_line(record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """The settings that the line prints; () for any other line. Secrets are dropped, nested values become JSON.

    The resolved graph configuration also appears under the names of its options (`cuda_graph_backend_decode`), because
    it is what those options came to.
    """
    if not record.message.startswith(_MARK):
        return ()
    body = record.message[len(_MARK) :]
    if body.startswith(_REPR):
        fields = _parsed(body) or _by_field(_REPR_FIELD, body)
    elif body.startswith("{"):
        fields = _parsed(body) or _by_field(_DICT_FIELD, body)
    else:
        return ()
    found = {name: _setting(name, value) for name, value in fields.items() if not is_secret_name(name)}
    found |= _resolved_graphs(fields.get("cuda_graph_config"))
    return (SettingsSeen(record.line, rank, settings=Settings(MappingProxyType(found))),) if found else ()


def _parsed(body: str) -> dict[str, object]:
    """All fields; {} when the text is not the literal that it should be."""
    try:
        tree = ast.parse(body, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    fields: dict[str, object] = {}
    try:
        for name, node in _pairs(tree):
            fields[name] = _literal(node)
    except RecursionError:
        return {}
    return fields


def _pairs(tree: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(tree, ast.Call):
        return [(keyword.arg, keyword.value) for keyword in tree.keywords if keyword.arg is not None]
    if isinstance(tree, ast.Dict):
        keyed = zip(tree.keys, tree.values, strict=True)
        return [
            (key.value, value) for key, value in keyed if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
    return []


def _literal(node: ast.expr) -> object:
    """The value that the expression spells; a nested object becomes the mapping of its fields."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_literal(element) for element in node.elts]
    if isinstance(node, ast.Dict | ast.Call):
        return {name: _literal(value) for name, value in _pairs(node)}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(node.operand)
        return -inner if isinstance(inner, int | float) else None
    return ast.unparse(node)[:_TEXT_LIMIT]


def _by_field(pattern: re.Pattern[str], body: str) -> dict[str, object]:
    """The plain fields, one by one; a name that comes twice with two values is ambiguous and left out."""
    fields: dict[str, object] = {}
    torn: set[str] = set()
    for found in pattern.finditer(body):
        value = ast.literal_eval(found["value"])
        if found["name"] in fields and fields[found["name"]] != value:
            torn.add(found["name"])
        fields[found["name"]] = value
    return {name: value for name, value in fields.items() if name not in torn}


def _setting(name: str, value: object) -> Setting:
    plain = _plain(value)
    return Setting(name, plain, Origin.LOG, f"server_args {name}={plain!r}")


def _plain(value: object) -> SettingValue:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redact_text(value)[:_TEXT_LIMIT]
    if isinstance(value, list) and all(isinstance(item, int | str) for item in value):
        return redact_text(" ".join(map(str, value)))[:_TEXT_LIMIT]
    return redact_text(json.dumps(value, default=str))[:_TEXT_LIMIT]


def _resolved_graphs(config: object) -> dict[str, Setting]:
    """The decode phase of a resolved `cuda_graph_config` (0.5.14+) as the settings that it stands for."""
    phase = config.get("decode") if isinstance(config, Mapping) else None
    if not isinstance(phase, Mapping):
        return {}
    names = {"backend": "cuda_graph_backend_decode", "max_bs": "cuda_graph_max_bs_decode", "bs": "cuda_graph_bs_decode"}
    return {
        name: Setting(
            name, _plain(phase[key]), Origin.LOG, f"server_args cuda_graph_config.decode.{key}={phase[key]!r}"[:200]
        )
        for key, name in names.items()
        if phase.get(key) is not None
    }
