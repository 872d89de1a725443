"""What a log transport hands over, turned into plain lines that are safe to show and to match."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bubblewatch.model.redact import redact_text

MAX_LINE_CHARS = 256 * 1024
"""A longer line is cut. SGLang's `server_args=` line, the longest that matters, has some tens of kB."""

Raw = bytes | str | Sequence[int] | None
"""A message as transports give it. `journalctl -o json` (systemd 252) writes an array of byte values when the text is
not printable UTF-8, and null when it is too long to show."""

_ESCAPES = re.compile(
    r"(?:\x1b|#033)\[[0-?]*[ -/]*[@-~]"  # colours, cursor; rsyslog writes the escape character as #033
    r"|\x1b\](?:[^\x07\x1b]*(?:\x07|\x1b\\))?"  # window titles, links
    r"|\x1b[()*+][0-9A-Za-z]|\x1b[ -/]*[0-Z\\^-~]?"
)
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # with those that turn text around
_SURROGATES = re.compile("[\ud800-\udfff]")  # halves of characters, which cannot be printed
_PROGRESS = re.compile(r"\d%\||\d+it \[\d")
# Capturing batches (bs=1 avail_mem=5.02 GB):  75%|███████▌  | 3/4 [00:02<00:00,  1.63it/s]    SGLang 0.5.6, tqdm


def safe_lines(raw: Raw) -> tuple[str, ...]:
    """The lines of one message: decoded, without escape codes and control characters, secrets redacted.

    Undecodable bytes become U+FFFD; lines with nothing in them are left out; None gives (). What a carriage return
    overwrites goes when it is a progress bar and stays as a line of its own otherwise. Never raises.
    """
    text = _decoded(raw)
    lines: list[str] = []
    for written in text.split("\n"):
        shown = _ESCAPES.sub("", written) if "\x1b" in written or "#033[" in written else written
        lines += (_finished(part) for part in _parts(shown))
    return tuple(line for line in lines if line)


def _decoded(raw: Raw) -> str:
    if raw is None:
        return ""
    if isinstance(raw, str):
        return raw
    if not isinstance(raw, bytes):
        raw = bytes(value for value in raw if isinstance(value, int) and 0 <= value <= 255)
    return raw.decode("utf-8", errors="replace")


def _parts(line: str) -> list[str]:
    """What of a line with carriage returns is worth a line: the last part, and every earlier one but progress bars."""
    if "\r" not in line:
        return [line]
    parts = [part for part in line.split("\r") if part.strip()]
    return [part for part in parts[:-1] if not _PROGRESS.search(part)] + parts[-1:]


def _finished(part: str) -> str:
    line = (part if part.isprintable() else _SURROGATES.sub("\ufffd", _CONTROLS.sub("", part))).rstrip()
    if len(line) > MAX_LINE_CHARS:
        line = f"{line[:MAX_LINE_CHARS]} [{len(line) - MAX_LINE_CHARS} more characters cut]"
    return redact_text(line)
