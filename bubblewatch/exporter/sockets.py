"""Sockets to listen on: TCP and unix."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path

from bubblewatch.model.errors import UsageError

DEFAULT_HOST = "127.0.0.1"
"""Only this machine: what is served tells how models are run here."""

BACKLOG = 1024
"""Connections that may wait to be accepted: in a flood a scrape has its place among them."""

UNIX_MODE = 0o660
"""Permissions of a unix socket: its owner and group."""

UNIX_PREFIX = "unix:"

_HINTS = {
    errno.EADDRINUSE: "another program, perhaps another bubblewatch, listens there: give --listen a free port",
    errno.EACCES: "ports below 1024 need root: give --listen a higher one",
    errno.EADDRNOTAVAIL: "this machine has no such address: give --listen one that it has",
}


def listen_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[V6]:PORT` or `:PORT` (loopback). Raises UsageError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal():
        raise UsageError(f"--listen {text!r} is not HOST:PORT", "for example 127.0.0.1:9736 or unix:/run/my.sock")
    return host.strip("[]") or DEFAULT_HOST, int(port)


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that listens. It belongs to whoever asked for it."""

    socket: socket.socket

    def url(self, scheme: str) -> str:
        """Where it is reached, without a slash at the end."""
        name = self.socket.getsockname()
        if isinstance(name, str):
            return f"{UNIX_PREFIX}{name}"
        host, port = name[:2]
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def listen(address: str) -> Listener:
    """A socket that listens on `HOST:PORT` or `unix:/path`. Raises UsageError when that cannot be."""
    if address.startswith(UNIX_PREFIX):
        return _listen_unix(address.removeprefix(UNIX_PREFIX))
    return listen_tcp(*listen_address(address))


def listen_tcp(host: str, port: int) -> Listener:
    """A socket that listens on this address; port 0 takes a free one. Raises UsageError when that cannot be."""
    place = f"{host}:{port}"
    if not 0 <= port <= 65535:
        raise UsageError(f"Cannot listen on {place}: ports are 0 to 65535", "give --listen another port")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(
            f"Cannot listen on {place}: no such host", "give --listen an address of this machine"
        ) from error
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return _listening(bound, address, place)


def _listen_unix(path: str) -> Listener:
    """A socket of this path. A socket on which nobody listens any more is replaced, nothing else is."""
    if not path.startswith("/"):
        raise UsageError(f"Cannot listen on {UNIX_PREFIX}{path}: the path does not start with a slash")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(Path(path).lstat().st_mode) and not _answers(path):
            Path(path).unlink()
    os.fchmod(bound.fileno(), UNIX_MODE)  # on Linux a bound socket gets these, cut by the umask
    listener = _listening(bound, path, f"{UNIX_PREFIX}{path}")
    with contextlib.suppress(OSError):
        Path(path).chmod(UNIX_MODE)
    return listener


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(path) == 0


def _listening(bound: socket.socket, address: tuple[object, ...] | str, place: str) -> Listener:
    try:
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        what = error.strerror or str(error)  # a path that is too long has no error number
        raise UsageError(f"Cannot listen on {place}: {what}", _HINTS.get(error.errno or 0)) from error
    bound.setblocking(False)
    return Listener(bound)
