"""Kubernetes manifests: every container that a workload of any kind describes, as a launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bubblewatch.model.errors import UsageError
from bubblewatch.model.server import Launch
from bubblewatch.sources.container_words import listed_words
from bubblewatch.sources.launch_scripts import Opener, Script, follow
from bubblewatch.sources.launch_words import command_in_container, launch_of
from bubblewatch.sources.option_files import with_option_files
from bubblewatch.sources.shell_text import Word
from bubblewatch.sources.yaml_nodes import Node, walk

_VARIABLE = re.compile(r"\$(?P<dollar>\$)?\((?P<name>[A-Za-z_][\w.-]*)\)")
"""`$(NAME)` in command, args and values; `$$(NAME)` stays as `$(NAME)` (Kubernetes API, Container)."""


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container: the workload that holds it, the part of the workload, its own name, its launch."""

    workload: str
    part: str
    name: str
    launch: Launch


def is_manifest(documents: tuple[Node, ...]) -> bool:
    """Whether a YAML or JSON text holds Kubernetes objects."""
    return any(node.get("kind").scalar and node.get("apiVersion").scalar for node in documents)


def manifest_containers(documents: tuple[Node, ...], name: str) -> Iterator[PodContainer]:
    """Every container of every object, whatever its kind (Pod, Deployment, LeaderWorkerSet, a custom one): wherever a
    list `containers` stands. Init containers are left out.

    Scripts that a ConfigMap of the same text holds are followed. What comes from elsewhere (`envFrom`, secrets) is a
    note of the launch.
    """
    objects = [item for document in documents for item in document.get("items").elements or (document,)]
    opener = _opener(objects, name)
    for item in objects:
        workload = item.get("metadata", "name").scalar or item.get("metadata", "generateName").scalar or "unnamed"
        for path, node in walk(item):
            for container in node.get("containers").elements:
                if container.get("image") or container.get("command") or container.get("args"):
                    own = container.get("name").scalar or "container"
                    yield PodContainer(workload, _part(path), own, _launch(container, name, opener))


def _part(path: tuple[str, ...]) -> str:
    """`leader` or `worker`, where the path to a template says so (LeaderWorkerSet, Ray); else empty."""
    words = " ".join(path).lower()
    if "leadertemplate" in words or "headgroup" in words:
        return "leader"
    return "worker" if "workertemplate" in words or "workergroup" in words else ""


def _opener(objects: list[Node], name: str) -> Opener:
    """Opens the scripts of the ConfigMaps among these objects by their file name."""
    scripts = {
        key: Script(value.shell, name, value.line or 1)
        for item in objects
        if item.get("kind").scalar == "ConfigMap"
        for key, value in item.get("data").fields.items()
        if value.scalar
    }

    def opened(path: str, _beside: str) -> Script:
        script = scripts.get(path.rpartition("/")[2])
        if script is None:
            raise UsageError("it is inside the image or a volume")
        return script

    return opened


def _launch(container: Node, name: str, opener: Opener) -> Launch:
    env, notes = _environment(container)
    texts = {key: word.text for key, word in env.items()}

    def resolve(text: str) -> str:
        return _expanded(text, texts)

    nodes = (*container.get("command").elements, *container.get("args").elements)
    words = listed_words(nodes, resolve)
    own = len(container.get("command").elements)
    named = container.get("image")
    image = Word(named.scalar or "an image that is not named", named.line or container.line)
    command = command_in_container(image, words[:own], words[own:], env, name)
    command = follow(command, name, env, opener)
    command.notes += notes
    launch = launch_of(command, name, directory=container.get("workingDir").scalar)
    return with_option_files(launch, name, opener)


def _environment(container: Node) -> tuple[dict[str, Word], list[str]]:
    env: dict[str, Word] = {}
    elsewhere: list[str] = []
    for variable in container.get("env").elements:
        key = variable.get("name").scalar
        value = variable.get("value")
        if key and value.scalar is not None:
            texts = {known: word.text for known, word in env.items()}
            env[key] = Word(_expanded(value.scalar, texts), value.line)
        elif key and variable.get("valueFrom"):
            elsewhere.append(key)
    notes = []
    if container.get("envFrom").elements:
        notes.append("variables from envFrom were not read")
    if elsewhere:
        notes.append(f"the values of {', '.join(elsewhere[:5])} come from elsewhere and were not read")
    return env, notes


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found["dollar"]:
            return found.group()[1:]
        return variables.get(found["name"], found.group())

    return _VARIABLE.sub(value, text)
