"""What tests/conftest.py promises to all the others."""

from __future__ import annotations

import os
import pwd
import shutil
import time
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"


def golden_outcome(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    shutil.copy(CONFTEST, pytester.path / "conftest.py")
    pytester.makepyfile("def test_it(golden): golden('a/b.txt', 'one\\ntwo\\n')")
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)


def test_a_golden_file_that_is_missing_fails_and_is_written_only_on_request(pytester: pytest.Pytester) -> None:
    golden_outcome(pytester).assert_outcomes(failed=1)
    assert not (pytester.path / "golden").exists()
    golden_outcome(pytester, "--update-goldens").assert_outcomes(passed=1)
    assert (pytester.path / "golden" / "a" / "b.txt").read_text(encoding="utf-8") == "one\ntwo\n"


def test_a_difference_to_the_golden_file_fails_and_shows_the_lines(pytester: pytest.Pytester) -> None:
    (pytester.path / "golden" / "a").mkdir(parents=True)
    (pytester.path / "golden" / "a" / "b.txt").write_text("one\nthree\n", encoding="utf-8")
    result = golden_outcome(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*-three*", "*+two*"])


def test_no_test_sees_the_developers_home_or_time_zone() -> None:
    assert Path.home() != Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert not [name for name in os.environ if name.startswith(("XDG_", "BUBBLEWATCH_"))]
    assert time.tzname == ("UTC", "UTC")
