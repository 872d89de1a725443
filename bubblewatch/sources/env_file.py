"""Files of environment variables: systemd's EnvironmentFile, `docker run --env-file`, compose's `env_file`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from bubblewatch.model.errors import UsageError
from bubblewatch.sources.shell_text import ASSIGNMENT, Word
from bubblewatch.sources.text_file import read_text


def environment_words(text: str, name: str, *, quotes: bool = True) -> Iterator[Word]:
    """`NAME=value` lines as words: whole-line comments out, a backslash joins lines, quotes around a value taken off.

    `quotes` False: they belong to the value, as for Docker's own `--env-file`.
    """
    joined = re.sub(r"\\\r?\n", "", text)
    for number, line in enumerate(joined.splitlines(), start=1):
        bare = line.strip().removeprefix("export ")
        found = ASSIGNMENT.fullmatch(bare)
        if found and not bare.startswith(("#", ";")):
            value = found["value"].strip()
            if quotes and len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            yield Word(f"{found['name']}={value}", number, file=name)


def assignments(words: Iterable[Word]) -> dict[str, Word]:
    """Name -> value of the words that set a variable; of two the last counts."""
    pairs = ((ASSIGNMENT.fullmatch(word.text), word) for word in words)
    return {found["name"]: Word(found["value"], word.line, file=word.file) for found, word in pairs if found}


def read_env_file(path: str, beside: str, *, quotes: bool = True) -> dict[str, Word]:
    """The variables of an environment file; a relative path counts from the folder of the file `beside`.

    Raises UsageError when it is no readable text file.
    """
    return assignments(environment_words(*read_beside(path, beside, "an environment file"), quotes=quotes))


def read_beside(path: str, beside: str, expected: str) -> tuple[str, str]:
    """Text and path of a file that another one names. Only plain files are opened: a pipe would block.

    Raises UsageError when it cannot be read.
    """
    file = Path(path)
    if not file.is_absolute():
        file = Path(beside).parent / file
    try:
        is_plain = file.is_file()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no path of a file") from error
    if not is_plain:
        raise UsageError(f"{file}: no such file")
    return read_text(str(file), expected), str(file)
