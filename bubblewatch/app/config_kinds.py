"""Values as people write them in a configuration: durations, sizes, lists; each kind also as JSON Schema."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_SECONDS: Mapping[str, float] = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_BYTES: Mapping[str, int] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")
_WORDS_OF_BOOL: Mapping[str, bool] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value. `read` takes what TOML gives and raises ValueError (a sentence without a subject).

    `from_text` makes of an environment variable what TOML would give; `show` is the way back into TOML.
    """

    expects: str
    read: Callable[[object], object]
    schema: Mapping[str, object]
    from_text: Callable[[str], object] = str
    show: Callable[[object], str] = lambda value: f'"{value}"'


def duration_s(value: object) -> float:
    """Seconds of `90s`, `1h30m`, `250ms`. Raises ValueError for anything else, a bare number too: it has no unit."""
    parts = _PART.findall(value) if isinstance(value, str) else []
    if not parts or _PART.sub("", str(value)).strip():
        raise ValueError("a bare number has no unit" if isinstance(value, int | float) else "is no duration")
    unknown = next((unit for _, unit in parts if unit not in _SECONDS), None)
    if unknown is not None:
        raise ValueError(f"{unknown} is no unit of time (ms, s, m, h, d)")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))


def size_bytes(value: object) -> int:
    """Bytes of `64MiB` or `1GB`. Raises ValueError for anything else, a bare number too: it has no unit."""
    match = _PART.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("a bare number has no unit" if isinstance(value, int | float) else "is no size")
    if match[2] not in _BYTES:
        raise ValueError(f"{match[2]} is no unit of size ({', '.join(_BYTES)})")
    return round(float(match[1]) * _BYTES[match[2]])


def show_duration(value: object) -> str:
    """The duration as it would be written: `90s`, `500ms`."""
    seconds = float(str(value))
    number, unit = (seconds, "s") if seconds >= 1 or seconds == 0 else (seconds * 1000, "ms")
    plain = f"{number:.6f}".rstrip("0").rstrip(".")
    return f'"{plain}{unit}"'


def show_size(value: object) -> str:
    """The size as it would be written, in the largest binary unit that leaves a whole number."""
    size = int(str(value))
    unit = next((u for u in ("GiB", "MiB", "KiB") if size and size % _BYTES[u] == 0), "B")
    return f'"{size // _BYTES[unit]}{unit}"'


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("is no text")
    return value.strip()


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")  # noqa: TRY004  one error for every kind of wrong value
    return value


def _flag_of_text(text: str) -> object:
    return _WORDS_OF_BOOL.get(text.strip().lower(), text)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise ValueError("is no list of texts")
    return tuple(item.strip() for item in value)


def _list_of_text(text: str) -> object:
    return [part.strip() for part in text.split(",") if part.strip()]


def _show_texts(value: object) -> str:
    items = value if isinstance(value, tuple) else ()
    return f"[{', '.join(_quoted(item) for item in items)}]"


def _quoted(value: object) -> str:
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def between(low: float, high: float, what: str) -> Kind:
    """A number from `low` to `high`; `what` names its unit."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError("is no number")
        if not low <= value <= high:
            raise ValueError(f"is not from {low:g} to {high:g}")
        return float(value)

    def number(text: str) -> object:
        try:
            return float(text)
        except ValueError:
            return text

    schema = {"type": "number", "minimum": low, "maximum": high}
    return Kind(f"a number from {low:g} to {high:g} ({what})", read, schema, number, lambda value: f"{value:g}")


def within(low_s: float, high_s: float) -> Kind:
    """A duration of that many seconds, both ends included."""

    def read(value: object) -> float:
        seconds = duration_s(value)
        if not low_s <= seconds <= high_s:
            raise ValueError(f"is not from {show_duration(low_s)[1:-1]} to {show_duration(high_s)[1:-1]}")
        return seconds

    pattern = r"^\s*(\d+(\.\d+)?\s*(ms|s|m|h|d)\s*)+$"
    return Kind("a duration such as 30s or 5m", read, {"type": "string", "pattern": pattern}, str, show_duration)


def sized(low: int, high: int) -> Kind:
    """A size of that many bytes, both ends included."""

    def read(value: object) -> int:
        size = size_bytes(value)
        if not low <= size <= high:
            raise ValueError(f"is not from {show_size(low)[1:-1]} to {show_size(high)[1:-1]}")
        return size

    pattern = r"^\s*\d+(\.\d+)?\s*(B|kB|MB|GB|KiB|MiB|GiB)\s*$"
    return Kind("a size such as 64MiB", read, {"type": "string", "pattern": pattern}, str, show_size)


def one_of(*words: str) -> Kind:
    """One of these words."""

    def read(value: object) -> str:
        if value not in words:
            raise ValueError("is none of them")
        return str(value)

    return Kind(f"one of {', '.join(words)}", read, {"enum": list(words)})


TEXT = Kind("a text", _text, {"type": "string", "minLength": 1}, show=_quoted)
FLAG = Kind("true or false", _flag, {"type": "boolean"}, _flag_of_text, lambda value: "true" if value else "false")
TEXTS = Kind(
    'a list of texts such as ["a", "b"]',
    _texts,
    {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string", "minLength": 1}}]},
    _list_of_text,
    _show_texts,
)
