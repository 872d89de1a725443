"""As much of JSON Schema as our own schemas use: enough to see that a document fits one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def complaints(value: Any, schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """What in `value` does not fit `schema`, each with the way to it."""
    if "oneOf" in schema:
        if sum(not list(complaints(value, one, at)) for one in schema["oneOf"]) != 1:
            yield f"{at}: fits none or several of oneOf"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is none of the words"
    kinds = schema.get("type", [])
    wanted = [kinds] if isinstance(kinds, str) else kinds
    if wanted and not any(_is(value, kind) for kind in wanted):
        yield f"{at}: {value!r} is no {' or '.join(wanted)}"
        return
    if isinstance(value, str) and "pattern" in schema and not re.search(schema["pattern"], value):
        yield f"{at}: {value!r} does not look like {schema['pattern']}"
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from complaints(item, schema["items"], f"{at}[{index}]")
    if isinstance(value, dict):
        yield from _members(value, schema, at)


def _members(value: Mapping[str, Any], schema: Mapping[str, Any], at: str) -> Iterator[str]:
    properties, other = schema.get("properties", {}), schema.get("additionalProperties", True)
    yield from (f"{at}: {key} is missing" for key in schema.get("required", ()) if key not in value)
    for key, item in value.items():
        if key in properties:
            yield from complaints(item, properties[key], f"{at}.{key}")
        elif other is False:
            yield f"{at}: unknown key {key}"
        elif isinstance(other, dict):
            yield from complaints(item, other, f"{at}.{key}")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES[kind])
