"""Small text files and standard input that a user names: read whole, or refused in one clear sentence."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import BinaryIO

from bubblewatch.model.errors import UsageError

STDIN = "-"
"""The name that means standard input."""

MAX_TEXT_BYTES = 64 * 1024 * 1024
"""Largest text that is read whole: an hour of eight GPUs at 10 Hz is about 30 MB of CSV."""

_CONTROL = re.compile(r"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
"""Characters that no launch command and no nvidia-smi output holds; NUL separates the words of a raw command line."""


def read_text(value: str, expected: str, stdin: BinaryIO | None = None) -> str:
    """The text of the file `value`, or of standard input for `-`; a byte order mark is taken off.

    Raises UsageError that names the file and what was `expected` when it is missing, too large, empty or not text.
    """
    shown = "standard input" if value == STDIN else value
    try:
        if value == STDIN:
            data = (stdin or sys.stdin.buffer).read(MAX_TEXT_BYTES + 1)
        elif Path(value).is_dir():
            raise UsageError(f"{shown}: is a folder, expected {expected}")
        else:
            with Path(value).open("rb") as file:
                data = file.read(MAX_TEXT_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{shown}: cannot be read: {error.strerror or error}", f"expected {expected}") from error
    if len(data) > MAX_TEXT_BYTES:
        raise UsageError(f"{shown}: larger than {MAX_TEXT_BYTES // 1024**2} MiB, expected {expected}")
    try:
        text = data.decode("utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown}: not text (byte {error.start}), expected {expected}") from error
    if _CONTROL.search(text):
        raise UsageError(f"{shown}: not text (control characters), expected {expected}")
    if not text.strip("\0 \t\r\n"):
        raise UsageError(f"{shown}: empty, expected {expected}")
    return text
