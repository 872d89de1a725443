"""TCP sockets of a process's network namespace, read from /proc: who listens where, and how many clients hold on."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

_ESTABLISHED = 0x01
_LISTEN = 0x0A
"""States of a TCP socket as numbered in include/net/tcp_states.h of Linux."""


@dataclass(frozen=True, slots=True)
class Socket:
    """One line of /proc/PID/net/tcp or tcp6. `inode` is 0 for a socket that no process holds (any more)."""

    local_port: int
    remote_port: int
    state: int
    inode: int

    def listens_on(self, port: int) -> bool:
        return self.state == _LISTEN and self.local_port == port


def sockets_of(process: Path) -> tuple[Socket, ...] | None:
    """The TCP sockets of the network namespace in which the process lives; `process` is its folder, `/proc/PID`.

    None when neither table can be read (the process is gone, or /proc hides it).
    """
    tables = [text for name in ("tcp", "tcp6") if (text := _text(process / "net" / name)) is not None]
    return tuple(socket for text in tables for socket in parse_table(text)) if tables else None


def parse_table(text: str) -> Iterator[Socket]:
    """The sockets in the text of /proc/PID/net/tcp or tcp6 (Linux, proc_pid_net(5)); other lines are passed over.

    Example (Linux 6.18): `0: 0100007F:7530 0100007F:A0C2 01 00000000:00000000 00:00000000 00000000 0 0 1078 1 …`.
    """
    for line in text.splitlines():
        cells = line.split()
        try:
            yield Socket(_port(cells[1]), _port(cells[2]), int(cells[3], 16), int(cells[9]))
        except (IndexError, ValueError):
            continue  # the heading


def listening_ports(sockets: tuple[Socket, ...], inodes: Set[int]) -> tuple[int, ...]:
    """Ports on which sockets with these inodes listen, ascending."""
    return tuple(sorted({each.local_port for each in sockets if each.state == _LISTEN and each.inode in inodes}))


def connection_count(sockets: tuple[Socket, ...], port: int) -> int:
    """Established connections that clients made to `port`. The client's own end of a loopback one does not count."""
    return sum(each.state == _ESTABLISHED and each.local_port == port for each in sockets)


def socket_inodes(process: Path) -> frozenset[int] | None:
    """Inodes of the sockets that a process holds open; None when its descriptors may not be read."""
    try:
        links = [_link(descriptor) for descriptor in (process / "fd").iterdir()]
    except OSError:
        return None
    return frozenset(int(link[8:-1]) for link in links if link.startswith("socket:["))


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)


def _link(descriptor: Path) -> str:
    try:
        return str(descriptor.readlink())
    except OSError:  # closed meanwhile
        return ""


def _text(path: Path) -> str | None:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return None
