"""`bubblewatch audit`, as a person or a pipeline types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

EAGER = "vllm serve m -tp 2 --enforce-eager"
SANE = "vllm serve m -tp 2"


def audit(*options: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bubblewatch", "audit", *options]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=60, check=False)


def test_a_fault_exits_one_and_says_what_to_do() -> None:
    done = audit("--command", EAGER)
    assert done.returncode == 1
    assert "FIRST    Remove --enforce-eager." in done.stdout
    assert done.stdout.rstrip().endswith("exit 1: something to act on")
    assert done.stderr == ""


def test_a_sane_launch_exits_zero_although_nothing_was_measured() -> None:
    done = audit("--command", SANE, "--server-version", "0.24.0")
    assert done.returncode == 0
    assert "Nothing to change" in done.stdout


def test_what_is_accepted_or_below_the_limit_does_not_fail() -> None:
    assert audit("--command", EAGER, "--ignore", "cuda-graph-disabled").returncode == 0
    assert audit("--command", EAGER, "--fail-on", "critical").returncode == 0


def test_a_setting_that_does_not_fit_the_version_fails() -> None:
    command = "python -m sglang.launch_server --model m --no-such-option"
    assert audit("--command", command, "--server-version", "0.5.10", "--fail-on", "critical").returncode == 1


@pytest.mark.parametrize("options", [("--json",), ("--format", "json"), ("--format=json",)])
def test_json_is_one_document(options: tuple[str, ...]) -> None:
    done = audit("--command", EAGER, "--concurrency", "4", *options)
    document = json.loads(done.stdout)
    assert done.returncode == 1
    assert document["verdict"] == "findings"
    assert document["findings"][0]["name"] == "cuda-graph-disabled"
    assert document["audits"][0]["prediction"]["admitted"] is None


def test_files_and_standard_input_are_read(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(SANE)
    done = audit(str(script), "-", "--json", stdin=EAGER)
    assert [part["launch_read_from"] for part in json.loads(done.stdout)["audits"]] == [
        f"{script}:1",
        "standard input",
    ]


def test_github_gets_workflow_commands(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("vllm serve m \\\n  --enforce-eager\n")
    done = audit(str(script), "--format", "github")
    assert done.returncode == 1
    assert done.stdout.startswith(f"::warning file={script},line=2,title=cuda-graph-disabled (certain)::")


@pytest.mark.parametrize(
    "options", [(), ("gone.yml",), ("--command", "nginx -g x"), ("--format", "xml", "x"), ("--concurrency", "-1")]
)
def test_wrong_usage_exits_two_in_one_line(options: tuple[str, ...]) -> None:
    done = audit(*options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


def test_an_error_is_a_document_or_a_workflow_command_where_one_was_asked_for() -> None:
    assert json.loads(audit("gone.yml", "--format", "json").stdout)["verdict"] == "error"
    done = audit("gone.yml", "--format", "github")
    assert done.stdout.startswith("::error title=bubblewatch::no file named 'gone.yml'")
    assert done.returncode == 2
