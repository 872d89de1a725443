"""The HTTP server: hypercorn on a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from hypercorn.asyncio import serve as hypercorn_serve
from hypercorn.config import Config, Sockets
from hypercorn.typing import Framework
from starlette.types import ASGIApp

from bubblewatch.exporter.sockets import BACKLOG, DEFAULT_HOST, Listener, listen_tcp

HTTP_LOG = "bubblewatch.exporter.http"
"""Logger of the server itself."""

DEFAULT_PORT = 9736
"""TCP port of the daemon."""

IDLE_S = 75
"""Seconds after which a connection without a whole request is closed: above Prometheus' usual scrape interval of 60 s,
so that scrapes reuse one, and short enough that half-sent requests do not pile up."""

HANDSHAKE_S = 10
"""Seconds that a TLS handshake may take."""

REQUEST_HEAD_BYTES = 16 * 1024
"""Largest request head: a scrape has less than one KiB."""

MOST_REQUESTS = 1000
"""Requests on one connection before it is closed."""

STOP_S = 0.5
"""Seconds that answers under way get when the server stops: a whole stop of the daemon shall take less than two."""

PULSE_S = 0.5
"""How often the thread shows that it still turns, in seconds."""


class ServerHandle:
    """A running server, until `stop` (from any thread, more than once is fine) or the end of its `with` block.

    It works on copies of the listeners' descriptors: they belong to the caller, who may start another server on them.
    """

    def __init__(self, app: ASGIApp, listeners: Sequence[Listener], tls: ssl.SSLContext | None = None) -> None:
        name = listeners[0].getsockname()
        self.host: str = name if isinstance(name, str) else name[0]
        self.port: int = 0 if isinstance(name, str) else name[1]
        scheme = "http" if tls is None else "https"
        self.urls = tuple(listener.url.format(scheme=scheme) for listener in listeners)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._pulse_at = time.monotonic()
        config = _Settings([Listener.of(listener.dup()) for listener in listeners], tls)
        self._thread = threading.Thread(target=self._run, args=(app, config), name="bubblewatch-http", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it answers first of all, without a slash at the end."""
        return self.urls[0]

    @property
    def is_serving(self) -> bool:
        return self._thread.is_alive()

    def has_answered(self, within_s: float) -> bool:
        """Whether the thread was seen at work within the last seconds: it runs, and no request holds it up."""
        return self._thread.is_alive() and time.monotonic() - self._pulse_at < within_s

    def stop(self) -> None:
        """Stop answering; returns when the thread has ended, or after a second when an answer hangs."""
        self.begin_stop()
        self._thread.join(STOP_S + 0.5)

    def begin_stop(self) -> None:
        """The same without waiting."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._stopping.set)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self, app: ASGIApp, config: Config) -> None:
        # A trigger of our own keeps hypercorn from installing signal handlers, which only the main thread may do.
        served = hypercorn_serve(cast(Framework, app), config, shutdown_trigger=self._stopping.wait, mode="asgi")
        self._loop.call_soon(self._pulse)
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(served)

    def _pulse(self) -> None:
        self._pulse_at = time.monotonic()
        self._loop.call_later(PULSE_S, self._pulse)


class OwnServer(ServerHandle):
    """A server that owns its one listener and closes it at the end."""

    def __init__(self, app: ASGIApp, listener: Listener) -> None:
        self._listener = listener
        super().__init__(app, [listener])

    def stop(self) -> None:
        super().stop()
        self._listener.close()


def serve(app: ASGIApp, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> ServerHandle:
    """A server that answers from now on. `port` 0 takes a free one, see `ServerHandle.port`.

    Raises UsageError when the address cannot be listened on. Works from any thread; handles no signals.
    """
    return OwnServer(app, listen_tcp(host, port))


def close_listeners(listeners: Sequence[Listener]) -> None:
    """Close them, and remove the paths of unix sockets."""
    for listener in listeners:
        name = listener.getsockname()
        listener.close()
        if isinstance(name, str):
            Path(name).unlink(missing_ok=True)


class _Settings(Config):
    """Hypercorn's settings, with sockets and TLS that are there already."""

    def __init__(self, listeners: Sequence[Listener], tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._listeners: list[socket.socket] = list(listeners)
        self._tls = tls
        for listener in self._listeners:
            listener.setblocking(False)
        self.backlog = BACKLOG
        self.accesslog = None
        self.errorlog = logging.getLogger(HTTP_LOG)
        self.keep_alive_timeout = IDLE_S
        self.read_timeout = IDLE_S
        self.ssl_handshake_timeout = HANDSHAKE_S
        self.keep_alive_max_requests = MOST_REQUESTS
        self.h11_max_incomplete_size = REQUEST_HEAD_BYTES
        self.h2_max_concurrent_streams = 16
        self.graceful_timeout = STOP_S
        self.include_server_header = False

    @property
    def ssl_enabled(self) -> bool:
        return self._tls is not None

    def create_ssl_context(self) -> ssl.SSLContext | None:
        return self._tls

    def create_sockets(self) -> Sockets:
        if self._tls is None:
            return Sockets([], self._listeners, [])
        return Sockets(self._listeners, [], [])
