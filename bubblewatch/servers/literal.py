"""Settings that a Python server prints as it holds them, `Args(a=1, b=[1, 2])` or `{'a': 1}`: read, never run."""

from __future__ import annotations

import ast
import json
import re
import warnings

from bubblewatch.model.redact import redact_text
from bubblewatch.model.server import SettingValue

TEXT_LIMIT = 500
"""Characters of a text value that are kept: longer ones are chat templates and model configurations."""

SCALAR = r"(?P<value>None|True|False|-?\d{1,15}(?:\.\d{1,12})?|'[^'\\]{0,500}')"
"""Pattern of a plain value, for texts that cannot be parsed as a whole."""

_REPR_FIELD = re.compile(rf"(?<=[(\s])(?P<name>[a-z]\w{{0,63}})={SCALAR}(?=[,)])")  # pp_size=8,
_DICT_FIELD = re.compile(rf"(?<=[{{\s])'(?P<name>[a-z]\w{{0,63}})': {SCALAR}(?=[,}}])")  # 'pp_size': 8,


def settings_printed(text: str) -> dict[str, object]:
    """All fields of what `text` prints; of a text that is cut or holds values with no literal form, the plain ones."""
    return printed_fields(text) or _plain_fields(_DICT_FIELD if text.startswith("{") else _REPR_FIELD, text)


def _plain_fields(pattern: re.Pattern[str], text: str) -> dict[str, object]:
    """The plain fields, one by one; a name that comes twice with two values (a nested one) is left out."""
    fields: dict[str, object] = {}
    torn: set[str] = set()
    for found in pattern.finditer(text):
        name, value = found["name"], scalar(found["value"])
        if name in fields and fields[name] != value:
            torn.add(name)
        fields[name] = value
    return {name: value for name, value in fields.items() if name not in torn}


def printed_fields(text: str) -> dict[str, object]:
    """All fields of the object that `text` prints; {} when it is no such thing, or was cut.

    Nested objects become mappings of their fields, what has no literal form (`<object at …>`) makes the whole {}.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a stray backslash in the text is not our mistake
            tree = ast.parse(text, mode="eval").body
        return {name: _literal(node) for name, node in _pairs(tree)}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def scalar(text: str) -> SettingValue:
    """A plain value as printed; other text as it stands, redacted."""
    try:
        return plain(ast.literal_eval(text))
    except (SyntaxError, ValueError):
        return redact_text(text)[:TEXT_LIMIT]


def plain(value: object) -> SettingValue:
    """`value` as a setting: a list as the words that the server would read, nested fields as JSON, secrets redacted."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return redact_text(value)[:TEXT_LIMIT]
    if isinstance(value, list) and all(isinstance(item, int | str) for item in value):
        return redact_text(" ".join(map(str, value)))[:TEXT_LIMIT]
    return redact_text(json.dumps(value, default=str))[:TEXT_LIMIT]


def _pairs(tree: ast.expr) -> list[tuple[str, ast.expr]]:
    if isinstance(tree, ast.Call):
        return [(keyword.arg, keyword.value) for keyword in tree.keywords if keyword.arg is not None]
    if isinstance(tree, ast.Dict):
        both = zip(tree.keys, tree.values, strict=True)
        return [
            (key.value, value) for key, value in both if isinstance(key, ast.Constant) and isinstance(key.value, str)
        ]
    return []


def _literal(node: ast.expr) -> object:
    """The value that the expression spells."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return [_literal(element) for element in node.elts]
    if isinstance(node, ast.Dict) or (isinstance(node, ast.Call) and node.keywords):
        return {name: _literal(value) for name, value in _pairs(node)}
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _literal(node.operand)
        return -inner if isinstance(inner, int | float) else None
    return ast.unparse(node)[:TEXT_LIMIT]
