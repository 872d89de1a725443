"""The HTTP server: hypercorn's connections on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.events import Event, Updated
from hypercorn.typing import ASGIFramework
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

MOST_CONNECTIONS = 256
"""Connections open at once. Above it one is hung up on, an idle one first and the oldest of those: a flood of
connections that say nothing pushes out itself, and a scrape, which takes milliseconds, still gets through. It also
leaves file descriptors (1024 by default) for the journal and the log files."""

ACCEPTED_AT_ONCE = 64
"""Connections taken in one turn of the loop: what they hold for some turns beside MOST_CONNECTIONS stays small."""

STOP_S = 0.5
"""Seconds that answers under way get when the server stops: a whole stop of the daemon shall take less than two."""

LAST_REQUEST_S = 0.1
"""Seconds in which a connection that was just accepted may still send its request when the server stops."""

PULSE_S = 0.5
"""How often the thread shows that it still turns, in seconds."""

log = logging.getLogger(HTTP_LOG)


class ServerHandle:
    """A running server, until `stop` (from any thread, more than once is fine) or the end of its `with` block.

    It works on copies of the listeners' descriptors: they belong to the caller, who may start another server on them.
    """

    def __init__(self, app: ASGIApp, listeners: Sequence[Listener], tls: ssl.SSLContext | None = None) -> None:
        name = listeners[0].socket.getsockname()
        self.host: str = name if isinstance(name, str) else name[0]
        self.port: int = 0 if isinstance(name, str) else name[1]
        scheme = "http" if tls is None else "https"
        self.urls = tuple(listener.url(scheme) for listener in listeners)
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._pulse_at = time.monotonic()
        copies = [listener.socket.dup() for listener in listeners]
        front = _Front(app, self._loop, self._stopping)
        served = front.serve(copies, tls)
        self._thread = threading.Thread(target=self._run, args=(served,), name="bubblewatch-http", daemon=True)
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

    def _run(self, served: Coroutine[None, None, None]) -> None:
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
        self._listener.socket.close()


def serve(app: ASGIApp, host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> ServerHandle:
    """A server that answers from now on. `port` 0 takes a free one, see `ServerHandle.port`.

    Raises UsageError when the address cannot be listened on. Works from any thread; handles no signals.
    """
    return OwnServer(app, listen_tcp(host, port))


class _Connection(TCPServer):
    """One connection, by hypercorn 0.18: HTTP/1.1, or HTTP/2 over TLS."""

    is_idle = True

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, Updated):
            self.is_idle = event.idle
        await super().protocol_send(event)

    async def _read_data(self) -> None:
        """Until the other end hangs up. The timer of an idle connection would keep ours open for its whole time."""
        await super()._read_data()
        await self.idle_task.stop()

    def hang_up(self) -> None:
        self.writer.transport.abort()


class _Front:
    """Accepts connections, as many as may be open at once. Runs on one event loop."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
        self._app = ASGIWrapper(cast(ASGIFramework, app))
        self._loop = loop
        self._stopping = stopping
        self._config = _config()
        self._context = WorkerContext(None)
        self._open: dict[_Connection, None] = {}

    async def serve(self, sockets: Sequence[socket.socket], tls: ssl.SSLContext | None) -> None:
        """Answer until told to stop; then give answers under way STOP_S, and hang up."""
        timeout_s = HANDSHAKE_S if tls is not None else None
        servers = [
            await asyncio.start_server(
                self._connected, sock=one, ssl=tls, backlog=ACCEPTED_AT_ONCE, ssl_handshake_timeout=timeout_s
            )
            for one in sockets
        ]
        for one in sockets:
            one.listen(BACKLOG)  # asyncio uses one number for both
        await self._stopping.wait()
        for server in servers:
            server.close()
        await asyncio.sleep(LAST_REQUEST_S)
        await self._context.terminated.set()  # idle connections end on this
        deadline = self._loop.time() + STOP_S
        while self._open and self._loop.time() < deadline:
            await asyncio.sleep(0.01)
        for connection in tuple(self._open):
            connection.hang_up()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_CONNECTIONS:
            chosen = next((one for one in self._open if one.is_idle), next(iter(self._open)))
            del self._open[chosen]
            chosen.hang_up()
        connection = _Connection(self._app, self._loop, self._config, self._context, {}, reader, writer)
        self._open[connection] = None
        try:
            await connection
        except Exception as error:  # noqa: BLE001  what one client sends ends its own connection and nothing else
            log.debug("connection ended error=%r", error)
            connection.hang_up()
        finally:
            self._open.pop(connection, None)


def close_listeners(listeners: Sequence[Listener]) -> None:
    """Close them, and remove the paths of unix sockets."""
    for listener in listeners:
        name = listener.socket.getsockname()
        listener.socket.close()
        if isinstance(name, str):
            Path(name).unlink(missing_ok=True)


def _config() -> Config:
    """Hypercorn's settings for a connection."""
    config = Config()
    config.accesslog = None
    config.errorlog = log
    config.keep_alive_timeout = IDLE_S
    config.read_timeout = IDLE_S
    config.keep_alive_max_requests = MOST_REQUESTS
    config.h11_max_incomplete_size = REQUEST_HEAD_BYTES
    config.h2_max_concurrent_streams = 16
    config.include_server_header = False
    return config
