"""What a user hands over as the launch: a command, a script, a unit file, or a file that describes containers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from bubblewatch.model.errors import UsageError
from bubblewatch.model.server import Launch
from bubblewatch.sources.compose import compose_launches, is_compose
from bubblewatch.sources.docker_inspect import inspect_launches, is_inspect
from bubblewatch.sources.kubernetes import PodContainer, is_manifest, manifest_containers
from bubblewatch.sources.launch_scripts import follow
from bubblewatch.sources.launch_words import commands_in, launch_of, likelihood_of
from bubblewatch.sources.option_files import with_option_files
from bubblewatch.sources.systemd_unit import read_unit_file, unit_launch
from bubblewatch.sources.text_file import STDIN, read_text
from bubblewatch.sources.yaml_nodes import Node, read_documents

__all__ = ["NamedLaunch", "read_launch", "read_launches", "read_unit_file", "read_unit_launch"]

_EXPECTED = "a launch command"

_IS_UNIT = re.compile(r"^\[Service\]\s*$", re.MULTILINE)
_IS_YAML = re.compile(r"^(?:services:(?:\s|$)|apiVersion:\s*\S)", re.MULTILINE)
"""A compose file or a Kubernetes manifest, told by its content."""

_IS_JSON = re.compile(r"\s*(?:\[\s*)?\{\s*[\"}]")
"""`docker inspect` prints a list of objects, `kubectl get -o json` an object. No command begins so."""

Recognise = Callable[[Launch], bool]
"""Tells whether a launch starts an inference server."""


@dataclass(frozen=True, slots=True)
class NamedLaunch:
    """One server of a file: its service, workload, unit or script, empty for a bare command; and how it starts."""

    name: str
    launch: Launch


@dataclass(frozen=True, slots=True)
class _Found:
    """Every program that a text starts, at least one. `listed`: it names containers, so that each is one of its own."""

    launches: tuple[NamedLaunch, ...]
    listed: bool = False

    def servers(self, recognise: Recognise | None) -> tuple[NamedLaunch, ...]:
        """Those that `recognise` takes for a server; when it takes none, all of them."""
        taken = tuple(named for named in self.launches if recognise is not None and recognise(named.launch))
        return taken or self.launches


def read_launch(value: str, stdin: BinaryIO | None = None, recognise: Recognise | None = None) -> Launch:
    """The launch that `value` gives: an existing file, `-` for standard input, or a command with white space in it.

    Files are shell text, systemd units, compose files, `docker inspect` JSON and Kubernetes manifests, told by content.
    Where a text starts several programs, the one with the most options counts, the last of equals; `recognise`, when
    given, goes before that, and further servers are a note. `env` holds what the text itself sets, None when it sets
    nothing (the environment was then not seen). Secrets are redacted. Raises UsageError with the line for text that
    cannot be read.
    """
    known = _all_launches(value, stdin).servers(recognise)
    best = _likeliest(known)
    others = [named.name for named in known if named is not best and named.name]
    if not others or recognise is None:
        return best.launch
    note = f"{best.name} was taken; there are {len(others)} more servers in {value}: {', '.join(others[:5])}"
    return replace(best.launch, notes=(*best.launch.notes, note))


def read_launches(value: str, recognise: Recognise, stdin: BinaryIO | None = None) -> tuple[NamedLaunch, ...]:
    """Every launch of an inference server that `value` gives, in the order of the text; see `read_launch`.

    When nothing in it is one: of shell text the likeliest command, of a file that lists containers all of them. Names
    are unique.
    """
    found = _all_launches(value, stdin)
    servers = found.servers(recognise)
    if not found.listed and servers is found.launches:
        servers = (_likeliest(servers),)
    return tuple(_with_unique_names(servers))


def read_unit_launch(path: str, stdin: BinaryIO | None = None) -> NamedLaunch:
    """The launch of the systemd unit file `path` (`-`: standard input); see `read_unit_file`."""
    name = Path(path).stem if path != STDIN else "unit"
    return NamedLaunch(name, with_option_files(read_unit_file(path, stdin), path))


def _likeliest(launches: Sequence[NamedLaunch]) -> NamedLaunch:
    return max(reversed(launches), key=lambda named: likelihood_of(named.launch.argv))


def _all_launches(value: str, stdin: BinaryIO | None) -> _Found:
    if value == STDIN:
        return _in_text(read_text(value, _EXPECTED, stdin), "standard input", value)
    if _exists(value):
        return _in_text(read_text(value, _EXPECTED), value, value)
    if not any(map(str.isspace, value)):
        raise UsageError(f"no file named {value!r}", "a command line has white space in it: quote it as one argument")
    return _in_text(value, "command", "")


def _in_text(text: str, name: str, path: str) -> _Found:
    if _IS_UNIT.search(text):
        launch = with_option_files(unit_launch(text, path), path)
        return _Found((NamedLaunch(Path(path).stem if path != STDIN else "unit", launch),))
    if not text.startswith("#!") and (_IS_JSON.match(text) or _IS_YAML.search(text)):
        found = tuple(_in_documents(read_documents(text, name), name))
        if not found:
            raise UsageError(
                f"{name}: no container in it", "expected a compose file, docker inspect JSON or a Kubernetes manifest"
            )
        return _Found(found, listed=True)
    stem = Path(path).stem if path not in ("", STDIN) else ""
    followed = [follow(command, name, {}) for command in commands_in(text, name)]
    launches = (with_option_files(launch_of(command, name), name) for command in followed)
    return _Found(tuple(NamedLaunch(stem, launch) for launch in launches))


def _in_documents(documents: tuple[Node, ...], name: str) -> Iterator[NamedLaunch]:
    if is_compose(documents):
        yield from (NamedLaunch(*pair) for pair in compose_launches(documents, name))
    elif is_manifest(documents):
        yield from _named_containers(list(manifest_containers(documents, name)))
    elif is_inspect(documents):
        yield from (NamedLaunch(*pair) for pair in inspect_launches(documents, name))


def _named_containers(containers: Sequence[PodContainer]) -> Iterator[NamedLaunch]:
    for container in containers:
        part = f"/{container.part}" if container.part else ""
        yield NamedLaunch(f"{container.workload}{part}/{container.name}", container.launch)


def _with_unique_names(launches: Sequence[NamedLaunch]) -> Iterator[NamedLaunch]:
    """The launches; of several with one name those after the first are numbered."""
    counts: dict[str, int] = {}
    for named in launches:
        counts[named.name] = counts.get(named.name, 0) + 1
        number = counts[named.name]
        yield named if number == 1 else NamedLaunch(f"{named.name or 'command'}#{number}", named.launch)


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # a whole command is too long for a path, or holds a NUL
        return False
