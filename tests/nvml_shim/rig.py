"""A driver in this very process: the stand-in, bound by the real pynvml for one test."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pynvml
import pytest

from bubblewatch.sources.nvml import Nvml
from bubblewatch.sources.nvml_choose import choose
from bubblewatch.sources.nvml_device import Device
from bubblewatch.sources.nvml_surroundings import Surroundings
from tests.nvml_shim.shim import Feed, build, control, environment


class Counted:
    """A meter that keeps what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.rejected = 0

    def count_call(self, function: str, latency_ns: int) -> None:
        self.calls.append((function, latency_ns))

    def count_rejected(self, count: int) -> None:
        self.rejected += count


class Rig:
    """A driver with `count` GPUs in this very process, for one test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch
        self._opened: list[Nvml] = []
        self.calls = folder / "calls"
        self.control = folder / "control"
        self.meter = Counted()
        library = build()
        monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(library)))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        self.library = library
        self.feed = Feed(folder / "feed", count=3)

    def nvml(self, faults: str = "", init_code: int = 0, around: Surroundings | None = None) -> Nvml:
        """An open NVML; what is said of its surroundings is nothing unless told otherwise."""
        control(self.control, faults)
        variables = environment(self.library, self.feed.path, self.control, self.calls, init_code)
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)
        nvml = Nvml.open(self.meter, around or Surroundings(self._folder / "nowhere"))
        self._opened.append(nvml)
        return nvml

    def device(self, faults: str = "", gpu: int = 0) -> Device:
        device = choose(self.nvml(faults)).devices[gpu]
        assert isinstance(device, Device)
        return device

    def close(self) -> None:
        for nvml in self._opened:
            nvml.close()
