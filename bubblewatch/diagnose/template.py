"""Texts with figures in them: `S {pipeline.stages_busy:.1f} of {parallel.pp}`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bubblewatch.model.errors import RuleError
from bubblewatch.model.signals import SignalValue

_PLACE = re.compile(r"\{(?P<name>[a-z_][a-z0-9_]*(?:\.[a-z_][a-z0-9_]*)*)(?::(?P<form>[^{}]*))?\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A text whose `{name}` and `{name:format}` stand for values; the format is Python's."""

    text: str
    names: tuple[str, ...]

    def render(self, values: Mapping[str, SignalValue]) -> str | None:
        """The text with its values; None when one of them is missing.

        Raises: RuleError when a value does not suit its format.
        """
        if any(values.get(name) is None for name in self.names):
            return None
        try:
            return _PLACE.sub(lambda place: format(values[place["name"]], place["form"] or ""), self.text)
        except ValueError as error:
            raise RuleError(f"the text '{self.text}' has a format that does not suit its value: {error}") from error


def read_template(text: str) -> Template:
    """The template of `text`. Raises: RuleError when a brace belongs to no `{name}`."""
    rest = _PLACE.sub("", text)
    if "{" in rest or "}" in rest:
        raise RuleError(f"a brace in '{text}' belongs to no {{name}} or {{name:format}}")
    return Template(text, tuple(dict.fromkeys(place["name"] for place in _PLACE.finditer(text))))
