"""The memory on disk: one small file that is whole at every moment, whatever the moment of a crash.

A new file is written beside the old one, brought to the disk and renamed over it; the one before is kept, for a file
that a failing disk has damaged. Each carries a checksum.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from bubblewatch.model.clock import NS, Clock
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.runtime.memory import VERSION, Memory

NAME = "state"

FILE = "state.json"
BEFORE = "state.before.json"
FRESH = "state.new.json"

MARK = b"bubblewatch-state"
"""First word of the first line; then version and checksum of what follows it."""

LATE_S = 60.0
"""Seconds after which a write that has not ended counts as stuck: a busy disk takes a few."""

log = logging.getLogger(__name__)


class StateStore:
    """Keeps a memory in `folder`; a folder that cannot be used degrades to keeping nothing, and `health` says so.

    `load` first, then `offer` as often as you like: a thread of its own writes at most once in `every_s`, so that a
    disk that hangs holds up nobody. Threading: one thread calls it.
    """

    def __init__(self, folder: Path, most_bytes: int, every_s: float, clock: Clock) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._every_ns = round(every_s * NS)
        self._clock = clock
        self._next_ns = 0
        self._began_ns: int | None = None
        self._note = ""
        self._trouble = ""
        self._write_count = 0
        self._written = b""
        self._writer: threading.Thread | None = None

    def load(self) -> Memory:
        """What was kept; an empty memory when there is nothing, or nothing that can be trusted."""
        problems = []
        for name in (FILE, BEFORE):
            try:
                memory = decoded((self._folder / name).read_bytes())
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(f"{name} cannot be read: {error.strerror}")
            except ValueError as error:
                problems.append(f"{name} {error}")
            else:
                self._remark(problems, "the one before it was taken")
                return memory
        self._remark(problems, "nothing is remembered")
        return Memory()

    def offer(self, memory: Callable[[], Memory]) -> None:
        """Write what `memory` gives, unless the last write was too short a time ago or is still under way."""
        now_ns = self._clock.monotonic_ns()
        if now_ns < self._next_ns or (self._writer is not None and self._writer.is_alive()):
            return
        self._next_ns = now_ns + self._every_ns
        self._began_ns = now_ns
        data = encoded(memory())
        self._writer = threading.Thread(target=self.write, args=(data,), name="bubblewatch-state", daemon=True)
        self._writer.start()

    def close(self, memory: Memory, wait_s: float) -> None:
        """Write once more, and wait so long for it at the most."""
        if self._writer is not None:
            self._writer.join(wait_s)
            if self._writer.is_alive():
                log.warning("the disk hangs, the last state is not kept folder=%s", self._folder)
                return
        self._writer = threading.Thread(target=self.write, args=(encoded(memory),), daemon=True)
        self._writer.start()
        self._writer.join(wait_s)

    def write(self, data: bytes) -> None:
        """Bring these bytes to the disk in place of the last ones. Never raises: what fails is told by `health`."""
        if data == self._written:
            return
        try:
            if len(data) > self._most_bytes:
                raise OSError(0, f"it takes {len(data)} bytes and may take {self._most_bytes}")  # noqa: TRY301
            self._replace(data)
        except OSError as error:
            if not self._trouble:
                log.warning("state cannot be kept folder=%s error=%s", self._folder, error.strerror or error)
            self._trouble = error.strerror or str(error)
            return
        if self._trouble:
            log.warning("state is kept again folder=%s", self._folder)
        self._trouble = ""
        self._written = data
        self._write_count += 1

    def health(self) -> SourceHealth:
        """OK, or why what is learned now would be forgotten at a restart."""
        place = str(self._folder)
        if self._trouble:
            mend = f"make room or rights in {place}"
            return SourceHealth(NAME, Health.DEGRADED, f"kept in memory only: {self._trouble}", mend, self._write_count)
        busy = self._writer is not None and self._writer.is_alive()
        if busy and self._began_ns is not None and self._clock.monotonic_ns() - self._began_ns > LATE_S * NS:
            return SourceHealth(NAME, Health.DEGRADED, f"writing to {place} hangs", "look at the disk")
        health = Health.DEGRADED if self._note else Health.OK
        return SourceHealth(NAME, health, "; ".join(filter(None, (place, self._note))), "", self._write_count)

    def _remark(self, problems: list[str], outcome: str) -> None:
        if problems:
            self._note = f"{', '.join(problems)}: {outcome}"
            log.warning("state is damaged folder=%s problems=%s outcome=%s", self._folder, ", ".join(problems), outcome)

    def _replace(self, data: bytes) -> None:
        fresh, now, before = (self._folder / name for name in (FRESH, FILE, BEFORE))
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if now.exists():
                now.replace(before)
            fresh.replace(now)
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            fresh.unlink(missing_ok=True)  # a part of it would take the room that is missing
            raise


def encoded(memory: Memory) -> bytes:
    """The memory as the file holds it."""
    try:
        body = msgspec.json.encode(memory, enc_hook=dict)
    except UnicodeEncodeError:  # half a surrogate pair out of an argv
        body = msgspec.json.encode(_as_utf8(msgspec.to_builtins(memory, enc_hook=dict)))
    head = b"%s %d %s\n" % (MARK, VERSION, _checksum(body))
    return head + body + b"\n"


def decoded(data: bytes) -> Memory:
    """The memory in the bytes of a file. Raises ValueError (a sentence without a subject) for anything else."""
    head, _, rest = data.partition(b"\n")
    words = head.split(b" ")
    body = rest.removesuffix(b"\n")
    if len(words) != 3 or words[0] != MARK:
        raise ValueError("is no state of bubblewatch")
    if words[1] != b"%d" % VERSION:
        raise ValueError("is of another version of bubblewatch")
    if words[2] != _checksum(body):
        raise ValueError("is damaged: its checksum is another")
    try:
        return msgspec.json.decode(body, type=Memory)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"cannot be understood: {error}") from error


def _checksum(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).hexdigest().encode("ascii")


def _as_utf8(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_as_utf8(key): _as_utf8(item) for key, item in value.items()}
        case list() | tuple():
            return [_as_utf8(item) for item in value]
        case _:
            return value
