"""A real Prometheus scrapes the real daemon, and the finding can be asked for."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PROMETHEUS, PROMTOOL = shutil.which("prometheus"), shutil.which("promtool")
LIMIT_S = 40.0
"""How long a real daemon and a real Prometheus may take on a busy machine before the test gives up."""

needs_prometheus = pytest.mark.skipif(
    PROMETHEUS is None or PROMTOOL is None, reason="no prometheus on PATH: make test unpacks Debian's"
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as answer:
        text: str = answer.read().decode()
    return text


def eventually(ask: Callable[[], str], wanted: Callable[[str], bool]) -> str:
    give_up = time.monotonic() + LIMIT_S
    seen = ""
    while time.monotonic() < give_up:
        with contextlib.suppress(OSError):
            seen = ask()
            if wanted(seen):
                return seen
        time.sleep(0.1)
    pytest.fail(f"waited {LIMIT_S:.0f} s, last seen: {seen[:500]!r}")


@contextlib.contextmanager
def daemon(scenario: str) -> Iterator[str]:
    """A running daemon on a simulated host; gives its address."""
    port = free_port()
    command = [sys.executable, "-m", "bubblewatch", "run", "--demo", scenario, "--listen", f"127.0.0.1:{port}"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: fetched(f"http://127.0.0.1:{port}/-/ready"), lambda text: text == "ready\n")
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        code = process.wait(10)
    assert code == 0


@contextlib.contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s"},
                "scrape_configs": [{"job_name": "bubblewatch", "static_configs": [{"targets": [target]}]}],
            }
        )
    )
    port = free_port()
    assert PROMETHEUS is not None
    arguments = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    process = subprocess.Popen(
        [PROMETHEUS, *arguments, f"--web.listen-address=127.0.0.1:{port}"],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def query(base: str, expression: str) -> list[dict[str, object]]:
    answer = json.loads(fetched(f"{base}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"))
    result: list[dict[str, object]] = answer["data"]["result"]
    return result


@needs_prometheus
def test_the_finding_can_be_queried_and_the_page_is_clean(tmp_path: Path) -> None:
    with daemon("pp8-story") as address:
        page = eventually(
            lambda: fetched(f"http://{address}/metrics"),
            lambda text: re.search(r'bubblewatch_finding\{[^}]*rule="cuda-graph-disabled"[^}]*\} 1', text) is not None,
        )
        checked = subprocess.run(
            [str(PROMTOOL), "check", "metrics"], input=page, capture_output=True, text=True, check=False
        )
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
        with prometheus(tmp_path, address) as base:
            found = eventually(
                lambda: json.dumps(query(base, 'bubblewatch_finding{rule="cuda-graph-disabled"} == 1')),
                lambda text: "cuda-graph-disabled" in text,
            )
            (series,) = json.loads(found)
            assert series["metric"]["severity"] == "warning"
            duty = query(base, "sum(bubblewatch_gpu_work_duty_ratio)")
            assert 0.3 < float(duty[0]["value"][1]) < 1.0  # type: ignore[index]


def test_the_snapshot_page_is_the_document_of_diagnose() -> None:
    with daemon("tp8") as address:
        document = json.loads(fetched(f"http://{address}/api/v1/snapshot"))
    assert document["schema_version"] == 1
    assert document["one_shot"] is False
    assert [s["kind"] for s in document["servers"]] == ["sglang"]
