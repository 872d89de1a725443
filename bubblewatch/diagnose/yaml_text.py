"""YAML with the place of every value, so that an error in a rule file can be pointed at; the only user of yaml here.

A `Section` is one mapping. Its getters never raise: what is wrong is written to the file's list of problems, with its
place and a caret, and a harmless value is returned, so that one reading finds everything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

import yaml

from bubblewatch.diagnose.condition import Fault, caret, nearest
from bubblewatch.model.errors import Place

Scalar = str | int | float | bool | None
_E = TypeVar("_E", bound=Enum)

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h)")
_UNIT_S: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in a rule file. `quote` is the line with a caret, empty when there is none."""

    place: Place
    message: str
    quote: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" + (f"\n{self.quote}" if self.quote else "")


@dataclass(slots=True)
class YamlFile:
    """One file's text and what was found wrong in it."""

    path: str
    text: str
    problems: list[Problem] = field(default_factory=list)

    def complain(self, line: int, column: int, message: str) -> None:
        """Write down a problem at a 1-based place of the file."""
        self.problems.append(
            Problem(Place(self.path, line, column), message, caret(self.text, Fault(line, column, message)))
        )


@dataclass(frozen=True, slots=True)
class Text:
    """A text of the file that knows where it stands."""

    file: YamlFile
    node: yaml.ScalarNode

    def __str__(self) -> str:
        return str(self.node.value)

    @property
    def is_folded(self) -> bool:
        """Line breaks were lost, so that places inside it cannot be found."""
        return self.node.style == ">"

    def complain(self, message: str, line: int = 1, column: int = 1) -> None:
        """Write down a problem at a 1-based line and column of this text."""
        start = self.node.start_mark
        if self.node.style == "|":
            at = start.line + 1 + line
            lines = self.file.text.splitlines()
            shown = str(self.node.value).splitlines()
            wanted = shown[line - 1] if line <= len(shown) else ""
            found = lines[at - 1].find(wanted) if at <= len(lines) else 0
            self.file.complain(at, max(found, 0) + column, message)
        elif line == 1:
            self.file.complain(start.line + 1, start.column + column + (self.node.style in ("'", '"')), message)
        else:
            self.file.complain(start.line + 1, start.column + 1, message)


