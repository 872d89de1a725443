"""A real process that looks like an SGLang server from outside: command line, children, port, clients, log, metrics.

It runs under an interpreter of its own virtual environment (links and a few files), so that its version can be found
beside it. Nothing of SGLang is needed or imitated beyond what a look at /proc, at the log and at the pages shows.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

START_LIMIT_S = 30.0
"""A start takes 0.2 s on an idle machine; a loaded one gets the benefit of the doubt."""

SERVER_CODE = """
import http.server, json, os, socket, subprocess, sys, threading

config = json.load(open(os.environ["FAKE_SERVER_CONFIG"]))


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = config["pages"].get(self.path.partition("?")[0])
        body = open(path, "rb").read() if path and os.path.exists(path) else b"Not Found"
        self.send_response(200 if path and os.path.exists(path) else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 256


server = Server(("127.0.0.1", config["port"]), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
workers = [
    subprocess.Popen([title], executable="/bin/sh", stdin=subprocess.PIPE, env={})  # a shell waits for its next command
    for title in config["titles"]
]
ready = {"port": server.server_address[1], "workers": [worker.pid for worker in workers]}
with open(config["ready"] + ".part", "w") as file:
    json.dump(ready, file)
os.rename(config["ready"] + ".part", config["ready"])
for line in sys.stdin:
    print(line, end="", flush=True)
"""
"""The fake's main module. It prints what comes on its standard input, and ends with it; its children end with it."""


@dataclass(slots=True)
class FakeServer:
    """Handle of a running fake: `stop()` ends it and everything it started."""

    process: subprocess.Popen[bytes]
    port: int
    worker_pids: tuple[int, ...]
    log_path: Path | None
    folder: Path
    clients: list[socket.socket] = field(default_factory=list)
    _feeder: threading.Thread | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def pid(self) -> int:
        return self.process.pid

    def say(self, line: str) -> None:
        """Make the server print one line; nothing when it is gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError):
            self._stopping.set()

    def connect(self, count: int) -> None:
        """Open that many client connections and hold them."""
        self.clients += [socket.create_connection(("127.0.0.1", self.port), timeout=5) for _ in range(count)]

    def disconnect(self) -> None:
        for client in self.clients:
            client.close()
        self.clients.clear()

    def feed(self, lines: Iterable[str | tuple[float, str]]) -> None:
        """Print these lines from a thread; a pair waits that many seconds before its line."""
        self._feeder = threading.Thread(target=self._run_feed, args=(lines,), daemon=True)
        self._feeder.start()

    def _run_feed(self, lines: Iterable[str | tuple[float, str]]) -> None:
        for item in lines:
            delay_s, line = (0.0, item) if isinstance(item, str) else item
            if self._stopping.wait(delay_s):
                return
            self.say(line)

    def finished_feeding(self, timeout_s: float = 10.0) -> None:
        """Wait until every line has been handed to the server."""
        assert self._feeder is not None
        self._feeder.join(timeout_s)

    def stop(self) -> None:
        self._stopping.set()
        if self._feeder is not None:
            self._feeder.join(5)
        self.disconnect()
        for pid in (self.pid, *self.worker_pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait(10)
        if self.process.stdin is not None:
            self.process.stdin.close()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(self, *unused: object) -> None:
        self.stop()


def scheduler_titles(pp: int) -> tuple[str, ...]:
    """Titles of the workers of an SGLang server with `pp` stages and no tensor parallelism."""
    return tuple(f"sglang::scheduler_PP{stage}" for stage in range(pp)) if pp > 1 else ("sglang::scheduler",)


def start_fake_server(
    folder: Path,
    argv_tail: Sequence[str] = ("--model-path", "/models/k26", "--pp-size", "8"),
    version: str = "0.5.10",
    log_lines: Iterable[str | tuple[float, str]] = (),
    clients: int = 8,
    metrics: str | None = None,
    *,
    pages: Mapping[str, str] | None = None,
    titles: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    stdout: int | IO[bytes] | None = None,
    cgroup: Path | None = None,
    port: int = 0,
) -> FakeServer:
    """A running server with the command line `…/python -m sglang.launch_server ARGV_TAIL`, its workers and clients.

    Its log goes to `folder/server.log` unless `stdout` is given. `metrics` is the text of its /metrics page (a 404
    without), `pages` that of others. `titles` are those of its children, eight pipeline stages by default. `cgroup` is
    a control group that it joins before it starts. The port is a free one unless `--port` stands in `argv_tail`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    python = _virtual_environment(folder / "venv", version)
    tail = list(argv_tail)
    if "--port" in tail:
        port = int(tail[tail.index("--port") + 1])
    config = _configuration(folder, port, titles if titles is not None else scheduler_titles(8), metrics, pages or {})
    log_path = folder / "server.log" if stdout is None else None
    output: int | IO[bytes] = stdout if stdout is not None else (folder / "server.log").open("wb")
    join = f"echo $$ > '{cgroup}/cgroup.procs' && " if cgroup is not None else ""
    process = subprocess.Popen(
        ["/bin/sh", "-c", f'{join}exec "$@"', "sh", str(python), "-m", "sglang.launch_server", *tail],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"], "FAKE_SERVER_CONFIG": str(config), **(environment or {})},
    )
    ready = _wait_ready(process, folder / "ready.json")
    if log_path is not None and not isinstance(output, int):
        output.close()
    server = FakeServer(process, ready["port"], tuple(ready["workers"]), log_path, folder)
    try:
        server.connect(clients)
        server.feed(log_lines)
    except BaseException:
        server.stop()
        raise
    return server


def _configuration(
    folder: Path, port: int, titles: Sequence[str], metrics: str | None, pages: Mapping[str, str]
) -> Path:
    texts = dict(pages) if metrics is None else {**pages, "/metrics": metrics}
    files = {}
    for number, (path, text) in enumerate(texts.items()):
        file = folder / f"page{number}"
        file.write_text(text)
        files[path] = str(file)
    ready = folder / "ready.json"
    ready.unlink(missing_ok=True)
    config = folder / "config.json"
    config.write_text(json.dumps({"port": port, "titles": list(titles), "pages": files, "ready": str(ready)}))
    return config


def _virtual_environment(folder: Path, version: str) -> Path:
    """A virtual environment with nothing in it but the fake package and its version; returns its interpreter."""
    python = folder / "bin" / "python"
    packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    shutil.rmtree(folder, ignore_errors=True)
    python.parent.mkdir(parents=True)
    base = Path(sys.base_prefix) / "bin"
    python.symlink_to(Path(os.path.realpath(sys.executable)))
    (folder / "pyvenv.cfg").write_text(f"home = {base}\ninclude-system-site-packages = false\n")
    (packages / "sglang").mkdir(parents=True)
    (packages / "sglang" / "__init__.py").write_text("")
    (packages / "sglang" / "launch_server.py").write_text(SERVER_CODE)
    information = packages / f"sglang-{version}.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    return python


def _wait_ready(process: subprocess.Popen[bytes], path: Path) -> dict[str, object]:
    deadline = time.monotonic() + START_LIMIT_S
    while not path.exists():
        if process.poll() is not None:
            message = f"the fake server ended at once with status {process.returncode}"
            raise RuntimeError(message)
        if time.monotonic() > deadline:
            process.kill()
            message = f"the fake server was not ready within {START_LIMIT_S:g} s"
            raise RuntimeError(message)
        time.sleep(0.01)
    return json.loads(path.read_text())
