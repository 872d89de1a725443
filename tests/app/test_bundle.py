"""The archive for a bug report: complete, listed, and without secrets and names."""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.app.bundle import TOP, Part, collect, contents, write_bundle
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import serve
from bubblewatch.model.anonymous import Anonymiser
from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import UsageError
from bubblewatch.runtime.hub import Hub
from tests.support import snapshots

SECRET = "hf_" + "a1B2" * 8


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    hub = Hub(SystemClock())
    hub.publish(snapshots.story())
    documents = Documents(
        of_snapshot=lambda _: f'{{"argv": "--hf-token {SECRET}", "from": "10.1.2.3", "home": "/home/carol/m"}}',
        of_error=lambda what, _: what,
    )
    with serve(application(hub, Exposition(hub, "0.1.0"), documents), port=0) as server:
        yield server.url


def test_it_holds_what_it_lists_and_no_secret(tmp_path: Path, daemon: str) -> None:
    parts = collect({"BUBBLEWATCH_WATCH_RATE": "5"}, daemon, SystemClock())
    file = tmp_path / "bundle.tar.gz"
    size = write_bundle(str(file), parts)

    assert size == file.stat().st_size
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with tarfile.open(file) as archive:
        texts = {member.name: archive.extractfile(member).read().decode() for member in archive}  # type: ignore[union-attr]
    listed = texts[f"{TOP}/contents.txt"]
    assert set(texts) == {f"{TOP}/contents.txt", *(f"{TOP}/{p.name}" for p in parts if not p.absent)}
    assert all(part.name in listed for part in parts)
    assert {"versions.txt", "doctor.txt", "config.toml", "snapshot.json", "metrics.txt"} <= {
        p.name for p in parts if not p.absent
    }
    whole = "".join(texts.values())
    assert SECRET not in whole
    assert "carol" not in whole
    assert "10.1.2.3" not in whole
    assert "BUBBLEWATCH_WATCH_RATE" in texts[f"{TOP}/config.toml"]
    assert "bubblewatch_build_info" in texts[f"{TOP}/metrics.txt"]


def test_what_cannot_be_had_is_told_with_the_reason() -> None:
    parts = {part.name: part for part in collect({"BUBBLEWATCH_X": "1"}, "http://127.0.0.1:1", SystemClock())}
    assert "nobody answers" in parts["snapshot.json"].absent
    assert "BUBBLEWATCH_X is no setting" in parts["config.toml"].absent
    assert "not there: " in contents(tuple(parts.values()))


def test_the_same_content_is_the_same_archive(tmp_path: Path) -> None:
    parts = (Part("a.txt", "a", "text"),)
    for name in ("one", "two"):
        write_bundle(str(tmp_path / name), parts)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_nothing_is_overwritten_and_no_link_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("precious", "link", "no/such/folder"):
        with pytest.raises(UsageError, match="cannot be written"):
            write_bundle(str(tmp_path / name), ())
    assert precious.read_text() == "data"
    assert not (tmp_path / "elsewhere").exists()


def test_names_and_addresses_are_replaced_and_stay_distinct() -> None:
    clean = Anonymiser({"gpu07-berlin", "gpu07-berlin.corp.example"}, {"carol", "root"}).clean
    assert clean("gpu07-berlin.corp.example and gpu07-berlin, not gpu07-berlin2") == "HOST and HOST, not gpu07-berlin2"
    assert clean("/home/dave/models /home/dave") == "/home/USER/models /home/USER"
    assert clean("user carol, root") == "user USER, root"
    assert clean("10.0.0.1 10.0.0.2 10.0.0.1 127.0.0.1 0.0.0.0") == "ADDRESS-1 ADDRESS-2 ADDRESS-1 127.0.0.1 0.0.0.0"
    assert clean("fe80::1ff:fe23:4567:890a ::1") == "ADDRESS-3 ::1"
    assert clean("mail carol.x@corp.example") == "mail MAIL"


@pytest.mark.parametrize(
    "text", ["version 535.261.03", "at 14:31:07", "torch 2.4.1", "0:1:2 3.11", "12.4.131.2.9", "::"]
)
def test_versions_and_times_stay(text: str) -> None:
    assert Anonymiser((), ()).clean(text) == text


@given(st.ip_addresses(), st.text(max_size=40))
def test_no_address_gets_through(address: object, around: str) -> None:
    text = str(address)
    cleaned = Anonymiser((), ()).clean(f" {text} ")
    assert text not in cleaned.split() or cleaned.strip() in {"::", "::1"} or text.startswith(("127.", "0.0.0.0"))
    Anonymiser((), ()).clean(around)
