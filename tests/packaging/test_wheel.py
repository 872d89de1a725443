"""The wheel that `pip install .`, `pipx install .` and `uv tool install .` build, looked into and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

from bubblewatch import __version__

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist")
    # The build backend that pyproject.toml names, without an isolated environment: no network.
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(directory)],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        return HeaderParser().parsestr(archive.read(f"bubblewatch-{__version__}.dist-info/METADATA").decode())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin/ of an environment with nothing but the wheel, which borrows the dependencies of the one that tests."""
    root = tmp_path_factory.mktemp("fresh")
    venv.create(root, symlinks=True, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(root / "bin" / "python"), "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel)], check=True, timeout=120)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(root), "platbase": str(root)}))
    # A plain path in a .pth comes after the environment's own packages and reads no further .pth, so that an editable
    # installation of the tree stays out.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return root / "bin"


def run(arguments: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        arguments,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def test_every_source_file_and_rule_is_inside(names: set[str]) -> None:
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "bubblewatch").rglob("*.py")}
    rules = {"bubblewatch/_rules/" + p.relative_to(ROOT / "rules").as_posix() for p in (ROOT / "rules").rglob("*.yaml")}
    assert sources
    assert rules
    assert sources | rules <= names


def test_nothing_of_the_tests_or_the_tools_is_inside(names: set[str]) -> None:
    assert {name.split("/")[0] for name in names} == {"bubblewatch", f"bubblewatch-{__version__}.dist-info"}
    assert not [name for name in names if name.endswith((".pyc", ".so"))]


def test_the_licence_is_inside_in_full(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"bubblewatch-{__version__}.dist-info/licenses/LICENSE").decode()
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_it_runs_on_any_machine_that_has_a_right_python(wheel: Path, metadata: Message) -> None:
    assert wheel.name == f"bubblewatch-{__version__}-py3-none-any.whl"
    assert metadata["Requires-Python"] == "<3.15,>=3.11"
    assert metadata["License-Expression"] == "Apache-2.0"


def test_what_needs_a_compiler_is_asked_for_by_an_extra_only(metadata: Message) -> None:
    wanted = metadata.get_all("Requires-Dist") or []
    assert any(line.startswith("systemd-python") for line in wanted)
    assert not [line for line in wanted if line.startswith("systemd-python") and "extra ==" not in line]


def test_the_installed_command_is_that_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = run([str(installed / "python"), "-c", "import bubblewatch; print(bubblewatch.__file__)"], tmp_path)
    assert Path(where.stdout.strip()).is_relative_to(installed.parent), where.stdout + where.stderr
    version = run([str(installed / "bubblewatch"), "--version"], tmp_path)
    assert version.returncode == 0, version.stderr
    assert __version__ in version.stdout


def test_the_installed_command_finds_its_rules(installed: Path, tmp_path: Path) -> None:
    listed = run([str(installed / "bubblewatch"), "rules", "list"], tmp_path)
    assert listed.returncode == 0, listed.stderr
    assert "pipeline-bubble" in listed.stdout


def test_each_dependency_is_pinned_to_one_version_that_is_allowed(metadata: Message) -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    assert len(pins) == len([line for line in lines if line and not line.startswith("#")])
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = [*(metadata.get_all("Requires-Dist") or []), *project["build-system"]["requires"]]
    for group in project["dependency-groups"].values():
        wanted += group
    for requirement in map(Requirement, wanted):
        if requirement.name == "bubblewatch":
            continue
        assert pinned[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_constraints_name_versions_and_no_place() -> None:
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        assert line.startswith("#") or re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", line), line
