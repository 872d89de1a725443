"""Words of commands as container files list them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from bubblewatch.sources.shell_text import Word
from bubblewatch.sources.yaml_nodes import Node

_SCRIPT_FOLLOWS = re.compile(r"-[a-z]*c")
"""`-c`, `-lc`, `-ec` of a shell: the next word is a script."""


def listed_words(nodes: Iterable[Node], resolve: Callable[[str], str]) -> list[Word]:
    """One word for each element, with its line; variables in it are put in by `resolve`.

    A script behind `-c` keeps the lines of the file also where YAML folds them.
    """
    words: list[Word] = []
    for node in nodes:
        is_script = bool(words) and _SCRIPT_FOLLOWS.fullmatch(words[-1].text) is not None
        text = node.shell if is_script else node.scalar or ""
        words.append(Word(resolve(text), node.line, quoted=True))
    return words
