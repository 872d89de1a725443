"""The model of a server: named by the user, or found in the server's own files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bubblewatch.app.live import _model_place, _model_reader
from bubblewatch.app.offline import EvidenceFiles, judge_files
from bubblewatch.app.rules import rules_in_force
from bubblewatch.model.errors import UsageError
from bubblewatch.model.findings import Answer
from bubblewatch.model.protocols import ProcessSeen
from bubblewatch.model.server import Epoch, Launch
from bubblewatch.model.shape import ModelShape, ShapeBasis
from bubblewatch.model.telemetry import Telemetry
from bubblewatch.report.words import measured_words
from bubblewatch.runtime.server_watch import ServerWatch
from bubblewatch.servers import registry
from bubblewatch.signals.evidence import Stated
from bubblewatch.sources.model_files import given_model, served_model
from tests.support.model_folder import DENSE, dense_tensors, write_model

LLAMA_70B = {
    "model_type": "llama", "num_hidden_layers": 80, "hidden_size": 8192, "num_attention_heads": 64,
    "num_key_value_heads": 8, "intermediate_size": 28672, "vocab_size": 128256,
    "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"},
}  # fmt: skip
ENGINE = (
    "INFO 07-01 10:00:{second:02d} [loggers.py:248] Engine 000: Avg prompt throughput: 0.0 tokens/s, "
    "Avg generation throughput: {tps} tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.3%, "
    "Prefix cache hit rate: 0.0%"
)


def files(folder: Path, tps: float, model: Path | None) -> EvidenceFiles:
    """A dense 70B in 4 bit on one GB10, as in NVIDIA/dgx-spark-playbooks#91."""
    log = folder / "server.log"
    log.write_text("\n".join(ENGINE.format(second=10 * i, tps=tps) for i in range(6)), encoding="utf-8")
    return EvidenceFiles(
        command="vllm serve nvidia/Llama-3.3-70B-Instruct-NVFP4 --tensor-parallel-size 1",
        log=str(log),
        version="0.11.0",
        model_config=None if model is None else str(model),
        stated=Stated(running=1, gpu_model="GB10"),
    )


def test_slow_and_right_is_said_with_its_reason(tmp_path: Path) -> None:
    model = write_model(tmp_path / "llama", LLAMA_70B)
    snapshot = judge_files(files(tmp_path, 4.1, model), rules_in_force(), (), 0)
    found = {finding.name: finding for finding in snapshot.findings}
    assert snapshot.answer is Answer.HEALTHY
    assert {"near-roofline", "healthy"} <= set(found)
    assert any("at most 6.72 tok/s with 1 running" in piece.text for piece in found["near-roofline"].evidence)
    assert "that memory bandwidth allows)" in measured_words(snapshot.views[0].signals)
    assert any(source.name == "model" for source in snapshot.sources)


def test_a_tenth_of_what_is_possible_is_not_near_it(tmp_path: Path) -> None:
    model = write_model(tmp_path / "llama", LLAMA_70B)
    snapshot = judge_files(files(tmp_path, 0.6, model), rules_in_force(), (), 0)
    assert "near-roofline" not in {finding.name for finding in snapshot.findings}
    assert "(9 % of the" in measured_words(snapshot.views[0].signals)


def test_without_the_model_nothing_is_claimed(tmp_path: Path) -> None:
    snapshot = judge_files(files(tmp_path, 4.1, None), rules_in_force(), (), 0)
    assert "near-roofline" not in {finding.name for finding in snapshot.findings}
    assert "--model-config" in snapshot.views[0].signals.why_missing("roofline.tps")


def test_a_model_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none/config\.json: cannot be read|none: cannot be read"):
        judge_files(files(tmp_path, 4.1, tmp_path / "none"), rules_in_force(), (), 0)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[int]:
    """A process with a home and a working directory of its own."""
    (tmp_path / "work").mkdir()
    done = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        cwd=tmp_path / "work",
        env={"HOME": str(tmp_path / "home")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert done.stdout is not None
    done.stdout.readline()
    yield done.pid
    done.communicate(b"\n")


def seen(pid: int, model: str, ticks: int = 1) -> ProcessSeen:
    argv = ("python", "-m", "sglang.launch_server", "--model-path", model)
    return ProcessSeen(
        pid, Epoch("boot", pid, ticks), Launch(argv, working_directory=str(Path(f"/proc/{pid}/cwd").readlink()))
    )


def test_a_running_server_names_its_model_by_folder_or_by_its_name_on_the_hub(tmp_path: Path, process: int) -> None:
    write_model(tmp_path / "work/models/k", DENSE, dense_tensors())
    write_model(tmp_path / "home/.cache/huggingface/hub/models--Org--Model/snapshots/1", DENSE)
    for name, basis in (
        (str(tmp_path / "work/models/k"), ShapeBasis.HEADERS),
        ("models/k", ShapeBasis.HEADERS),
        ("Org/Model", ShapeBasis.CONFIG),
    ):
        shape = served_model(_model_place(seen(process, name), name))
        assert shape is not None
        assert shape.basis is basis
    assert served_model(_model_place(seen(process, "Org/Other"), "Org/Other")) is None


def test_a_process_that_is_gone_has_no_model() -> None:
    gone = ProcessSeen(2**22 + 1, Epoch("boot", 1, 1), Launch(("x",)), container="c")
    assert served_model(_model_place(gone, "/models/k")) is None


def test_the_model_that_the_user_names_holds_for_every_server(tmp_path: Path) -> None:
    folder = write_model(tmp_path, DENSE)
    read = _model_reader(str(folder))
    assert read(seen(os.getpid(), "x"), "") == given_model(str(folder))


def test_files_are_read_once_for_each_life_of_a_server(tmp_path: Path) -> None:
    shape = given_model(str(write_model(tmp_path, DENSE)))
    asked: list[tuple[int, str]] = []

    def read(process: ProcessSeen, name: str) -> ModelShape:
        asked.append((process.epoch.start_ticks, name))
        return shape

    first = seen(os.getpid(), "/models/k")
    watch = ServerWatch("k", first, registry.by_name("sglang"), None, None, read_model=read)
    for _ in range(3):
        assert watch.evidence(Telemetry(), 0, 30.0, Stated()).model is shape
    watch.met(seen(os.getpid(), "/models/k", ticks=2), now_ns=0)
    watch.evidence(Telemetry(), 0, 30.0, Stated())
    assert asked == [(1, "/models/k"), (2, "/models/k")]
    assert [source.name for source in watch.health()] == ["model"]
