import subprocess
import sys

import pytest

from bubblewatch.cli import entry


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "bubblewatch", *words], capture_output=True, text=True, check=False)


def test_help_has_examples_for_every_command() -> None:
    for command in ("demo", "doctor", "diagnose", "run"):
        done = run(command, "--help")
        assert done.returncode == 0
        assert f"\n    bubblewatch {command}" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_BUBBLEWATCH_COMPLETE" in done.stdout


def test_a_bug_leaves_with_its_own_code_and_not_with_that_of_findings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(**_: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(entry.cli, "main", broken)
    with pytest.raises(SystemExit) as left:
        entry.main(["diagnose", "--json"])
    assert left.value.code == 70
    shown = capsys.readouterr()
    assert '"verdict": "error"' in shown.out
    assert "please report" in shown.err


def test_a_reader_that_goes_away_is_no_error() -> None:
    pipe = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {sys.executable} -m bubblewatch demo --plain | head -1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in pipe.stderr
    assert pipe.stdout.startswith("sglang-k26")


def test_colours_stay_out_of_pipes() -> None:
    assert "\x1b" not in run("demo", "--plain").stdout
