"""Writes to the journal as a unit: `emit_unit.py UNIT < TEXT`, or `emit_unit.py UNIT COMMAND...` to become COMMAND.

journald believes the unit that the header of a stream names when root sends it from outside any unit (tried with
systemd 252). It remembers the unit per process, so each run serves one unit, and a process must not be silent for more
than ten seconds. About one process in 300 is remembered without its unit: that is seen here and tried again with
another one. As COMMAND both outputs go to the journal, behind one line `Started UNIT`, as with systemd.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import termios
import time


def stream(unit: str, identifier: str) -> socket.socket:
    """A connection to journald whose header it has read."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect("/run/systemd/journal/stdout")
    # identifier, unit, priority 6 = info, level prefixes on, forward to syslog, kernel log and console: no
    connection.sendall(f"{identifier}\n{unit}\n6\n1\n0\n0\n0\n".encode())
    wait_until_read(connection)
    return connection


def wait_until_read(connection: socket.socket) -> None:
    """Return when the other end has taken every byte (SIOCOUTQ, the same number as TIOCOUTQ)."""
    while struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, b"\0" * 4))[0]:
        time.sleep(0.001)


def write(unit: str, identifier: str, data: bytes) -> socket.socket:
    """The stream on which `data` was written and logged."""
    connection = stream(unit, identifier)
    connection.sendall(data)
    wait_until_read(connection)
    # journald looks the process up while it logs: stay until it does something else
    stream(unit, identifier).close()
    return connection


def has_unit(unit: str, identifier: str) -> bool:
    """True when the newest entry under `identifier` belongs to `unit`, or when none comes for journald drops them."""
    command = ["journalctl", "--quiet", "--output=json", "--lines=1", f"SYSLOG_IDENTIFIER={identifier}"]
    for _ in range(50):
        if entry := subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout:
            return bool(json.loads(entry).get("_SYSTEMD_UNIT") == unit)
        time.sleep(0.01)
    return True


def emit(unit: str, data: bytes) -> None:
    while True:
        child = os.fork()
        if child == 0:
            write(unit, f"{unit}-{os.getpid()}", data)
            os._exit(0)
        os.waitpid(child, 0)
        if has_unit(unit, f"{unit}-{child}"):
            return


def become(unit: str, command: list[str]) -> None:
    while True:
        identifier = f"{unit}-{os.getpid()}"
        connection = write(unit, identifier, f"Started {unit}\n".encode())
        if has_unit(unit, identifier):
            os.dup2(connection.fileno(), 1)
            os.dup2(connection.fileno(), 2)
            os.execvp(command[0], command)
        child = os.fork()
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def main() -> None:
    unit, *command = sys.argv[1:]
    if command:
        become(unit, command)
    elif data := sys.stdin.buffer.read():
        emit(unit, data if data.endswith(b"\n") else data + b"\n")


if __name__ == "__main__":
    main()
