"""The commands as a person or a script types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bubblewatch.cli import main
from tests.support.recordings import STORED, record


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    shown = capsys.readouterr()
    assert isinstance(left.value.code, int)
    return left.value.code, shown.out, shown.err


def test_record_then_replay_then_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "rec")
    code, out, _ = run(capsys, "record", "--demo", "pp8-story", "--seconds", "10", "--output", folder)
    assert code == 0
    assert "10 s" in out
    code, out, _ = run(capsys, "replay", folder, "--json")
    assert code == 1
    assert json.loads(out)["findings"][0]["name"] == "cuda-graph-disabled"
    code, out, _ = run(capsys, "report", folder)
    assert code == 0
    assert "First: Remove --disable-cuda-graph." in out
    for ending, start in ((".html", b"<!doctype html>"), (".md", b"# sglang-k26"), (".txt", b"sglang-k26")):
        path = tmp_path / f"r{ending}"
        assert run(capsys, "report", folder, "--output", str(path))[0] == 0
        assert path.read_bytes().startswith(start)


def test_replay_leaves_with_the_codes_of_a_diagnosis(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "replay", str(STORED / "tp8"))[0] == 0
    assert run(capsys, "replay", str(STORED / "no-demand"))[0] == 0
    assert run(capsys, "replay", str(STORED / "pp8-story"), "--fail-on", "critical")[0] == 0
    code, out, err = run(capsys, "replay", str(STORED), "--json")
    assert code == 2
    assert json.loads(out)["verdict"] == "error"
    assert len(err.splitlines()) == 1


def test_compare_leaves_with_codes_for_a_pipeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record(tmp_path / "a", (), 125, compact=False)
    both = str(tmp_path / "a"), str(tmp_path / "a")
    code, out, _ = run(capsys, "compare", *both)
    assert code == 0
    assert out.startswith("NO DIFFERENCE that can be seen at 8 running")
    assert run(capsys, "compare", *both, "--require-better")[0] == 1
    code, out, _ = run(capsys, "compare", str(STORED / "pp8-story"), str(STORED / "tp8"), "--json")
    assert code == 3
    document = json.loads(out)
    assert document["verdict"] == "not_comparable"
    assert document["changes"] == {}
    assert run(capsys, "compare", both[0])[0] == 2


def test_predict_from_stated_numbers_and_from_a_recording(capsys: pytest.CaptureFixture[str]) -> None:
    stated = ("--stages", "8", "--step-ms", "83.7", "--running", "8", "--duty", "0.07", "--no-graphs")
    code, out, _ = run(capsys, "predict", *stated, "--json")
    assert code == 0
    assert json.loads(out)["first"] == "CUDA graphs on"
    code, out, _ = run(capsys, "predict", str(STORED / "pp8-story"), "--with-graphs", "--with-micro-batch", "4")
    assert code == 0
    assert "As asked" in out
    code, _, err = run(capsys, "predict", "--stages", "8")
    assert code == 2
    assert "--step-ms, --running, --duty" in err


def test_lost_sums_up_and_export_refuses_a_folder_that_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "lost", str(STORED), "--json")
    assert code == 0
    assert json.loads(out)["recordings"] == 9
    code, _, err = run(capsys, "export", str(tmp_path / "no"), "--format", "csv", "--output", str(tmp_path / "x"))
    assert code == 2
    assert "there is no folder" in err
    code, _, err = run(capsys, "report", str(STORED / "tp8"), "--output", str(tmp_path / "x.pdf"))
    assert code == 2
    assert "FILE.html, FILE.md or FILE.txt" in err


def test_a_recording_on_demand_that_cannot_be_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    code, _, err = run(capsys, "record", "--demo", "tp8", "--seconds", "2", "--output", str(tmp_path / "file"))
    assert code == 2
    assert "cannot record into" in err
    assert run(capsys, "record", "--running", "3", "--output", str(tmp_path / "x"))[0] == 2
