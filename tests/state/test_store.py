"""The file that keeps the memory: whole at every moment, and honest when it cannot be kept."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import NS, ManualClock
from bubblewatch.model.findings import Health
from bubblewatch.model.logs import LogLine, LogPlace
from bubblewatch.model.server import Epoch
from bubblewatch.runtime.memory import Memory, ServerMemory
from bubblewatch.runtime.state_store import BEFORE, FILE, FRESH, StateStore, decoded, encoded

EPOCH = Epoch("boot", 7, 99)


def memory(count: int = 1, text: str = "Decode batch") -> Memory:
    line = LogLine(text, 5 * NS, True, "journal", "a.service", 7, "cursor")
    one = ServerMemory(
        "a", 6 * NS, EPOCH, "a.service", LogPlace("cursor", 3), count, (line,), (line,), (1,), (), {8: (95.6,)}, {}
    )
    return Memory({"a": one})


def store(folder: Path, most_bytes: int = 10**6, clock: ManualClock | None = None) -> StateStore:
    return StateStore(folder, most_bytes, 5.0, clock or ManualClock())


def test_what_is_written_is_what_comes_back(tmp_path: Path) -> None:
    store(tmp_path).write(encoded(memory(41)))
    again = store(tmp_path)

    assert again.load() == memory(41)
    assert again.health().health is Health.OK


@given(st.text(st.characters(exclude_categories=())), st.integers(0, 2**40))
def test_any_text_survives(text: str, count: int) -> None:
    back = decoded(encoded(memory(count, text)))
    kept = text.encode("utf-8", "replace").decode()

    assert back.servers["a"].birth[0].text in (text, kept)
    assert back.servers["a"].line_count == count


@given(st.binary(max_size=300))
def test_no_bytes_are_taken_for_a_memory_or_raise_anything_else(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"is|cannot"):
        decoded(data)


@given(st.data())
def test_a_flipped_bit_is_seen(data: st.DataObject) -> None:
    whole = bytearray(encoded(memory()))
    at = data.draw(st.integers(0, len(whole) - 2))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(ValueError, match=r"is|cannot"):
        decoded(bytes(whole))


def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    store(tmp_path / "state").write(encoded(memory()))

    assert stat.S_IMODE((tmp_path / "state" / FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_damaged_file_gives_the_one_before_and_says_so(tmp_path: Path) -> None:
    first = store(tmp_path)
    first.write(encoded(memory(1)))
    first.write(encoded(memory(2)))
    damaged = (tmp_path / FILE).read_bytes()[:-20]
    (tmp_path / FILE).write_bytes(damaged)

    again = store(tmp_path)
    assert again.load() == memory(1)
    assert again.health().health is Health.DEGRADED
    assert "state.json is damaged" in again.health().detail


def test_two_damaged_files_begin_anew_and_say_so(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"\0" * 4096)
    (tmp_path / BEFORE).write_bytes(b"")

    again = store(tmp_path)
    assert again.load() == Memory()
    assert "nothing is remembered" in again.health().detail
    again.write(encoded(memory()))
    assert store(tmp_path).load() == memory()


def test_a_crash_between_the_two_renames_gives_the_one_before(tmp_path: Path) -> None:
    one = store(tmp_path)
    one.write(encoded(memory(1)))
    (tmp_path / FILE).rename(tmp_path / BEFORE)
    (tmp_path / FRESH).write_bytes(b"half of it")

    again = store(tmp_path)
    assert again.load() == memory(1)
    assert again.health().health is Health.OK


def test_a_first_start_has_nothing_and_nothing_to_complain_about(tmp_path: Path) -> None:
    fresh = store(tmp_path / "not there yet")

    assert fresh.load() == Memory()
    assert fresh.health().health is Health.OK


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / FRESH).symlink_to(victim)
    one = store(folder)
    one.write(encoded(memory()))

    assert victim.read_text() == "precious"


def failing(code: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_full_disk_degrades_to_memory_says_so_and_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = store(tmp_path)
    one.write(encoded(memory(1)))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", failing(errno.ENOSPC))
        one.write(encoded(memory(2)))
        assert one.health().health is Health.DEGRADED
        assert "No space left on device" in one.health().detail
        assert not (tmp_path / FRESH).exists()
    assert store(tmp_path).load() == memory(1)

    one.write(encoded(memory(3)))
    assert one.health().health is Health.OK
    assert store(tmp_path).load() == memory(3)


@pytest.mark.root
def test_a_really_full_disk(tmp_path: Path) -> None:
    import subprocess

    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    try:
        one = store(folder)
        one.write(encoded(memory(1)))
        (folder / "ballast").write_bytes(b"x" * 48 * 1024)
        one.write(encoded(memory(2, "y" * 30_000)))
        assert "No space left on device" in one.health().detail
        assert store(folder).load() == memory(1)
        (folder / "ballast").unlink()
        one.write(encoded(memory(3)))
        assert store(folder).load() == memory(3)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_more_than_it_may_take_is_refused_and_told(tmp_path: Path) -> None:
    one = store(tmp_path, most_bytes=1000)
    one.write(encoded(memory(1, "x" * 5000)))

    assert one.health().health is Health.DEGRADED
    assert "may take 1000" in one.health().detail
    assert not (tmp_path / FILE).exists()


def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    clock = ManualClock()
    one = store(tmp_path, clock=clock)
    release = threading.Event()
    monkeypatch.setattr(os, "fsync", lambda _: release.wait(30))
    one.offer(memory)
    clock.sleep(61)
    one.offer(memory)
    assert one.health().health is Health.DEGRADED
    assert "hangs" in one.health().detail
    one.close(memory(), 0.01)
    release.set()


def test_it_is_written_no_oftener_than_asked(tmp_path: Path) -> None:
    clock = ManualClock()
    one = store(tmp_path, clock=clock)
    asked: list[int] = []

    def give() -> Memory:
        asked.append(1)
        return memory(len(asked))

    for _ in range(20):
        one.offer(give)
        if one._writer is not None:
            one._writer.join(10)
        clock.sleep(1.0)

    assert len(asked) == 4
