"""`docker inspect` of containers and images: each as a launch."""

from __future__ import annotations

from collections.abc import Iterator

from bubblewatch.model.server import Launch
from bubblewatch.sources.container_words import listed_words
from bubblewatch.sources.env_file import assignments
from bubblewatch.sources.launch_words import command_in_container, launch_of
from bubblewatch.sources.shell_text import Word
from bubblewatch.sources.yaml_nodes import Node


def is_inspect(documents: tuple[Node, ...]) -> bool:
    """Whether a JSON text is what `docker inspect` or `podman inspect` printed."""
    return any(_is_inspected(node) for node in _inspected(documents))


def inspect_launches(documents: tuple[Node, ...], name: str) -> Iterator[tuple[str, Launch]]:
    """Every container (Docker 20..27, Podman 5) or image with its launch, by name.

    A container's path and arguments are what runs, so that no entry point is guessed; its environment is complete.
    """
    for node in _inspected(documents):
        if _is_inspected(node):
            yield _name(node), _launch(node, name)


def _inspected(documents: tuple[Node, ...]) -> Iterator[Node]:
    for document in documents:
        yield from document.elements or (document,)


def _is_inspected(node: Node) -> bool:
    config = node.get("Config")
    return bool(config.get("Cmd") or config.get("Entrypoint") or config.get("Env")) or bool(node.get("Args"))


def _name(node: Node) -> str:
    named = node.get("Name").scalar or (node.get("RepoTags").elements or (node.get("Id"),))[0].scalar
    return (named or "container").lstrip("/")


def _launch(node: Node, name: str) -> Launch:
    config = node.get("Config")
    image = config.get("Image").scalar or _name(node)
    path = node.get("Path")
    if path.scalar:
        entry = listed_words((path, *node.get("Args").elements), str)
        rest: list[Word] = []
    else:
        entry = listed_words(config.get("Entrypoint").elements or (config.get("Entrypoint"),), str)
        entry = [word for word in entry if word.text]
        rest = listed_words(config.get("Cmd").elements, str)
    env = assignments(Word(element.scalar or "", 0) for element in config.get("Env").elements)
    command = command_in_container(Word(image, 0), entry, rest, env, name)
    return launch_of(command, name, env_known=True, directory=config.get("WorkingDir").scalar or None)
