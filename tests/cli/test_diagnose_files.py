"""`bubblewatch diagnose` on evidence files, as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.nvml_shim import shim

LAUNCH = (
    "python -m sglang.launch_server --model-path /models/k26 --pp-size 8 --disable-cuda-graph "
    "--max-running-requests 64 --api-key sk-planted-secret-0123456789"
)
DECODE = (
    "[2026-01-01 00:00:{second:02d} PP0] Decode batch, #running-req: 8, #token: 7536, token usage: 0.02, "
    "cuda graph: False, gen throughput (token/s): 95.60, #queue-req: 0"
)
LOG = "\n".join(DECODE.format(second=s) for s in (3, 7, 10, 13, 17, 20, 23, 27, 30))


def csv(rows: int, util: str = "12 %", power: str = "170.00 W", gpus: int = 8) -> str:
    lines = ["timestamp, name, index, utilization.gpu [%], power.draw [W], power.limit [W]"]
    card = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    for row in range(rows):
        lines += [f"2026/01/01 00:00:{row:02d}.000, {card}, {gpu}, {util}, {power}, 600.00 W" for gpu in range(gpus)]
    return "\n".join(lines) + "\n"


def diagnose(*options: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bubblewatch", "diagnose", *options]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=60, check=False)


def document(*options: str, stdin: str | None = None) -> tuple[int, dict[str, Any]]:
    done = diagnose(*options, "--json", stdin=stdin)
    return done.returncode, json.loads(done.stdout)


def names(doc: dict[str, Any]) -> list[str]:
    return [finding["name"] for finding in doc["findings"]]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "launch.sh").write_text(LAUNCH + "\n")
    (tmp_path / "server.log").write_text(LOG + "\n")
    (tmp_path / "smi.csv").write_text(csv(12))
    return tmp_path


def test_the_story_from_three_files(files: Path) -> None:
    evidence = ("--command", str(files / "launch.sh"), "--log", str(files / "server.log"))
    known = ("--telemetry", str(files / "smi.csv"), "--server-version", "0.5.10", "--running", "8")
    code, doc = document(*evidence, *known)
    assert code == 1
    assert names(doc)[0] == "cuda-graph-disabled"
    assert {"pipeline-bubble", "micro-batch-unfilled"} <= set(names(doc))


def test_one_snapshot_of_idle_cards_is_no_bubble(files: Path) -> None:
    (files / "smi.csv").write_text(csv(1, "0 %", "85.00 W"))
    (files / "k26.service").write_text(f"[Unit]\nDescription=k26\n[Service]\nExecStart=/usr/bin/{LAUNCH}\n")
    code, doc = document("--unit-file", str(files / "k26.service"), "--telemetry", str(files / "smi.csv"))
    assert code == 1
    assert names(doc)[0] == "cuda-graph-disabled"
    assert "pipeline-bubble" not in names(doc)
    assert "async-depth-missing" not in names(doc)
    assert any("nvidia-smi --query-gpu" in wanted for wanted in doc["missing"])
    assert any("version" in wanted for wanted in doc["missing"])


def test_snapshot_alone_cannot_be_judged(files: Path) -> None:
    (files / "smi.csv").write_text(csv(1, "0 %", "85.00 W"))
    code, doc = document("--telemetry", str(files / "smi.csv"))
    assert (code, doc["verdict"], names(doc)) == (3, "cannot_judge", [])


def test_spinning_cards_with_nobody_asking(files: Path) -> None:
    (files / "smi.csv").write_text(csv(12, "100 %", "150.00 W"))
    code, doc = document("--command", str(files / "launch.sh"), "--telemetry", str(files / "smi.csv"), "--running", "0")
    assert code == 1
    assert "idle-spin" in names(doc)
    assert "pipeline-bubble" not in names(doc)


def test_evidence_by_standard_input(files: Path) -> None:
    code, doc = document("--log", "-", "--command", LAUNCH, "--running", "8", stdin=LOG)
    assert code == 1
    assert names(doc)[0] == "cuda-graph-disabled"


def test_fail_on_and_ignore_change_the_exit_code_and_not_the_findings(files: Path) -> None:
    options = ("--command", LAUNCH, "--log", str(files / "server.log"), "--running", "8", "--server-version", "0.5.10")
    code, doc = document(*options, "--fail-on", "critical")
    assert (code, names(doc)[0]) == (0, "cuda-graph-disabled")
    _, accepted = document(*options, "--ignore", "cuda-graph-disabled")
    assert "cuda-graph-disabled" in names(accepted)


def test_a_planted_secret_appears_nowhere(files: Path) -> None:
    secrets = {"sk-planted-secret-0123456789", "hf_plantedplantedplantedplantedplanted", "plantedpassword"}
    (files / "launch.sh").write_text(
        f"HF_TOKEN=hf_plantedplantedplantedplantedplanted {LAUNCH} --dist-init-addr http://me:plantedpassword@10.0.0.1:1\n"
    )
    (files / "server.log").write_text(
        "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/models/k26', pp_size=8, disable_cuda_graph=True, "
        f"api_key='sk-planted-secret-0123456789', tp_size=1)\n{LOG}\n"
        "[2026-01-01 00:00:31] Receive: headers={'Authorization': 'Bearer sk-planted-secret-0123456789'}\n"
    )
    options = ("--command", str(files / "launch.sh"), "--log", str(files / "server.log"), "--running", "8")
    for done in (diagnose(*options), diagnose(*options, "--json")):
        assert done.returncode == 1
        assert not [secret for secret in secrets if secret in done.stdout + done.stderr]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--bogus",), "--bogus"),
        (("--log", "missing.log"), "missing.log"),
        (("--telemetry", "random.bin"), "random.bin"),
        (("--command", "nosuchfile"), "nosuchfile"),
        (("--command", "python 'unbalanced"), "quote"),
        (("--running", "many", "--command", "a b"), "many"),
        (("--log", "-", "--telemetry", "-"), "standard input"),
        (("--unit", "x", "--command", "a b"), "--unit"),
        (("--ignore", "no-such-rule", "--command", "a b"), "no-such-rule"),
        (("--rules", "nowhere", "--command", "a b"), "nowhere"),
        (("--gpus", "banana"), "banana"),
        (("--since", "yesterdayish"), "yesterdayish"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_2(
    options: tuple[str, ...], word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("random.bin").write_bytes(bytes(range(256)) * 40)
    done = diagnose(*options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("bubblewatch: ")
    assert done.stderr.count("\n") == 1
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    code, doc = document(*options)
    assert (code, doc["verdict"]) == (2, "error")
    assert word in doc["error"]["what"] + str(doc["error"]["hint"])


def test_random_bytes_as_a_log_are_no_evidence_and_no_crash(tmp_path: Path) -> None:
    (tmp_path / "noise.log").write_bytes(bytes(range(256)) * 400)
    code, doc = document("--log", str(tmp_path / "noise.log"))
    assert (code, doc["verdict"]) == (3, "cannot_judge")


def test_unavailable_cells_are_missing_and_not_zero(files: Path) -> None:
    (files / "smi.csv").write_text(csv(12, "[N/A]", "[N/A]"))
    code, doc = document("--command", LAUNCH, "--telemetry", str(files / "smi.csv"), "--running", "8")
    assert code == 1
    duty = doc["signals"]["server:sglang"]["duty.median"]
    assert duty["value"] is None
    assert duty["reason"]


def test_a_library_without_a_driver_is_told_from_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shim.environment(shim.build(), init_code=9).items():
        monkeypatch.setenv(name, value)
    code, doc = document("--seconds", "1", "--unit", "no-such.service")
    assert code == 3
    nvml = next(source for source in doc["sources"] if source["name"] == "nvml")
    assert "Driver Not Loaded" in nvml["detail"]
    assert "modprobe nvidia" in nvml["mend"]


def test_without_nvml_library_the_answer_says_so(tmp_path: Path) -> None:
    code, doc = document("--seconds", "1", "--unit", "no-such.service")  # others may run fake servers beside us
    assert code == 3
    nvml = next(source for source in doc["sources"] if source["name"] == "nvml")
    assert nvml["health"] == "absent"
    assert "libnvidia-ml.so.1" in nvml["detail"]
    assert nvml["mend"]
