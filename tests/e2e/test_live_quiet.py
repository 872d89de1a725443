"""The main job on real parts, with little or nothing to find: NVML through the stand-in library, journald, a real
process, the real command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.live import on_a_host, sglang

pytestmark = pytest.mark.root


def test_a_healthy_server(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("pp8-depth1")], "--seconds", "10")
    assert (done.code, done.document["verdict"]) == (0, "healthy")


def test_a_server_that_nobody_asks(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("no-demand")], "--seconds", "8")
    assert (done.code, done.document["verdict"]) == (0, "quiet")
    assert done.names()[0] == "no-demand"
    assert "pipeline-bubble" not in done.names()


def test_gpus_that_spin_while_nothing_runs(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [sglang("idle-spin")], "--seconds", "8")
    assert done.code == 1
    assert done.names()[0] == "idle-spin"


def test_gpus_without_server_log_or_command(tmp_path: Path) -> None:
    done = on_a_host(tmp_path, [], "--seconds", "6", before_s=0.5)
    assert (done.code, done.document["verdict"]) == (3, "cannot_judge")
    assert any("inference server" in text for text in done.document["missing"])
