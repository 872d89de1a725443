"""The HTTP server: hypercorn on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from types import TracebackType
from typing import Self, cast

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config
from hypercorn.typing import Framework
from starlette.types import ASGIApp

from bubblewatch.model.errors import UsageError

DEFAULT_HOST = "127.0.0.1"
"""Only this machine: what is served tells how models are run here."""

DEFAULT_PORT = 9736
"""TCP port of the daemon."""

IDLE_S = 75
"""Seconds after which a connection without a whole request is closed: above Prometheus' usual scrape interval of 60 s,
so that scrapes reuse one, and short enough that half-sent requests do not pile up."""

REQUEST_HEAD_BYTES = 16 * 1024
"""Largest request head: a scrape has less than one KiB."""

STOP_S = 2
"""Seconds that answers under way get when the server stops."""

BACKLOG = 64
"""Connections that may wait to be accepted: scrapers and a few people."""

_HINTS = {
    errno.EADDRINUSE: "another program, perhaps another bubblewatch, listens there: give --listen a free port",
    errno.EACCES: "ports below 1024 need root: give --listen a higher one",
    errno.EADDRNOTAVAIL: "this machine has no such address: give --listen one that it has",
}


class ServerHandle:
    """A running server, until `stop` (from any thread, more than once is fine) or the end of its `with` block."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        self.host: str = listener.getsockname()[0]
        self.port: int = listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        config = _config(listener)
        self._thread = threading.Thread(target=self._run, args=(app, config), name="bubblewatch-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it answers, without a slash at the end."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def is_serving(self) -> bool:
        return self._thread.is_alive()

    def stop(self) -> None:
        """Stop listening; returns when the thread has ended, or after a few seconds when an answer hangs."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(STOP_S + 3)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, app: ASGIApp, config: Config) -> None:
        # A trigger of our own keeps hypercorn from installing signal handlers, which only the main thread may do.
        served = hypercorn_serve(cast(Framework, app), config, shutdown_trigger=self._stopping.wait, mode="asgi")
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(served)


def serve(app: ASGIApp, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> ServerHandle:
    """A server that answers from now on. `port` 0 takes a free one, see `ServerHandle.port`.

    Raises UsageError when the address cannot be listened on. Works from any thread; handles no signals.
    """
    return ServerHandle(app, _listen(host, port))


def _listen(host: str, port: int) -> socket.socket:
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
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(f"Cannot listen on {place}: {error.strerror}", _HINTS.get(error.errno or 0)) from error
    return listener


def _config(listener: socket.socket) -> Config:
    """Hypercorn's settings; it takes over the file descriptor of `listener`."""
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.backlog = BACKLOG
    config.accesslog = None
    config.errorlog = logging.getLogger("bubblewatch.exporter")
    config.keep_alive_timeout = IDLE_S
    config.read_timeout = IDLE_S
    config.h11_max_incomplete_size = REQUEST_HEAD_BYTES
    config.graceful_timeout = STOP_S
    config.include_server_header = False
    return config
