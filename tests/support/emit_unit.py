"""Writes to the journal as a unit: `emit_unit.py UNIT < TEXT`, or `emit_unit.py UNIT COMMAND...` to become COMMAND.

journald believes the unit that the header of a stream names when root sends it from outside any unit (tried with
systemd 252). It remembers the unit per process, so each run serves one unit. COMMAND keeps the process id, as with
a service that systemd starts, and both its outputs go to the journal.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import sys
import termios
import time


def stream(unit: str) -> socket.socket:
    """A connection to journald that it has accepted as the unit's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect("/run/systemd/journal/stdout")
    # identifier, unit, priority 6 = info, level prefixes on, forward to syslog, kernel log and console: no
    connection.sendall(f"{unit.partition('.')[0]}\n{unit}\n6\n1\n0\n0\n0\n".encode())
    while unread_bytes(connection):  # a process that ends sooner is nobody to journald, and its lines are no unit's
        time.sleep(0.001)
    return connection


def unread_bytes(connection: socket.socket) -> int:
    """Bytes that the other end has not taken yet (SIOCOUTQ, the same number as TIOCOUTQ)."""
    return int(struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0])


def main() -> None:
    unit, *command = sys.argv[1:]
    connection = stream(unit)
    if command:
        os.dup2(connection.fileno(), 1)
        os.dup2(connection.fileno(), 2)
        os.execvp(command[0], command)
    with connection.makefile("wb") as out:
        shutil.copyfileobj(sys.stdin.buffer, out)


if __name__ == "__main__":
    main()
