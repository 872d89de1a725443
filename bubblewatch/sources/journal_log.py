"""Our own log as journal entries with fields, by journald's native protocol (systemd 252)."""

from __future__ import annotations

import logging
import re
import socket
import struct

SOCKET = "/run/systemd/journal/socket"

PREFIX = "BUBBLEWATCH_"
"""Of our fields, so that `journalctl BUBBLEWATCH_KEY=sglang` finds what is about one server."""

LONGEST = 8 * 1024
"""Characters of one field that are sent; a datagram holds more, a line for people does not."""

_NAMED = re.compile(r"\b([a-z][a-z0-9_]*)=%")
_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))


class JournalHandler(logging.Handler):
    """Sends each record to journald; what stands as `name=%s` in the message becomes a field too. Never raises."""

    def __init__(self, address: str = SOCKET) -> None:
        super().__init__()
        self._address = address
        self._sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._sender.sendto(b"".join(_field(*pair) for pair in self._fields(record)), self._address)
        except (OSError, ValueError):
            self.handleError(record)

    def _fields(self, record: logging.LogRecord) -> list[tuple[str, str]]:
        fields = [
            ("MESSAGE", self.format(record)),
            ("PRIORITY", str(next((p for level, p in _PRIORITIES if record.levelno >= level), 7))),
            ("SYSLOG_IDENTIFIER", "bubblewatch"),
            ("LOGGER", record.name),
        ]
        names = _NAMED.findall(str(record.msg))
        if isinstance(record.args, tuple) and len(names) == len(record.args):
            fields += [(f"{PREFIX}{n.upper()}", str(value)) for n, value in zip(names, record.args, strict=True)]
        return fields

    def close(self) -> None:
        self._sender.close()
        super().close()


def _field(name: str, value: str) -> bytes:
    """One field with its length, which is the form that takes line ends."""
    data = value[:LONGEST].encode("utf-8", "replace")
    return name.encode("ascii") + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
