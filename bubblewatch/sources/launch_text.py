"""What a user hands over as the launch: a command, a script, a process's raw command line, or a unit file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO

from bubblewatch.model.errors import UsageError
from bubblewatch.model.server import Launch
from bubblewatch.sources.launch_words import launch_from_text
from bubblewatch.sources.systemd_unit import read_unit_file
from bubblewatch.sources.text_file import STDIN, read_text

__all__ = ["read_launch", "read_unit_file"]

_EXPECTED = "a launch command"


def read_launch(value: str, stdin: BinaryIO | None = None) -> Launch:
    """The launch that `value` gives: an existing file, `-` for standard input, or a command with white space in it.

    In a script or a paste with several commands the one with the most options counts, the last of equals. `env` holds
    what the text itself sets, None when it sets nothing (the environment was then not seen). Secrets are redacted.
    Raises UsageError with the line for text that cannot be read as a command. A systemd unit file is read as such.
    """
    if value == STDIN:
        return launch_from_text(read_text(value, _EXPECTED, stdin), "standard input")
    if _exists(value):
        text = read_text(value, _EXPECTED)
        is_unit = re.search(r"^\[Service\]\s*$", text, re.MULTILINE)
        return read_unit_file(value) if is_unit else launch_from_text(text, value)
    if not any(map(str.isspace, value)):
        raise UsageError(f"no file named {value!r}", "a command line has white space in it: quote it as one argument")
    return launch_from_text(value, "command")


def _exists(value: str) -> bool:
    try:
        return Path(value).exists()
    except (OSError, ValueError):  # a whole command is too long for a path, or holds a NUL
        return False
