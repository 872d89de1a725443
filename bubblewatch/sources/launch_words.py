"""From words to a `Launch`: shells, wrappers and container tools come off until the server's own command is left."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from bubblewatch.model.errors import UsageError
from bubblewatch.model.redact import redact_argv
from bubblewatch.model.server import Launch
from bubblewatch.sources.container_images import with_entry_point
from bubblewatch.sources.launch_container import read_container_run
from bubblewatch.sources.serving_env import serving_env
from bubblewatch.sources.shell_text import ASSIGNMENT, Word, commands_of

_CONTAINER_TOOLS = frozenset({"docker", "podman", "nerdctl"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_WRAPPERS: Mapping[str, frozenset[str]] = {
    "exec": frozenset({"-a"}),
    "nohup": frozenset(),
    "setsid": frozenset(),
    "time": frozenset(),
    "command": frozenset(),
    "sudo": frozenset({"-u", "--user", "-g", "--group", "-C", "-D", "-h", "-p", "-r", "-t", "-T", "-U"}),
    "env": frozenset({"-u", "--unset", "-C", "--chdir", "-S", "--split-string"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "numactl": frozenset({"-N", "-m", "-C", "-i", "-p", "-P"}),
    "taskset": frozenset(),
    "timeout": frozenset({"-k", "-s", "--kill-after", "--signal"}),
}
"""Programs that start another one -> those of their options that take the next word as value."""

_POSITIONAL = {"taskset": 1, "timeout": 1}
"""How many plain words such a program takes for itself: the CPU mask, the time limit."""

_NOT_FILES = frozenset({"command", "standard input"})
"""Names of a text that has no lines to point to."""

_EVERYDAY = frozenset(
    {"tee", "curl", "wget", "grep", "tail", "head", "sleep", "mkdir", "rm", "cp", "ls", "cat", "echo", "printf", "set"}
    | {"source", ".", "ulimit", "wait", "kill", "pkill", "pip", "pip3", "apt", "apt-get", "git", "trap", "test", "["}
    | {"chmod", "chown", "sysctl", "modprobe", "nvidia-smi", "conda", "module", "date", "ss", "ip", "huggingface-cli"}
)
"""Programs beside the server in scripts and pastes."""

_KEYWORDS = frozenset({"then", "do", "else", "if", "while", "until", "!", "{", "}", "done", "fi"})
"""Words of the shell's grammar that may stand before a command."""

_DECLARERS = frozenset({"export", "declare", "local", "readonly", "typeset"})


@dataclass(slots=True)
class Command:
    """One command once the programs around it are taken off."""

    words: list[Word]
    env: dict[str, Word] = field(default_factory=dict)
    image: str | None = None
    notes: list[str] = field(default_factory=list)
    directory: str | None = None


def commands_in(text: str, name: str, variables: Mapping[str, str] | None = None, first_line: int = 1) -> list[Command]:
    """The commands of shell text, each with what the text exports and where it changes to; never an empty list.

    `variables` are those that the text can use beside its own. Raises UsageError when there is no command in it.
    """
    if "\0" in text:
        return [Command([Word(word, 1) for word in text.rstrip("\0").split("\0")])]
    commands = _commands(text, name, variables or {}, first_line)
    if not commands:
        raise UsageError(
            f"{name}: no command in it", "expected a launch command such as `python -m sglang.launch_server …`"
        )
    return commands


def _commands(text: str, name: str, variables: Mapping[str, str], first_line: int) -> list[Command]:
    known = dict(variables)
    exported: dict[str, Word] = {}
    commands: list[Command] = []
    directory: str | None = None
    for words in commands_of(text, name, known, first_line):
        rest, assigned = split_assignments(list(words))
        if not rest or rest[0].text in _DECLARERS:
            _, declared = split_assignments([word for word in rest[1:] if not word.text.startswith("-")])
            for variable, word in {**assigned, **declared}.items():
                old = known.get(variable, "") if word.text.startswith("+=") else ""
                known[variable] = old + word.text.removeprefix("+=")
                exported[variable] = Word(known[variable], word.line)
        elif rest[0].text == "cd" and len(rest) == 2:
            directory = rest[1].text
        else:
            inner = unwrap(rest, assigned, name)
            for command in inner:
                command.directory = command.directory or directory
            commands += inner
    for command in commands:
        command.env = {**exported, **command.env}
    return commands


def launch_of(
    command: Command, name: str, *, env_known: bool = False, notes: tuple[str, ...] = (), directory: str | None = None
) -> Launch:
    """The launch that this command is; see `launch_from_words`. `directory` counts where the command names none."""
    return launch_from_words(
        command.words,
        command.env,
        name,
        image=command.image,
        working_directory=command.directory or directory,
        env_known=env_known,
        notes=(*notes, *command.notes),
    )


