"""The command line of `docker run` and its likes: image, entry point, variables, and what runs inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from bubblewatch.model.errors import UsageError
from bubblewatch.sources.env_file import read_env_file
from bubblewatch.sources.shell_text import ASSIGNMENT, Word

_CONTAINER_SWITCHES = frozenset(
    {"--detach", "--interactive", "--tty", "--rm", "--init", "--privileged", "--publish-all", "--read-only"}
    | {"--no-healthcheck", "--oom-kill-disable", "--quiet", "--no-hosts", "--replace", "--tls-verify"}
)
"""Options of `docker run` and `podman run` without a value (Docker 27, Podman 5); all others take the next word."""

_CONTAINER_SHORT_SWITCHES = re.compile(r"-[ditPq]+")
"""Their short forms, which may be run together: `-it`."""

_VERBS = frozenset({"run", "create"})


@dataclass(frozen=True, slots=True)
class ContainerRun:
    """One container as asked for. `entry` replaces the image's entry point, () = it stays."""

    image: Word
    entry: tuple[Word, ...]
    command: tuple[Word, ...]
    env: dict[str, Word]
    notes: tuple[str, ...] = ()


def read_container_run(words: Sequence[Word], name: str) -> ContainerRun | None:
    """What `docker run` and the words behind it ask for; None for other container commands.

    The text of these words is the file `name`: an --env-file counts from its folder, and one that cannot be read is a
    note. Single variables outrank it.
    """
    verbs = [index for index, word in enumerate(words[:3]) if word.text in _VERBS]
    if not verbs:
        return None
    env: dict[str, Word] = {}
    entry: tuple[Word, ...] = ()
    files: list[str] = []
    index = verbs[0] + 1
    while index < len(words) and words[index].text.startswith("-"):
        word = words[index]
        option, equals, value = word.text.partition("=")
        index += 1
        if option in _CONTAINER_SWITCHES or _CONTAINER_SHORT_SWITCHES.fullmatch(option):
            continue
        if not equals:
            value = words[index].text if index < len(words) else ""
            index += 1
        if option in {"-e", "--env"} and (found := ASSIGNMENT.fullmatch(value)):
            env[found["name"]] = Word(found["value"], word.line, file=word.file)
        elif option == "--env-file":
            files.append(value)
        elif option == "--entrypoint":
            entry = (Word(value, word.line, file=word.file),)
    if index >= len(words):
        return None
    from_files, notes = _from_files(files, name)
    return ContainerRun(words[index], entry, tuple(words[index + 1 :]), {**from_files, **env}, notes)


def _from_files(paths: Sequence[str], name: str) -> tuple[dict[str, Word], tuple[str, ...]]:
    env: dict[str, Word] = {}
    notes: list[str] = []
    for path in paths:
        try:
            env |= read_env_file(path, name, quotes=False)
        except UsageError as error:
            notes.append(f"the environment file {path} was not read: {error.what}")
    return env, tuple(notes)
