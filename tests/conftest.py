"""What every test shares: an environment that is the same everywhere, golden files, and which tests can run here."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

GOLDEN = Path(__file__).parent / "golden"

# The same examples in every run of the CI, so that a red run is red again. No deadlines: on two busy cores they tell
# about the machine.
settings.register_profile("ci", derandomize=True, deadline=None, database=None)
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens", action="store_true", help="rewrite tests/golden/ with what the code prints now"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    obstacles = {
        "root": None if os.geteuid() == 0 else "needs root (mount namespaces, cgroups)",
        "gpu": None if Path("/dev/nvidiactl").exists() else "needs an NVIDIA GPU",
    }
    for item in items:
        for mark, reason in obstacles.items():
            if reason is not None and item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def _empty_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def _neutral_environment(_empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the developer's home, configuration, time zone and colour wishes out of every test and its children."""
    monkeypatch.setenv("HOME", str(_empty_home))
    for name in list(os.environ):
        if name.startswith(("XDG_", "BUBBLEWATCH_")) or name in {"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES"}:
            monkeypatch.delenv(name)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


Golden = Callable[[str, str], None]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares a text to the file tests/golden/NAME; `pytest --update-goldens` writes the file instead."""
    update = request.config.getoption("--update-goldens")

    def compare(name: str, actual: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        if not path.exists():
            pytest.fail(f"no golden file {path}; look at what is printed, then run pytest --update-goldens")
        expected = path.read_text(encoding="utf-8")
        if actual != expected:
            difference = difflib.unified_diff(
                expected.splitlines(), actual.splitlines(), f"golden/{name}", "now", lineterm=""
            )
            pytest.fail("\n".join(["differs from the golden file (pytest --update-goldens rewrites it)", *difference]))

    return compare
