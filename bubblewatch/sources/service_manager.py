"""What systemd wants to hear from a service, and what it gives one: sd_notify(3) and systemd.exec(5), systemd 252."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from bubblewatch.model.clock import Clock

LONGEST_STATUS = 200
"""Characters of the status line that are sent."""


class ServiceManager:
    """Tells systemd how we fare; does nothing where systemd did not start us. Never raises, never blocks.

    `watchdog_s` is the time within which `alive` must be called again, None when nobody watches.
    """

    def __init__(self, environ: Mapping[str, str], pid: int) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog_s = _watchdog_s(environ, pid)
        self.state_folder = environ.get("STATE_DIRECTORY", "").partition(":")[0] or None

    @property
    def is_there(self) -> bool:
        return bool(self._address)

    def ready(self, status: str) -> None:
        """Start-up, or a reload, is finished."""
        self._tell("READY=1", _status(status))

    def reloading(self, clock: Clock) -> None:
        """A reload has begun; `ready` ends it."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={clock.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._tell("STOPPING=1", "STATUS=stopping")

    def alive(self, status: str) -> None:
        """Everything works; systemd kills and restarts a service that does not say so for `watchdog_s`."""
        self._tell("WATCHDOG=1", _status(status))

    def say(self, status: str) -> None:
        """One line for `systemctl status`."""
        self._tell(_status(status))

    def _tell(self, *words: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(words).encode("utf-8", "replace"), self._address)
        except OSError:
            return  # systemd restarts itself now and then; the next word will arrive


def _status(text: str) -> str:
    return f"STATUS={' '.join(text.split())[:LONGEST_STATUS]}"


def _watchdog_s(environ: Mapping[str, str], pid: int) -> float | None:
    for_us = environ.get("WATCHDOG_PID")
    microseconds = environ.get("WATCHDOG_USEC", "")
    if not microseconds.isdecimal() or (for_us is not None and for_us != str(pid)):
        return None
    return int(microseconds) / 1e6


def tells_journal(environ: Mapping[str, str], descriptor: int) -> bool:
    """Whether what is written to `descriptor` goes to the journal: JOURNAL_STREAM names the same device and inode."""
    device, _, inode = environ.get("JOURNAL_STREAM", "").partition(":")
    try:
        now = os.fstat(descriptor)
    except OSError:
        return False
    return (device, inode) == (str(now.st_dev), str(now.st_ino))
