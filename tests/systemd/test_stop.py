"""The daemon ends in time whatever hangs, also where no systemd watches it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from tests.nvml_shim.shim import Feed, build, control, environment

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 2.0


@pytest.fixture
def address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listener.getsockname()[1]}"


class Daemon:
    """A running daemon; what it says is in the file `said`."""

    def __init__(self, folder: Path, address: str, *options: str, variables: dict[str, str] | None = None) -> None:
        self.said = folder / "said"
        self.address = address
        with self.said.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bubblewatch", "run", "--listen", address, *options],
                cwd=ROOT,
                env={**os.environ, **(variables or {})},
                stderr=output,
            )

    def wait(self, text: str = "ready\n", page: str = "/-/ready") -> None:
        give_up = time.monotonic() + 40
        while time.monotonic() < give_up and self.process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://{self.address}{page}", timeout=5) as answer:
                if text in answer.read().decode():
                    return
            time.sleep(0.05)
        raise AssertionError(self.said.read_text())

    def stop(self) -> float:
        """Seconds from the signal to the end."""
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        return time.monotonic() - started


@pytest.fixture
def shim(tmp_path: Path) -> dict[str, str]:
    feed = Feed(tmp_path / "feed", 2)
    for gpu in range(2):
        feed.set(gpu, power_instant_w=100.0, power_average_w=100.0, util_ratio=0.5)
    (tmp_path / "control").write_text("")
    return environment(build(), tmp_path / "feed", tmp_path / "control", tmp_path / "calls")


def test_a_child_that_hangs_in_the_driver_is_not_waited_for(tmp_path: Path, address: str, shim: dict[str, str]) -> None:
    daemon = Daemon(tmp_path, address, variables=shim)
    daemon.wait("bubblewatch_gpu", "/metrics")
    control(tmp_path / "control", "hang 1\n")
    time.sleep(1.0)
    took_s = daemon.stop()

    assert daemon.process.returncode == 0, daemon.said.read_text()
    assert took_s < LIMIT_S


def test_children_that_are_left_behind_are_known() -> None:
    """No test can hold a process in the kernel; one that nobody has told to end stands for it."""
    from bubblewatch.sources.proc import own_children

    sleeper = subprocess.Popen(["sleep", "60"])
    assert sleeper.pid in own_children()
    sleeper.kill()
    sleeper.wait()
    assert sleeper.pid not in own_children()


def test_it_ends_in_time_with_connections_open(tmp_path: Path, address: str) -> None:
    daemon = Daemon(tmp_path, address, "--demo", "pp8-story")
    daemon.wait()
    host, _, port = address.partition(":")
    with (
        socket.create_connection((host, int(port))) as idle,
        urllib.request.urlopen(f"http://{address}/api/v1/stream", timeout=5) as stream,
    ):
        stream.readline()
        assert daemon.stop() < LIMIT_S
        idle.close()
    assert daemon.process.returncode == 0, daemon.said.read_text()


def test_it_ends_at_once_while_it_is_still_starting(tmp_path: Path, address: str, shim: dict[str, str]) -> None:
    control(tmp_path / "control", "hang 0\nhang 1\n")
    daemon = Daemon(tmp_path, address, variables=shim)
    time.sleep(2.0)
    assert daemon.stop() < LIMIT_S
    assert daemon.process.returncode == 0, daemon.said.read_text()


def test_a_reload_without_systemd(tmp_path: Path, address: str) -> None:
    file = tmp_path / "c.toml"
    file.write_text("")
    daemon = Daemon(tmp_path, address, "--demo", "pp8-story", "--config", str(file))
    daemon.wait()
    file.write_text('[watch]\nwindow = "1m"\nrate = 5\n')
    daemon.process.send_signal(signal.SIGHUP)
    give_up = time.monotonic() + 20
    while "reloaded" not in daemon.said.read_text() and time.monotonic() < give_up:
        time.sleep(0.05)
    daemon.stop()
    said = daemon.said.read_text()
    assert "setting changed key=watch.window in_force=now" in said
    assert "setting changed key=watch.rate in_force=after a restart" in said
