"""The configuration shown: as TOML with the origin of each value, as JSON, and its schema."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Mapping
from typing import Any

from bubblewatch.app.config import KEYS, Config, Loaded

WIDTH = 100
"""Characters of a line of comment."""


def as_toml(loaded: Loaded) -> str:
    """A file that sets every value as it holds now, each with its meaning and origin; unset ones are comments."""
    lines: list[str] = []
    table = ""
    for name, key in KEYS.items():
        own_table, _, word = key.name.partition(".")
        if own_table != table:
            table = own_table
            lines += ["", f"[{table}]"] if lines else [f"[{table}]"]
        lines += textwrap.wrap(key.meaning, WIDTH, initial_indent="# ", subsequent_indent="# ")
        if not key.is_live:
            lines.append("# (after a restart)")
        value = getattr(loaded.config, name)
        if value is None:
            lines.append(f"# {word} is not set")
        else:
            lines.append(f"{word} = {key.kind.show(value)}  # {loaded.origin(name)}")
    return "\n".join(lines)


def as_document(loaded: Loaded) -> dict[str, Any]:
    """Dotted key -> value and origin. Durations are seconds, sizes bytes."""
    return {
        "file": loaded.file,
        "settings": {
            key.name: {"value": getattr(loaded.config, name), "origin": loaded.origin(name)}
            for name, key in KEYS.items()
        },
    }


def schema() -> dict[str, Any]:
    """JSON Schema of the file, with meanings, defaults and the variable of each key."""
    defaults = {f.name: f.default for f in dataclasses.fields(Config)}
    tables: dict[str, dict[str, Any]] = {}
    for name, key in KEYS.items():
        table, _, word = key.name.partition(".")
        default = defaults[name]
        tables.setdefault(table, {})[word] = {
            **key.kind.schema,
            "description": key.meaning,
            **({} if default is None else {"default": _plain(key.kind.show(default), default)}),
            "x-environment": key.variable,
            "x-reload": key.is_live,
        }
    properties: Mapping[str, Any] = {
        table: {"type": "object", "additionalProperties": False, "properties": keys} for table, keys in tables.items()
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "bubblewatch configuration",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
    }


def _plain(shown: str, default: object) -> object:
    """The default as it is written in the file: durations and sizes as text."""
    if isinstance(default, bool):
        return default
    if isinstance(default, tuple):
        return list(default)
    return shown.strip('"') if shown.startswith('"') else default
