"""Builds the stand-in libnvidia-ml.so.1 and writes what it hands out.

A test makes a `Feed`, says what each GPU's sensors show, and gives `environment(...)` to whatever loads NVML. To let a
simulated host speak through it, `FeedThread(feed, host.sensor_state, clock.monotonic_ns)` keeps the file fresh.
"""

from __future__ import annotations

import hashlib
import math
import mmap
import os
import struct
import subprocess
import tempfile
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).with_name("nvml_shim.c")
LIBRARY = "libnvidia-ml.so.1"

VALUES = (
    "power_instant_w",
    "power_average_w",
    "energy_j",
    "util_ratio",
    "mem_util_ratio",
    "sm_active_ratio",
    "sm_clock_mhz",
    "memory_used_bytes",
    "temperature_c",
    "event_reasons",
    "pcie_gen",
    "pcie_width",
    "pstate",
    "power_limit_w",
    "power_default_limit_w",
    "memory_total_bytes",
    "sm_clock_max_mhz",
    "pcie_gen_max",
    "pcie_width_max",
    "persistence",
    "power_smoothing",
)
"""What a GPU of the feed holds, in the order of the enum in nvml_shim.c: the fields of model/telemetry.py, then what
does not change."""

IDLE: Mapping[str, float] = {
    "power_instant_w": 85.0,
    "power_average_w": 85.5,
    "energy_j": 1000.0,
    "util_ratio": 0.0,
    "mem_util_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "sm_clock_mhz": 2280.0,
    "memory_used_bytes": 70.0 * 2**30,
    "temperature_c": 41.0,
    "event_reasons": 1.0,
    "pcie_gen": 5.0,
    "pcie_width": 16.0,
    "pstate": 0.0,
    "power_limit_w": 600.0,
    "power_default_limit_w": 600.0,
    "memory_total_bytes": 96.0 * 2**30,
    "sm_clock_max_mhz": 2430.0,
    "pcie_gen_max": 5.0,
    "pcie_width_max": 16.0,
    "persistence": 1.0,
    "power_smoothing": math.nan,
}
"""A card with a loaded server and nothing to do: what a new feed shows."""

NAME = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
UNKNOWN_MIB = 2**32 - 1
"""In `Feed.processes`: the driver does not say how much that process uses."""

DRIVER_EPOCH_US = 7_000_000_000
"""How far the driver's clock is ahead of the host's monotonic one: anything but 0."""

_MAGIC = 0x4D6C766E65656431
_MAX_PROCESSES = 16
_HEADER = struct.Struct("<4Q")
_VALUES = struct.Struct(f"<{len(VALUES)}d")
_PROCESSES = struct.Struct(f"<2I{2 * _MAX_PROCESSES}I")
_NAMES = struct.Struct("<48s64s")
_SEQUENCE = struct.Struct("<Q")
_SAMPLE = struct.Struct("<QII")
_MAX_SAMPLES = 128
_RING_AT = _SEQUENCE.size + _VALUES.size + _PROCESSES.size + _NAMES.size
_RECORD_BYTES = _RING_AT + 2 * _SEQUENCE.size + _MAX_SAMPLES * _SAMPLE.size


