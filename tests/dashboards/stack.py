"""Three simulated hosts under real daemons, a real Prometheus with our rules, a real Alertmanager, and a webhook."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.dashboards.history import write_blocks

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "rules" / "alerts"
HOSTS = {"gpu07": "pp8-story", "gpu08": "tp8", "gpu09": "hung"}
"""Host -> what is simulated on it."""

PEERS = Path(__file__).parent / "peers"
REPLAYED = {"dcgm": "gpu07:9400", "nvidia_gpu_exporter": "gpu07:9835", "vllm": "gpu08:30000", "sglang": "gpu07:30000"}
"""File of a replayed exposition -> the address at which it is scraped. Every server here listens on 30000."""

LIMIT_S = 90.0
"""How long real programs may take on a busy machine before a test gives up."""

HISTORY_ENDS_S = 600.0
"""The history ends so many seconds ago, so that what is asked of the present comes from the live daemons."""


@dataclass
class Stack:
    """What runs, and how to ask it."""

    prometheus: str
    daemons: dict[str, str]
    started_s: float
    posts: list[dict[str, Any]] = field(default_factory=list)

    def query(self, expr: str, at_s: float | None = None) -> list[dict[str, Any]]:
        parameters = {"query": expr} | ({} if at_s is None else {"time": f"{at_s:.3f}"})
        return self.asked("query", parameters)["result"]

    def query_range(self, expr: str, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        span = {"start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s}"}
        return self.asked("query_range", {"query": expr, **span})["result"]

    def asked(self, path: str, parameters: dict[str, str]) -> Any:
        url = f"{self.prometheus}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            return json.loads(fetched(url))["data"]
        except urllib.error.HTTPError as error:
            pytest.fail(f"{parameters}: {error.read().decode()}")


def programs() -> tuple[str, str, str]:
    """Paths of prometheus, promtool and the Alertmanager; skips where they are not there."""
    names = ("prometheus", "promtool", "prometheus-alertmanager")
    found = [shutil.which(name) or shutil.which(name, path=ROOT / ".tools" / "usr" / "bin") for name in names]
    if None in found:
        pytest.skip("no prometheus on PATH: make test unpacks Debian's")
    prometheus, promtool, alertmanager = (str(path) for path in found)
    return prometheus, promtool, alertmanager


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def until(done: Callable[[], bool], what: Callable[[], str]) -> None:
    """Wait for `done`; fails with `what` after the limit."""
    give_up = time.monotonic() + LIMIT_S
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError):
            if done():
                return
        time.sleep(0.3)
    pytest.fail(f"waited {LIMIT_S:.0f} s: {what()}")


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def running(*commands: Sequence[str]) -> Iterator[None]:
    """These programs, until the block ends."""
    processes = [subprocess.Popen(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for c in commands]
    try:
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(20)


@contextlib.contextmanager
def webhook(posts: list[dict[str, Any]]) -> Iterator[str]:
    """A server that keeps what is posted to it."""

    class Keep(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
            """Quiet."""

    with serving(Keep) as address:
        yield f"http://{address}/"


def daemon_command(host: str, scenario: str, port: int) -> list[str]:
    """The daemon on a machine of this name."""
    start = f"import platform; platform.node = lambda: {host!r}; from bubblewatch.cli import main; main()"
    return [sys.executable, "-c", start, "run", "--demo", scenario, "--listen", f"127.0.0.1:{port}"]


def with_its_share(alertmanager: str) -> list[str]:
    """The command under which Debian's Alertmanager finds its templates, which it looks for in /usr/share only.

    Where it is unpacked and not installed, its own share folder takes that place, in a mount namespace (needs root).
    """
    share = Path(alertmanager).parent.parent / "share"
    if share == Path("/usr/share") or os.geteuid() != 0:
        return [alertmanager]
    inside = 'mount --bind "$0" /usr/share && exec "$@"'
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, str(share), alertmanager]


def impatient_rules(folder: Path) -> list[str]:
    """Copies of the shipped rules whose alerts fire at once. Nothing else is changed."""
    copies = []
    for path in sorted(ALERTS.glob("*.yaml")):
        if "test" not in path.name:
            copy = folder / path.name
            copy.write_text(re.sub(r"(?m)^( +for:) \d+m$", r"\1 1s", path.read_text()))
            copies.append(str(copy))
    return copies


@contextlib.contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """Everything, with six hours of history of the first host."""
    prometheus, promtool, alertmanager = programs()
    *ports, absent, metrics, alerts = free_ports(len(HOSTS) + 3)
    daemons = {host: f"127.0.0.1:{port}" for host, port in zip(HOSTS, ports, strict=True)}
    started_s = time.time()
    data = folder / "data"
    data.mkdir()
    write_blocks(data, promtool, "pp8-story", daemons["gpu07"], "gpu07", started_s - HISTORY_ENDS_S)
    made = Stack(f"http://127.0.0.1:{metrics}", daemons, started_s)
    with webhook(made.posts) as hook, files_served(PEERS) as replays:
        jobs = scraped(daemons, f"127.0.0.1:{absent}", replays)
        configs = _configs(folder, jobs, f"127.0.0.1:{alerts}", hook)
        with running(
            *(daemon_command(host, HOSTS[host], port) for host, port in zip(HOSTS, ports, strict=True)),
            [
                prometheus,
                f"--config.file={configs[0]}",
                f"--storage.tsdb.path={data}",
                f"--web.listen-address=127.0.0.1:{metrics}",
            ],
            [
                *with_its_share(alertmanager),
                f"--config.file={configs[1]}",
                f"--storage.path={folder / 'alertmanager'}",
                f"--web.listen-address=127.0.0.1:{alerts}",
                "--cluster.listen-address=",
            ],
        ):
            until(lambda: bool(fetched(f"{made.prometheus}/-/ready")), lambda: "Prometheus does not start")
            yield made


def scraped(daemons: dict[str, str], absent: str, replays: str) -> list[dict[str, Any]]:
    """The scrape configuration: the daemons, one that does not answer, and what others export, replayed.

    Simulated GPUs have the same uuid on every host, which real ones never have.
    """
    jobs: list[dict[str, Any]] = [
        {"job_name": "bubblewatch", "static_configs": [{"targets": [daemons["gpu07"], absent]}]}
    ]
    for host in ("gpu08", "gpu09"):
        own = {
            "source_labels": ["uuid"],
            "regex": "GPU-(.+)",
            "target_label": "uuid",
            "replacement": f"GPU-{host}-$1",
        }
        jobs.append(
            {
                "job_name": f"bubblewatch-{host}",
                "static_configs": [{"targets": [daemons[host]]}],
                "metric_relabel_configs": [own],
            }
        )
    for name, instance in REPLAYED.items():
        config = {"targets": [replays], "labels": {"instance": instance}}
        jobs.append({"job_name": name, "metrics_path": f"/{name}.prom", "static_configs": [config]})
    return jobs


@contextlib.contextmanager
def files_served(folder: Path) -> Iterator[str]:
    """HOST:PORT of a server of the files in this folder."""

    class Serve(SimpleHTTPRequestHandler):
        extensions_map: ClassVar[dict[str, str]] = {".prom": "text/plain; version=0.0.4"}

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
            """Quiet."""

    with serving(partial(Serve, directory=str(folder))) as address:
        yield address


@contextlib.contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """HOST:PORT of a server with this handler."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _configs(folder: Path, scrape: list[dict[str, Any]], alertmanager: str, hook: str) -> tuple[Path, Path]:
    prometheus = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": impatient_rules(folder),
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        "scrape_configs": scrape,
    }
    route = {"receiver": "hook", "group_by": ["alertname"], "group_wait": "1s", "group_interval": "1s"}
    receivers = [{"name": "hook", "webhook_configs": [{"url": hook}]}]
    files = folder / "prometheus.json", folder / "alertmanager.json"
    for file, content in zip(files, (prometheus, {"route": route, "receivers": receivers}), strict=True):
        file.write_text(json.dumps(content))
    return files