class Section:
    """One mapping of the file. Every key must be asked for before `close`, which reports those that were not."""

    def __init__(self, file: YamlFile, node: yaml.MappingNode) -> None:
        self.file = file
        self._node = node
        self._asked: set[str] = set()
        self._nodes: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if not name or name in self._nodes:
                _complain_at(file, key, f"'{name}' stands here twice" if name else "a key must be a plain word")
            self._nodes.setdefault(name, value)

    @property
    def line(self) -> int:
        """1-based line at which this section starts."""
        return int(self._node.start_mark.line) + 1

    def complain(self, message: str, key: str | None = None) -> None:
        """Write down a problem at the value of `key`, or at the start of this section."""
        _complain_at(self.file, self._nodes.get(key, self._node) if key else self._node, message)

    def __contains__(self, key: str) -> bool:
        self._asked.add(key)
        return key in self._nodes

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys in the order of the file; all of them count as asked for."""
        self._asked.update(self._nodes)
        return tuple(self._nodes)

    def text(self, key: str, *, required: bool = False) -> Text | None:
        """The text at `key`; None when it is absent (a problem when `required`) or no text."""
        node = self._get(key, required=required)
        if node is None:
            return None
        if not isinstance(node, yaml.ScalarNode) or node.tag == f"{_TAG}null":
            self.complain(f"'{key}' must be a text", key)
            return None
        return Text(self.file, node)

    def string(self, key: str, default: str = "", *, required: bool = False) -> str:
        text = self.text(key, required=required)
        return default if text is None else str(text).strip()

    def choice(self, key: str, options: Mapping[str, _E], default: _E, *, required: bool = False) -> _E:
        """The option whose name stands at `key`."""
        text = self.text(key, required=required)
        if text is None:
            return default
        if str(text) not in options:
            text.complain(f"'{text}' is none of {', '.join(options)}{nearest(str(text), options)}")
        return options.get(str(text), default)

    def flag(self, key: str) -> bool:
        value = self.scalar(key)
        if value is not None and not isinstance(value, bool):
            self.complain(f"'{key}' must be true or false", key)
        return value is True

    def number(self, key: str, default: float) -> float:
        value = self.scalar(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
            self.complain(f"'{key}' must be a number, 0 or more", key)
            return default
        return float(value)

    def duration_s(self, key: str, default: float) -> float:
        """Seconds of a duration such as `500ms`, `30s`, `2m`."""
        text = self.text(key)
        if text is None:
            return default
        match = _DURATION.fullmatch(str(text).strip())
        if match is None:
            text.complain(f"'{text}' is no duration such as 500ms, 30s or 2m")
            return default
        return float(match["number"]) * _UNIT_S[match["unit"]]

    def scalar(self, key: str) -> Scalar:
        """The plain value at `key`: text, number or switch; None when absent."""
        node = self._get(key)
        return None if node is None else self._scalar(key, node)

    def texts(self, key: str) -> Sequence[Text]:
        """The list of texts at `key`; a single text is a list of one, an absent key an empty one."""
        node = self._get(key)
        if node is None:
            return ()
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        scalars = [item for item in nodes if isinstance(item, yaml.ScalarNode)]
        if len(scalars) != len(nodes):
            self.complain(f"'{key}' must be a list of texts", key)
            return ()
        return [Text(self.file, item) for item in scalars]

    def section(self, key: str) -> Section | None:
        node = self._get(key)
        if node is None:
            return None
        if not isinstance(node, yaml.MappingNode):
            self.complain(f"'{key}' must hold names with values", key)
            return None
        return Section(self.file, node)

    def sections(self, key: str) -> Sequence[Section]:
        """The list of mappings at `key`; empty when absent."""
        node = self._get(key)
        if node is None:
            return ()
        if not isinstance(node, yaml.SequenceNode) or any(not isinstance(n, yaml.MappingNode) for n in node.value):
            self.complain(f"'{key}' must be a list of entries", key)
            return ()
        return [Section(self.file, item) for item in node.value]

    def close(self) -> None:
        """Report every key that nobody asked for."""
        for key, _ in self._node.value:
            if isinstance(key, yaml.ScalarNode) and key.value not in self._asked:
                _complain_at(self.file, key, f"unknown key '{key.value}'{nearest(str(key.value), self._asked)}")

    def _get(self, key: str, *, required: bool = False) -> yaml.Node | None:
        self._asked.add(key)
        if key not in self._nodes and required:
            self.complain(f"'{key}' is missing")
        return self._nodes.get(key)

    def _scalar(self, key: str, node: yaml.Node) -> Scalar:
        if not isinstance(node, yaml.ScalarNode):
            self.complain(f"'{key}' must be a plain value", key)
            return None
        value: Scalar = yaml.SafeLoader("").construct_object(node)
        if value is None or isinstance(value, str | int | float | bool):
            return value
        return str(node.value)


def read_yaml(path: str, text: str) -> tuple[YamlFile, Section | None]:
    """The file and its top mapping; None when the text is no YAML or no mapping, with the problem in the file."""
    file = YamlFile(path, text)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        file.complain(mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, f"no YAML: {error.problem}")
        return file, None
    except (yaml.YAMLError, ValueError) as error:
        file.problems.append(Problem(Place(path), f"no YAML: {' '.join(str(error).split())}"))
        return file, None
    if not isinstance(node, yaml.MappingNode):
        file.complain(1, 1, "a rule file must hold one rule: names with values")
        return file, None
    return file, Section(file, node)


def _complain_at(file: YamlFile, node: yaml.Node, message: str) -> None:
    file.complain(node.start_mark.line + 1, node.start_mark.column + 1, message)
