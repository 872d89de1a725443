"""Start scripts: what `exec python -m … "$@"` in a shell script launches, when a command runs that script."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bubblewatch.model.errors import UsageError
from bubblewatch.sources.env_file import read_beside
from bubblewatch.sources.launch_words import SHELLS, Command, commands_in, likelihood, option_count
from bubblewatch.sources.shell_text import Word

MOST_SCRIPTS = 4
"""Scripts that start each other and are followed; a chain that is longer is a circle."""

_SHEBANG = re.compile(r"#!\s*\S*(?:/|\s)(?:ba|da|z|k|a)?sh\b")
_PARAMETER = re.compile(r"\$(?:(?P<bare>\d)|\{(?P<braced>\d)(?::?-(?P<default>[^{}]*))?\})")
"""`$1`, `${1}`, `${1:-8}`."""

_NO_SCRIPTS = re.compile(r"python[\d.]*|torchrun|vllm|sglang|docker|podman|ollama|llama-server|trtllm-serve")


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text, the file to show for it, and the line of that file on which the text begins."""

    text: str
    file: str
    first_line: int = 1


Opener = Callable[[str, str], Script]
"""Gives the script at a path as a command names it; the second argument is the file that the command stands in.
Raises UsageError when it cannot be read."""


def open_script(path: str, beside: str) -> Script:
    """The script in the file `path`; a relative one counts from the folder of the file `beside`."""
    return Script(*read_beside(path, beside, "a shell script"))


def follow(command: Command, name: str, env: Mapping[str, Word], opener: Opener | None = None) -> Command:
    """What `command` launches in the end: when it runs a shell script, the likeliest command in there, and so on.

    `env` are variables that hold around it. Arguments go where the script says `"$@"` or `$1`. A script that cannot be
    read is a note of the command. Words of a script name its file and lines. Without an `opener` scripts are files of
    this machine, and what runs in a container is left as it is.
    """
    for _ in range(MOST_SCRIPTS):
        found = _script_of(command.words)
        if found is None or (opener is None and command.image is not None):
            return command
        path, arguments = found
        place = command.words[0].file or name
        try:
            script = (opener or open_script)(path.text, place)
            if not _is_shell(script, command.words):
                return command
            inner = commands_in(script.text, script.file, _texts({**env, **command.env}), script.first_line)
        except UsageError as error:
            if _is_named_as_script(command.words) or not option_count(command.words):
                where = f"{place}:{path.line}" if path.line else place
                command.notes.append(f"{where} starts {path.text}, which was not read: {error.what}")
            return command
        best = max(reversed(inner), key=likelihood)
        command = _in_script(best, command, script, arguments)
    return command


def _script_of(words: Sequence[Word]) -> tuple[Word, Sequence[Word]] | None:
    """The script that these words run and its arguments; None when they run none, as far as can be seen."""
    program = os.path.basename(words[0].text)  # noqa: PTH119 - a word of a command, not a path here
    if program in SHELLS:
        rest = [index for index, word in enumerate(words) if index and not word.text.startswith(("-", "+"))]
        return (words[rest[0]], words[rest[0] + 1 :]) if rest else None
    if words[0].text.endswith(".sh") or (words[0].text.startswith(("/", "./")) and not _NO_SCRIPTS.fullmatch(program)):
        return words[0], words[1:]
    return None


def _is_shell(script: Script, words: Sequence[Word]) -> bool:
    """Whether a shell reads this file: by its name, its first line, or because a shell was given it."""
    return _is_named_as_script(words) or _SHEBANG.match(script.text) is not None


def _is_named_as_script(words: Sequence[Word]) -> bool:
    program = os.path.basename(words[0].text)  # noqa: PTH119 - as above
    return program in SHELLS or program.endswith(".sh")


def _texts(env: Mapping[str, Word]) -> dict[str, str]:
    return {name: word.text for name, word in env.items()}


def _in_script(inner: Command, outer: Command, script: Script, arguments: Sequence[Word]) -> Command:
    words: list[Word] = []
    for word in inner.words:
        if word.text in ("$@", "$*", "${@}"):
            words += arguments
        else:
            words.append(replace(word, text=_with_parameters(word.text, arguments), file=word.file or script.file))
    env = {name: replace(word, file=word.file or script.file) for name, word in inner.env.items()}
    return Command(
        words or inner.words,
        {**outer.env, **env},
        inner.image or outer.image,
        [*outer.notes, *inner.notes],
        inner.directory or outer.directory,
    )


def _with_parameters(text: str, arguments: Sequence[Word]) -> str:
    def value(found: re.Match[str]) -> str:
        number = int(found["bare"] or found["braced"])
        if 1 <= number <= len(arguments):
            return arguments[number - 1].text
        return found["default"] if found["default"] is not None else found.group()

    return _PARAMETER.sub(value, text)
