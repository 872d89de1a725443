"""Where a server's own options begin in a command: behind interpreters, wrappers, shells and container tools.

The start is looked for rather than the wrappers taken off one by one, because there is no end to wrappers (env,
numactl, nsys, srun, uv run, docker run …) while each server has but a few ways to be started.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash"})
_SHELL_COMMAND = re.compile(r"-[a-z]*c")
"""`-c`, `-lc`, `-ec`: the next word is a script."""
_PYTHON_SWITCHES = re.compile(r"-[A-Za-z]+|faulthandler|[a-z_]+=\S*")
"""What may stand between the interpreter and `-m` or a script: `-u`, `-X faulthandler`, `-X dev=1`."""
_STARTS_MODULES = re.compile(r"(?:.*/)?(?:python[\d.]*|pypy[\d.]*|torchrun|uv|ray|accelerate|coverage)")
_OPERATOR = re.compile(r"[();<>|&]+")
_NOTHING = re.compile(r"(?!)")
_LOOKERS = frozenset(
    {"cat", "grep", "egrep", "journalctl", "killall", "less", "man", "nano", "pgrep", "pkill", "tail", "vi", "vim"}
)
"""Programs whose words name a server only to look for it."""
_SCRIPT_LIMIT = 65_536
"""Characters of a shell script on a command line that are looked at; a start script is far shorter."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The ways to start one kind of server.

    `modules` are regular expressions of modules for `python -m` (or their files), `commands` the names of a console
    script with the sub-command that serves, `images` of container images whose entry point is the server. `programs`
    are programs that do nothing but serve; `plain_programs` have names that others have too (`server`, `main`): they
    count where `proof` is found in the words behind.
    """

    modules: re.Pattern[str] = _NOTHING
    commands: frozenset[tuple[str, str]] = frozenset()
    scripts: re.Pattern[str] = _NOTHING
    images: re.Pattern[str] | None = None
    programs: frozenset[str] = frozenset()
    plain_programs: frozenset[str] = frozenset()
    proof: re.Pattern[str] = _NOTHING


@dataclass(frozen=True, slots=True)
class Program:
    """A server's start as found: its `module` or command, and the `words` behind it."""

    module: str
    words: tuple[str, ...]


def find_program(argv: Sequence[str], entry: Entry) -> Program | None:
    """The server's start in `argv`; None when this command starts no such server."""
    for index, word in enumerate(argv):
        found = _start_at(argv, index, word, entry)
        if found is not None:
            return found
        if index and _SHELL_COMMAND.fullmatch(argv[index - 1]) and any(_base(w) in _SHELLS for w in argv[:index]):
            inner = find_program(_shell_words(word), entry)
            if inner is not None:
                return inner
    return None


def _start_at(argv: Sequence[str], index: int, word: str, entry: Entry) -> Program | None:
    rest = tuple(argv[index + 1 :])
    name = _base(word)
    if name in entry.programs and not (index and _base(argv[0]) in _LOOKERS):
        return Program(name, rest)
    if name in entry.plain_programs and entry.proof.search(" ".join(rest)):
        return Program(name, rest)
    if entry.modules.fullmatch(word) and index and argv[index - 1] == "-m":
        return Program(word, rest) if _is_python(argv[: index - 1]) else None
    if rest and (name, rest[0]) in entry.commands:
        return Program(f"{name} {rest[0]}", rest[1:])
    if entry.scripts.fullmatch(word) and _is_python(argv[:index]):
        return Program(word, rest)
    if entry.images is not None and entry.images.fullmatch(word) and (not rest or rest[0].startswith("-")):
        return Program(word, rest)
    return None


def _is_python(before: Sequence[str]) -> bool:
    """True when the words end in an interpreter and its own switches, or there are none (a shebang, an entry point)."""
    for word in reversed(before):
        if _STARTS_MODULES.fullmatch(word):
            return True
        if not _PYTHON_SWITCHES.fullmatch(word):
            break
    return not before or any(_STARTS_MODULES.fullmatch(word) for word in before)


def _base(word: str) -> str:
    return word.rpartition("/")[2]


def _shell_words(script: str) -> list[str]:
    """Words of a shell script, up to the first operator behind the server's start; [] when quotes do not match."""
    lexer = shlex.shlex(script[:_SCRIPT_LIMIT].replace("\\\n", " "), posix=True, punctuation_chars="();<>|&\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError:
        return []
    best: list[str] = []
    part: list[str] = []
    for word in [*words, ";"]:
        if _OPERATOR.fullmatch(word.strip("\n") or ";"):
            best = max(best, part, key=lambda found: sum(w.startswith("-") for w in found))
            part = []
        else:
            part.append(word)
    return best
