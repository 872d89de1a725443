"""Docker compose files: the services they describe, each as a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from bubblewatch.model.errors import UsageError
from bubblewatch.model.server import Launch
from bubblewatch.sources.container_words import listed_words
from bubblewatch.sources.env_file import read_env_file
from bubblewatch.sources.launch_words import command_in_container, launch_of
from bubblewatch.sources.shell_text import ASSIGNMENT, Word, commands_of
from bubblewatch.sources.yaml_nodes import Node

_VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|(?P<bare>[A-Za-z_]\w*)"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?:(?P<colon>:?)(?P<operator>[-?+])(?P<argument>[^{}]*))?\})"
)
"""`$$`, `$NAME`, `${NAME}`, `${NAME:-default}` (compose file reference, "Interpolation")."""

_NESTING = 4
"""Levels of `${A:-${B:-x}}` that are resolved."""


def is_compose(documents: tuple[Node, ...]) -> bool:
    """Whether a YAML text is a compose file."""
    return any(node.get("services").fields for node in documents)


def compose_launches(documents: tuple[Node, ...], name: str) -> Iterator[tuple[str, Launch]]:
    """Every service with its launch. Variables come from the `.env` file beside `name`; unknown ones stay as written.

    Files that cannot be read are notes of the launch.
    """
    outer = _outer_variables(name)
    for document in documents:
        for service, node in document.get("services").fields.items():
            yield service, _service(service, node, name, outer)


def _outer_variables(name: str) -> Mapping[str, str]:
    try:
        return {key: word.text for key, word in read_env_file(".env", name).items()}
    except UsageError:
        return {}


def _service(service: str, node: Node, name: str, outer: Mapping[str, str]) -> Launch:
    env, notes = _environment(node, name, outer)
    if node.get("extends"):
        notes.append(f"service {service} extends another one, which was not read")
    named = node.get("image")
    image = Word(interpolated(named.scalar or "", outer) or f"the image that {service} builds", named.line or node.line)
    entry = _words(node.get("entrypoint"), name, outer)
    command = command_in_container(image, entry, _words(node.get("command"), name, outer), env, name)
    command.notes += notes
    return launch_of(command, name, directory=node.get("working_dir").scalar)


def _environment(node: Node, name: str, outer: Mapping[str, str]) -> tuple[dict[str, Word], list[str]]:
    """Variables of a service; `environment` outranks `env_file`."""
    env: dict[str, Word] = {}
    notes: list[str] = []
    listed = node.get("env_file")
    for file in listed.elements or ((listed,) if listed else ()):
        path = interpolated(file.scalar or file.get("path").scalar or "", outer)
        try:
            env |= read_env_file(path, name)
        except UsageError as error:
            if file.get("required").scalar != "false":
                notes.append(f"the environment file {path} was not read: {error.what}")
    environment = node.get("environment")
    for key, value in environment.fields.items():
        if value.scalar is not None:
            env[key] = Word(interpolated(value.scalar, outer), value.line)
    for element in environment.elements:
        found = ASSIGNMENT.fullmatch(element.scalar or "")
        if found:
            env[found["name"]] = Word(interpolated(found["value"], outer), element.line)
    return env, notes


def _words(node: Node, name: str, outer: Mapping[str, str]) -> list[Word]:
    """The words of `command` or `entrypoint`: a list, or one string that is split like a shell would, without one."""
    if node.elements:
        return listed_words(node.elements, lambda text: interpolated(text, outer))
    if node.scalar is None:
        return []
    lines = [line.rstrip().removesuffix("\\").rstrip() for line in interpolated(node.shell, outer).split("\n")]
    split = commands_of(" \\\n".join(lines), name, {}, node.line or 1)
    return [word if node.line else replace(word, line=0) for words in split for word in words]


def interpolated(text: str, variables: Mapping[str, str]) -> str:
    """`text` with compose's variables put in; unknown ones without a default stay as written, `$$` becomes `$`."""
    for _ in range(_NESTING):
        resolved = _VARIABLE.sub(lambda found: found.group() if found["dollar"] else _value(found, variables), text)
        if resolved == text:
            break
        text = resolved
    return text.replace("$$", "$")


def _value(found: re.Match[str], variables: Mapping[str, str]) -> str:
    value = variables.get(found["bare"] or found["braced"])
    is_set = value is not None and not (value == "" and found["colon"])
    if found["operator"] == "-" and not is_set:
        return found["argument"]
    if found["operator"] == "+":
        return found["argument"] if is_set else ""
    return value if value is not None else found.group()