def launch_from_words(
    words: Sequence[Word],
    env: Mapping[str, Word],
    name: str,
    *,
    image: str | None = None,
    working_directory: str | None = None,
    env_known: bool = False,
    notes: tuple[str, ...] = (),
) -> Launch:
    """A redacted Launch of these words and variables.

    `env_known` says that `env` is the whole truth, so that it stays a mapping when nothing of it bears on serving.
    """
    shown = serving_env({variable: word.text for variable, word in env.items()})
    placed = [(word.text.partition("=")[0], word) for word in words if word.text.startswith("-")]
    placed += [(variable, env[variable]) for variable in shown]
    placed = [(key, word) for key, word in placed if word.line]
    is_file = name not in _NOT_FILES
    return Launch(
        argv=tuple(redact_argv([word.text for word in words])),
        env=shown if shown or env_known else None,
        where=_place(words[0], name) if is_file and words and words[0].line else name,
        working_directory=working_directory,
        places={key: _place(word, name) for key, word in placed if is_file or word.file},
        image=image,
        notes=notes,
    )


def _place(word: Word, name: str) -> str:
    return f"{word.file or name}:{word.line}"


def split_assignments(words: list[Word]) -> tuple[list[Word], dict[str, Word]]:
    """The words after leading `NAME=value` ones, and those; a value of `NAME+=…` keeps its `+=`."""
    assigned: dict[str, Word] = {}
    for index, word in enumerate(words):
        found = ASSIGNMENT.fullmatch(word.text)
        if found is None:
            return words[index:], assigned
        assigned[found["name"]] = Word(("+=" if found["plus"] else "") + found["value"], word.line)
    return [], assigned


def unwrap(words: list[Word], env: Mapping[str, Word], name: str) -> list[Command]:
    """The command that `words` start once shells, wrappers and container tools are taken off; several for `sh -c`."""
    env = dict(env)
    while words:
        if words[0].text in _KEYWORDS and not words[0].quoted:
            words = words[1:]
            continue
        program = os.path.basename(words[0].text)  # noqa: PTH119 - a word of a command, not a path here
        if program in _CONTAINER_TOOLS and (unpacked := _run_by_container_tool(words, name)):
            return [unpacked]
        if program in SHELLS and (script := _shell_script(words)):
            return _inside_shell(script, env, name)
        if program not in _WRAPPERS:
            return [Command(words, env)]
        words = _after_options(words[1:], _WRAPPERS[program], _POSITIONAL.get(program, 0))
        words, assigned = split_assignments(words)
        env |= assigned
    return []


def _inside_shell(script: Word, env: Mapping[str, Word], name: str) -> list[Command]:
    """The commands of `sh -c 'script'`, with the variables that hold around it."""
    inner = _commands(script.text, name, {variable: word.text for variable, word in env.items()}, script.line)
    for command in inner:
        command.env = {**env, **command.env}
        command.words = [replace(word, file=word.file or script.file) for word in command.words]
    return inner


def _after_options(words: list[Word], with_value: frozenset[str], positional: int) -> list[Word]:
    """The words after a wrapper's own options and `positional` words of its own."""
    index = 0
    while index < len(words):
        text = words[index].text
        if text == "--":
            index += 1
            break
        if text.startswith("-"):
            index += 2 if text in with_value else 1
        elif positional:
            positional -= 1
            index += 1
        else:
            break
    return words[index:]


def _shell_script(words: list[Word]) -> Word | None:
    """The script of `bash -lc 'script'`; None when the shell runs a file."""
    for option, script in pairwise(words[1:]):
        if re.fullmatch(r"-[a-z]*c", option.text):
            return script
        if not option.text.startswith("-"):
            return None
    return None


def _run_by_container_tool(words: list[Word], name: str) -> Command | None:
    """The command inside `docker run … IMAGE …` with its variables; None for other container commands."""
    run = read_container_run(words, name)
    if run is None:
        return None
    command = command_in_container(run.image, run.entry, run.command, run.env, name)
    command.notes += run.notes
    return command


def command_in_container(
    image: Word, entry: Sequence[Word], rest: Sequence[Word], env: Mapping[str, Word], name: str
) -> Command:
    """The server's command of a container: `entry` replaces the image's entry point when it is not empty."""
    words = [*entry, *rest] if entry else with_entry_point(image, rest)
    commands = unwrap(words, env, name)
    best = max(reversed(commands), key=likelihood) if commands else Command(words, dict(env))
    best.image = image.text
    return best


def likelihood(command: Command) -> tuple[bool, int]:
    """How likely it is that this command of several is the server's: no everyday tool, with the most options."""
    return likelihood_of([word.text for word in command.words])


def likelihood_of(argv: Sequence[str]) -> tuple[bool, int]:
    """As `likelihood`, of plain words."""
    program = os.path.basename(argv[0])  # noqa: PTH119 - as above
    return program not in _EVERYDAY, sum(word.startswith("-") for word in argv)


def option_count(words: Sequence[Word]) -> int:
    """How many of the words look like options."""
    return sum(word.text.startswith("-") for word in words)
