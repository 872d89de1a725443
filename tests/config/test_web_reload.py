"""The web side while it serves: what changes takes effect without a gap, what is wrong changes nothing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bcrypt
import httpx
import pytest

from bubblewatch.app.config import Config
from bubblewatch.app.web_daemon import Web
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import UsageError
from bubblewatch.runtime.hub import Hub

APP = application(
    Hub(SystemClock()), Exposition(Hub(SystemClock()), "0"), Documents(lambda _: "{}", lambda what, _: what)
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@pytest.fixture
def config() -> Config:
    return Config(listen=(f"127.0.0.1:{free_port()}",))


@pytest.fixture
def web(config: Config) -> Iterator[Web]:
    serving = Web()
    serving.bind(config)
    serving.apply(config, APP)
    yield serving
    serving.close()


def status(url: str, **options: object) -> int:
    return httpx.get(f"{url}/-/healthy", timeout=20, **options).status_code  # type: ignore[arg-type]


def test_users_come_and_go_without_a_refused_connection(web: Web, config: Config, tmp_path: Path) -> None:
    (url,) = web.urls
    file = tmp_path / "web.yml"
    file.write_text(f"basic_auth_users: {{alice: '{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}'}}\n")
    seen: list[int] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            seen.append(status(url))

    asking = threading.Thread(target=ask)
    asking.start()
    web.apply(replace(config, web_config=str(file)), APP)
    assert status(url) == 401
    assert status(url, auth=("alice", "secret")) == 200
    web.apply(config, APP)
    assert status(url) == 200
    stop.set()
    asking.join(30)
    assert set(seen) == {200, 401}


def test_addresses_come_and_go(web: Web, config: Config, tmp_path: Path) -> None:
    (old,) = web.urls
    path = tmp_path / "b.sock"
    web.apply(replace(config, listen=(f"127.0.0.1:{free_port()}", f"unix:{path}")), APP)
    new, unix = web.urls
    assert status(new) == 200
    assert unix == f"unix:{path}"
    with pytest.raises(httpx.ConnectError):
        status(old)
    web.apply(config, APP)
    assert status(old) == 200
    assert not path.exists()


def test_what_is_wrong_changes_nothing(web: Web, config: Config, tmp_path: Path) -> None:
    (url,) = web.urls
    (tmp_path / "web.yml").write_text("basic_auth_users: {alice: secret}\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for wrong in (
            replace(config, web_config=str(tmp_path / "web.yml")),
            replace(config, listen=(f"127.0.0.1:{free_port()}", f"127.0.0.1:{taken.getsockname()[1]}")),
            replace(config, listen=("nonsense",)),
        ):
            with pytest.raises(UsageError):
                web.apply(wrong, APP)
            assert (web.urls, status(url), web.is_answering) == ((url,), 200, True)
