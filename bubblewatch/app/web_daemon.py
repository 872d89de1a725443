"""The daemon's web side: it can be changed while it serves, and a wrong change leaves it as it was."""

from __future__ import annotations

import platform
import socket
from collections.abc import Sequence

from starlette.types import ASGIApp

from bubblewatch.app.config import Config
from bubblewatch.exporter.server import ServerHandle, close_listeners
from bubblewatch.exporter.sockets import Listener, listen
from bubblewatch.exporter.web_config import WebConfig, read_web_config
from bubblewatch.exporter.web_gate import Gate

ANSWERING_S = 10.0
"""A web thread that was not seen at work for so many seconds hangs: no page takes longer than a fraction of one."""


class Web:
    """What is listened on and who answers. One thread calls it; `close` it at the end."""

    def __init__(self) -> None:
        self._listeners: dict[str, Listener] = {}
        self._server: ServerHandle | None = None

    @property
    def urls(self) -> tuple[str, ...]:
        return self._server.urls if self._server is not None else ()

    @property
    def is_answering(self) -> bool:
        return self._server is not None and self._server.has_answered(ANSWERING_S)

    def bind(self, config: Config) -> None:
        """Take the addresses, so that a wrong one is told before anything else is started. Raises UsageError."""
        self._listeners |= self._new_listeners(config.listen)

    def apply(self, config: Config, app: ASGIApp) -> None:
        """Serve `app` as `config` says from now on, without a gap on addresses that stay.

        Raises ConfigError or UsageError, and then everything is as before.
        """
        web = read_web_config(config.web_config) if config.web_config is not None else WebConfig()
        tls = web.tls.context() if web.tls is not None else None
        new = self._new_listeners(config.listen)
        listeners = {address: (self._listeners | new)[address] for address in config.listen}
        before, self._server = (
            self._server,
            ServerHandle(Gate(app, web, _own_names(), config.hosts), list(listeners.values()), tls),
        )
        gone = [listener for address, listener in self._listeners.items() if address not in listeners]
        self._listeners = listeners
        if before is not None:
            before.stop()
        close_listeners(gone)

    def begin_stop(self) -> None:
        """Have the answers under way finished, without waiting for that."""
        if self._server is not None:
            self._server.begin_stop()

    def close(self) -> None:
        """Stop answering and listening."""
        if self._server is not None:
            self._server.stop()
        close_listeners(list(self._listeners.values()))
        self._listeners = {}

    def _new_listeners(self, addresses: Sequence[str]) -> dict[str, Listener]:
        new: dict[str, Listener] = {}
        try:
            for address in addresses:
                if address not in self._listeners:
                    new[address] = listen(address)
        except BaseException:
            close_listeners(list(new.values()))
            raise
        return new


def _own_names() -> tuple[str, ...]:
    return tuple({platform.node(), socket.getfqdn()})