def build(directory: Path | None = None) -> Path:
    """The compiled library. Compiled once per source text, in `directory` or in a temporary folder of this user."""
    root = directory or Path(tempfile.gettempdir()) / f"bubblewatch-nvml-shim-{os.getuid()}"
    home = root / hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]
    library = home / LIBRARY
    if not library.exists():
        home.mkdir(parents=True, exist_ok=True)
        draft = home / f"{os.getpid()}.so"
        options = ["-O2", "-Wall", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
        subprocess.run(["cc", *options, "-o", str(draft), str(SOURCE), "-lm"], check=True)
        draft.replace(library)
    return library


def environment(
    library: Path,
    feed: Path | None = None,
    control: Path | None = None,
    calls: Path | None = None,
    init_code: int = 0,
) -> dict[str, str]:
    """The variables with which a process finds the stand-in and its files. Merge them over os.environ."""
    variables = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML_INIT": str(init_code)}
    for name, path in {"FEED": feed, "CTL": control, "CALLS": calls}.items():
        variables[f"FAKE_NVML_{name}"] = str(path) if path else ""
    return variables


def control(path: Path, commands: str) -> None:
    """Let the stand-in do this from its next call on (commands: the head of nvml_shim.c); "" takes all faults away.

    The new file takes the old one's place in one step: half a file is never read, and the inode tells that it changed.
    """
    draft = path.with_suffix(".new")
    draft.write_text(commands)
    draft.replace(path)


def uuid_of(gpu: int) -> str:
    """The uuid that a feed gives GPU number `gpu` unless told otherwise."""
    return f"GPU-fa4e0000-0000-4000-8000-{gpu:012d}"


def calls_made(path: Path) -> Counter[tuple[str, int | None]]:
    """(function, GPU) -> how often it was called; GPU None where the call was about none."""
    rows = (line.split() for line in path.read_text().splitlines())
    return Counter((function, None if gpu == "-" else int(gpu)) for function, gpu in rows)


class Feed:
    """The mapped file that the stand-in reads, with `count` GPUs as IDLE until told otherwise. One writer at a time."""

    def __init__(self, path: Path, count: int = 8, name: str = NAME, uuids: Sequence[str] | None = None) -> None:
        self.path = path
        self.count = count
        size = _HEADER.size + count * _RECORD_BYTES
        path.write_bytes(_HEADER.pack(_MAGIC, count, _RECORD_BYTES, 0).ljust(size, b"\0"))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._values = [dict(IDLE) for _ in range(count)]
        for gpu in range(count):
            uuid = uuids[gpu] if uuids else uuid_of(gpu)
            at = self._at(gpu) + _SEQUENCE.size + _VALUES.size + _PROCESSES.size
            _NAMES.pack_into(self._map, at, uuid.encode(), name.encode())
            self.set(gpu)

    def set(self, gpu: int, **values: float) -> None:
        """Let these sensors of `gpu` show these values, in one step; NaN = this GPU has no such sensor."""
        unknown = values.keys() - IDLE.keys()
        if unknown:
            raise KeyError(f"no such sensor: {sorted(unknown)}")
        self._values[gpu].update(values)
        packed = _VALUES.pack(*(self._values[gpu][name] for name in VALUES))
        self._write(gpu, _SEQUENCE.size, packed)

    def processes(self, gpu: int, processes: Sequence[tuple[int, int]]) -> None:
        """Let these (pid, MiB) hold memory of `gpu`; sixteen at most."""
        flat = [number for process in processes for number in process]
        padding = [0] * (2 * _MAX_PROCESSES - len(flat))
        packed = _PROCESSES.pack(len(processes), 0, *flat, *padding)
        self._write(gpu, _SEQUENCE.size + _VALUES.size, packed)

    def samples(self, gpu: int, samples: Collection[tuple[int, float, float]]) -> None:
        """Let the driver's own ring hold these (us of its clock, utilization, memory utilization); 128 at most.

        They are handed out in this order, to whoever asks for those after an earlier time. Times below 128 are always
        handed out: they stand for the nonsense that real rings hold.
        """
        packed = b"".join(_SAMPLE.pack(at_us, round(util * 100), round(mem * 100)) for at_us, util, mem in samples)
        self._write(gpu, _SEQUENCE.size, _SEQUENCE.pack(len(samples)) + packed, _RING_AT)

    def _at(self, gpu: int) -> int:
        return _HEADER.size + gpu * _RECORD_BYTES

    def _write(self, gpu: int, offset: int, packed: bytes, part: int = 0) -> None:
        at = self._at(gpu) + part
        (sequence,) = _SEQUENCE.unpack_from(self._map, at)
        _SEQUENCE.pack_into(self._map, at, sequence + 1)
        self._map[at + offset : at + offset + len(packed)] = packed
        _SEQUENCE.pack_into(self._map, at, sequence + 2)


class FeedThread:
    """Keeps a feed as fresh as a simulated host's sensors: a context manager around whatever reads the stand-in.

    `sensor_state(gpu, time_ns)` is what each sensor of that GPU shows at that moment of the host's clock, and `now_ns`
    tells that moment. A field that it leaves out is a sensor that the GPU has not. `samples_every_s`, when given, is
    how often the driver puts utilization into its own ring, which then holds the last ten seconds; its clock is one of
    its own.
    """

    def __init__(
        self,
        feed: Feed,
        sensor_state: Callable[[int, int], Mapping[str, float]],
        now_ns: Callable[[], int],
        every_s: float = 0.02,
        samples_every_s: float | None = None,
    ) -> None:
        self._feed = feed
        self._sensor_state = sensor_state
        self._now_ns = now_ns
        self._every_s = every_s
        self._samples_every_ns = round(samples_every_s * 1e9) if samples_every_s else None
        self._sampled: list[deque[tuple[int, float, float]]] = [
            deque(maxlen=round(10 / (samples_every_s or 1))) for _ in range(feed.count)
        ]
        self._next_sample_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nvml-feed", daemon=True)
        self.error: Exception | None = None

    def refresh(self) -> None:
        """Write what the sensors show now."""
        now_ns = self._now_ns()
        sensors = VALUES[: VALUES.index("power_limit_w")]
        for gpu in range(self._feed.count):
            state = self._sensor_state(gpu, now_ns)
            self._feed.set(gpu, **{name: state.get(name, math.nan) for name in sensors})
            if self._samples_every_ns and now_ns >= self._next_sample_ns and "util_ratio" in state:
                at_us = DRIVER_EPOCH_US + now_ns // 1000
                self._sampled[gpu].append((at_us, state["util_ratio"], state.get("mem_util_ratio", 0.0)))
                self._feed.samples(gpu, self._sampled[gpu])
        if self._samples_every_ns and now_ns >= self._next_sample_ns:
            self._next_sample_ns = now_ns + self._samples_every_ns

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            try:
                self.refresh()
            except Exception as error:  # noqa: BLE001 - raised again where the test can see it, at the end of the block
                self.error = error
                return

    def __enter__(self) -> FeedThread:
        self.refresh()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self.error:
            raise self.error
