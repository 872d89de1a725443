"""The main job on real parts, with something to find: NVML through the stand-in library, journald, a real process,
the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.live import on_a_host, sglang

pytestmark = pytest.mark.root


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


def test_secrets_of_command_environment_and_log_appear_nowhere(tmp_path: Path) -> None:
    secrets = ["sk-planted-in-argv-0123456789", "hf_plantedinenvironmentabcdefgh", "planted-in-the-log-0123456789"]
    leaky = sglang(
        "pp8-story",
        more_argv=["--api-key", secrets[0]],
        environment={"HF_TOKEN": secrets[1], "SGLANG_API_KEY": secrets[1]},
        says=[f"[2026-01-01 00:00:00] Receive: headers={{'authorization': 'Bearer {secrets[2]}'}}"],
    )
    done = on_a_host(tmp_path, [leaky], "--unit", "sglang", "--seconds", "6")
    assert done.code == 1
    assert "--api-key" in done.text
    assert not [secret for secret in secrets if secret in done.text]


def test_a_version_without_depth_never_hears_of_it(tmp_path: Path) -> None:
    old = sglang("pp8-story", version="0.5.6", drop=r"pp_async_batch_depth=\d+, ")
    done = on_a_host(tmp_path, [old], "--unit", "sglang", "--seconds", "10")
    assert done.code == 1
    assert done.names()[0] == "cuda-graph-disabled"
    assert "pp-async-batch-depth" not in done.text
    assert "pp_async_batch_depth" not in done.text


def test_two_servers_get_their_own_findings(tmp_path: Path) -> None:
    """The story on eight GPUs, and beside it a healthy tensor-parallel server on eight others."""
    two = [sglang("pp8-story"), sglang("tp8", unit="other.service", gpus=list(range(8, 16)))]
    done = on_a_host(tmp_path, two, "--seconds", "10", gpu_count=16)
    assert done.code == 1
    by_server = {f["target"] for f in done.document["findings"] if f["severity"] != "info"}
    assert by_server == {"server:sglang"}
    assert {s["unit"] for s in done.document["servers"]} == {"sglang.service", "other.service"}
