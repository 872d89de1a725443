"""The main job on real parts: NVML through the stand-in library, journald, a real process, the real command."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.journald import private_journald

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.root


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    document: dict[str, Any]
    text: str

    def names(self) -> list[str]:
        return [finding["name"] for finding in self.document["findings"]]

    def finding(self, name: str) -> dict[str, Any]:
        return next(finding for finding in self.document["findings"] if finding["name"] == name)


def on_a_host(folder: Path, servers: list[dict[str, Any]], *options: str, before_s: float = 4.0, **config: Any) -> Done:
    """`bubblewatch diagnose OPTIONS --json` on a host with these servers."""
    command = [sys.executable, "-m", "bubblewatch", "diagnose", *options, "--json"]
    file = folder / "rig.json"
    file.write_text(
        json.dumps({"servers": servers, "command": command, "folder": str(folder), "before_s": before_s, **config})
    )
    rig = [sys.executable, "-m", "tests.support.live_rig", str(file)]
    ran = private_journald(rig, {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"})
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout.splitlines()[-1])
    assert answer["stdout"], answer["stderr"]
    return Done(answer["code"], json.loads(answer["stdout"]), answer["stdout"])


def sglang(scenario: str, **more: Any) -> dict[str, Any]:
    return {"scenario": scenario, "unit": "sglang.service", "version": "0.5.10", **more}


def test_the_story(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("pp8-story")], "--unit", "sglang.service", "--seconds", "10")
    assert done.code == 1
    assert done.document["verdict"] == "findings"
    assert done.names()[0] == "cuda-graph-disabled"
    assert {"pipeline-bubble", "micro-batch-unfilled", "async-depth-missing"} <= set(done.names())
    graphs = done.finding("cuda-graph-disabled")
    quoted = " ".join(e["text"] for e in graphs["evidence"])
    assert "--disable-cuda-graph (pid" in quoted
    assert 'say "cuda graph: False"' in quoted
    assert graphs["confidence"] == "certain"
    assert graphs["remedy"]["remove"] == ["--disable-cuda-graph"]
    assert done.finding("async-depth-missing")["held_back_by"] == ["cuda-graph-disabled", "micro-batch-unfilled"]
    assert "--pp-max-micro-batch-size" in done.finding("micro-batch-unfilled")["remedy"]["do"]
    (server,) = done.document["servers"]
    assert (server["kind"], server["version"], server["unit"]) == ("sglang", "0.5.10", "sglang.service")


def test_a_version_without_depth_never_hears_of_it(tmp_path: Path) -> None:
    old = sglang("pp8-story", version="0.5.6", drop=r"pp_async_batch_depth=\d+, ")
    done = on_a_host(tmp_path, [old], "--unit", "sglang", "--seconds", "10")
    assert done.code == 1
    assert done.names()[0] == "cuda-graph-disabled"
    assert "pp-async-batch-depth" not in done.text
    assert "pp_async_batch_depth" not in done.text


def test_a_healthy_server(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("pp8-depth1")], "--seconds", "10")
    assert (done.code, done.document["verdict"]) == (0, "healthy")


def test_a_server_that_nobody_asks(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("no-demand")], "--seconds", "8")
    assert (done.code, done.document["verdict"]) == (0, "quiet")
    assert done.names() == ["no-demand"]


def test_gpus_that_spin_while_nothing_runs(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("idle-spin")], "--seconds", "8")
    assert done.code == 1
    assert done.names()[0] == "idle-spin"


def test_gpus_without_server_log_or_command(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [], "--seconds", "6", before_s=0.5)
    assert (done.code, done.document["verdict"]) == (3, "cannot_judge")
    assert any("inference server" in text for text in done.document["missing"])


def test_two_servers_get_their_own_findings(tmp_path: Path) -> None:
    """The story on eight GPUs, and beside it a healthy tensor-parallel server on eight others."""
    two = [sglang("pp8-story"), sglang("tp8", unit="other.service", gpus=list(range(8, 16)))]
    done = on_a_host(tmp_path, two, "--seconds", "10", gpu_count=16)
    assert done.code == 1
    by_server = {f["target"] for f in done.document["findings"] if f["severity"] != "info"}
    assert by_server == {"server:sglang"}
    assert {s["unit"] for s in done.document["servers"]} == {"sglang.service", "other.service"}
