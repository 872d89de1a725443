"""YAML and JSON documents as plain nodes that remember their lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import yaml

from bubblewatch.model.errors import Place, UsageError

_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Node:
    """One value: a scalar's text, a mapping's fields or a sequence's elements; of null and of what is absent, none.

    `line` is where its text begins, from 1 on; 0 = not known. `shell` is the text for a reader of shell words: its
    lines are those of the file, also where YAML folds them.
    """

    scalar: str | None = None
    fields: Mapping[str, Node] = field(default_factory=lambda: MappingProxyType({}))
    elements: tuple[Node, ...] = ()
    line: int = 0
    shell: str = ""

    def get(self, *path: str) -> Node:
        """The node at this path of keys; an empty one when there is none."""
        node = self
        for key in path:
            node = node.fields.get(key, ABSENT)
        return node

    def __bool__(self) -> bool:
        return self.scalar is not None or bool(self.fields) or bool(self.elements)


ABSENT = Node()


def walk(node: Node) -> Iterator[tuple[tuple[str, ...], Node]]:
    """Every mapping in `node` with the path of keys to it, each once, outer ones first."""
    seen: set[int] = set()
    waiting: list[tuple[tuple[str, ...], Node]] = [((), node)]
    while waiting:
        path, here = waiting.pop(0)
        if id(here) in seen:
            continue
        seen.add(id(here))
        if here.fields:
            yield path, here
        waiting += [((*path, key), inner) for key, inner in here.fields.items()]
        waiting += [(path, inner) for inner in here.elements]


def read_documents(text: str, name: str) -> tuple[Node, ...]:
    """The documents of a YAML or JSON text. Raises UsageError with the line when it is neither."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return (_from_json(json.loads(text)),)
        except ValueError as error:
            if isinstance(error, json.JSONDecodeError) and not _may_be_yaml(text):
                raise UsageError(f"{Place(name, error.lineno, error.colno)}: no JSON: {error.msg}") from error
        except RecursionError as error:
            raise UsageError(f"{name}: nested too deep") from error
    lines = text.splitlines()
    try:
        return tuple(
            _Reader(lines, name).node(top) for top in yaml.compose_all(text, yaml.SafeLoader) if top is not None
        )
    except yaml.MarkedYAMLError as error:
        raise _not_yaml(error, text, name) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise UsageError(f"{name}: cannot be read as YAML: {str(error).splitlines()[0]}") from error


def _may_be_yaml(text: str) -> bool:
    """Whether a text that begins like JSON is a template or a flow mapping of YAML."""
    return text.lstrip().startswith("{{") or re.search(r"^\w+:", text, re.MULTILINE) is not None


def _not_yaml(error: yaml.MarkedYAMLError, text: str, name: str) -> UsageError:
    mark = error.problem_mark or error.context_mark
    place = Place(name, mark.line + 1, mark.column + 1) if mark else Place(name)
    hint = "render the template first, for example with helm template" if "{{" in text else None
    return UsageError(f"{place}: no YAML: {error.problem or error.context}", hint)


def _from_json(value: Any) -> Node:
    if isinstance(value, dict):
        return Node(fields=MappingProxyType({str(key): _from_json(inner) for key, inner in value.items()}))
    if isinstance(value, list):
        return Node(elements=tuple(_from_json(inner) for inner in value))
    if value is None:
        return ABSENT
    text = value if isinstance(value, str) else json.dumps(value)
    return Node(scalar=text, shell=text)


class _Reader:
    """From yaml's nodes to ours. An anchor's node is made once, so that aliases cannot make the tree grow."""

    def __init__(self, lines: list[str], name: str) -> None:
        self._lines = lines
        self._name = name
        self._made: dict[int, Node | None] = {}

    def node(self, source: yaml.Node) -> Node:
        if id(source) in self._made:
            made = self._made[id(source)]
            if made is None:
                raise UsageError(f"{Place(self._name, source.start_mark.line + 1)}: an alias that holds itself")
            return made
        self._made[id(source)] = None
        made = self._make(source)
        self._made[id(source)] = made
        return made

    def _make(self, source: yaml.Node) -> Node:
        line = source.start_mark.line + 1
        if isinstance(source, yaml.MappingNode):
            return Node(fields=MappingProxyType(self._fields(source)), line=line)
        if isinstance(source, yaml.SequenceNode):
            return Node(elements=tuple(self.node(element) for element in source.value), line=line)
        if source.tag == _NULL or not isinstance(source, yaml.ScalarNode):
            return Node(line=line)
        shell, first = self._shell(source)
        return Node(scalar=source.value, line=first, shell=shell)

    def _fields(self, source: yaml.MappingNode) -> dict[str, Node]:
        own: dict[str, Node] = {}
        merged: dict[str, Node] = {}
        for key, value in source.value:
            node = self.node(value)
            if key.tag == _MERGE:
                for part in node.elements or (node,):
                    merged = {**part.fields, **merged}
            elif isinstance(key, yaml.ScalarNode):
                own[key.value] = node
        return {**merged, **own}

    def _shell(self, source: yaml.ScalarNode) -> tuple[str, int]:
        """Text and first line of a scalar for a reader of shell words."""
        start, end = source.start_mark, source.end_mark
        if source.style == "|":
            return source.value, start.line + 2
        if source.style == ">":
            return _folded(self._lines[start.line + 1 : end.line]), start.line + 2
        if source.style is None and end.line > start.line:
            first = self._lines[start.line][start.column :]
            return _folded([first, *self._lines[start.line + 1 : end.line + 1]]), start.line + 1
        return source.value, start.line + 1


def _folded(lines: list[str]) -> str:
    """Lines that YAML folds into one, joined as a shell would read them; an empty line stays a line end."""
    text = ""
    for line in lines:
        bare = line.strip().removesuffix("\\").rstrip()
        text += f"{bare} \\\n" if bare else "\n"
    return text.removesuffix(" \\\n")
