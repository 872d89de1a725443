"""`bubblewatch rules …` as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bubblewatch", "rules", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_list_and_its_json_hold_the_same_rules() -> None:
    text, rows = run("list").stdout, json.loads(run("list", "--json").stdout)
    assert len(text.splitlines()) == len(rows)
    assert {"id", "name", "severity", "status", "category", "scope", "title", "path"} == set(rows[0])
    assert any(line.startswith("BW101  pipeline-bubble ") for line in text.splitlines())


def test_explain_knows_ids_and_offers_the_nearest_name() -> None:
    assert run("explain", "bw301").stdout.startswith("BW301 cuda-graph-disabled: ")
    wrong = run("explain", "cuda-graph-disabld")
    assert wrong.returncode == 2
    assert "did you mean 'cuda-graph-disabled'?" in wrong.stderr


def test_lint_reports_all_problems_of_all_files_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("id: [", encoding="utf-8")
    (tmp_path / "two.yaml").write_text("id: BW900\nname: other\n", encoding="utf-8")
    done = run("lint", "--rules", str(tmp_path))
    assert done.returncode == 1
    assert f"{tmp_path}/one.yaml:" in done.stdout
    assert f"{tmp_path}/two.yaml:2:7: the file must be named other.yaml" in done.stdout
    assert f"{tmp_path}/two.yaml:1:1: 'title' is missing" in done.stdout


def test_the_shipped_rules_lint_and_pass_their_examples() -> None:
    assert (run("lint").returncode, run("test").returncode) == (0, 0)


def test_the_schema_is_one_document() -> None:
    assert json.loads(run("schema").stdout)["title"] == "A rule of bubblewatch"
