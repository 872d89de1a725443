"""What this machine tells about the NVIDIA driver beside NVML: files that explain why NVML does not start."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

NVIDIA_VENDOR = "0x10de"
DISPLAY_CLASSES = ("0x0300", "0x0302")
"""PCI classes of GPUs: with display output and without (pci.ids: VGA compatible controller, 3D controller)."""

_KERNEL_MODULE = re.compile(r"NVRM version:.*?\s(\d{3,4}\.\d+(?:\.\d+)?)\s")
"""/proc/driver/nvidia/version of driver 570:
`NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build  (dvs-builder@U22-I3)  Sun ...`"""
_LIBRARY = re.compile(r"libnvidia-ml\.so\.(\d{3,4}\.\d+(?:\.\d+)?)")
"""A line of /proc/PID/maps: `7f1c… r-xp … /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.570.133.20`"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The files of one machine, under `root`. They are read when asked for; one that is not there tells nothing."""

    root: Path = Path("/")

    def version_words(self) -> str:
        """Driver version of the loaded kernel module and of the library that this process has loaded."""
        module = _first(_KERNEL_MODULE, self._text("proc/driver/nvidia/version"))
        library = _first(_LIBRARY, self._text("proc/self/maps"))
        return f"the kernel module is {module or 'of unknown version'}, the library {library or 'of unknown version'}"

    @property
    def is_wsl(self) -> bool:
        """Whether this is Windows' Linux, where NVML answers only in part."""
        return "microsoft" in self._text("proc/version").lower()

    @property
    def lost_its_devices(self) -> bool:
        """Whether the device cgroup forbids the driver's device, or this is a container in which that is likely.

        The cgroup answers "operation not permitted" (EPERM); file modes answer EACCES.
        """
        try:
            os.close(os.open(self.root / "dev/nvidiactl", os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            if error.errno == errno.EPERM:
                return True
        return self.is_container

    @property
    def is_container(self) -> bool:
        """Whether this process runs in a container, as far as the usual marks tell."""
        marks = (".dockerenv", "run/.containerenv")
        if any((self.root / mark).exists() for mark in marks):
            return True
        mounts = (line.split() for line in self._text("proc/self/mountinfo").splitlines())
        return any(len(row) > 8 and row[4] == "/" and "overlay" in row[8:10] for row in mounts)

    def gpus_on_bus(self) -> int:
        """NVIDIA GPUs that the PCI bus shows; 0 also where it cannot be seen."""
        devices = self.root / "sys/bus/pci/devices"
        try:
            names = os.listdir(devices)  # noqa: PTH208 - names are wanted, not paths
        except OSError:
            return 0
        return sum(self._is_gpu(devices / name) for name in names)

    def all_foreign(self, pids: Iterable[int]) -> bool:
        """Whether none of these processes can be seen from here: they belong to another pid namespace."""
        seen = list(pids)
        return bool(seen) and not any((self.root / "proc" / str(pid)).exists() for pid in seen)

    def _is_gpu(self, device: Path) -> bool:
        return _read(device / "vendor").strip() == NVIDIA_VENDOR and _read(device / "class").startswith(DISPLAY_CLASSES)

    def _text(self, path: str) -> str:
        return _read(self.root / path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found[1] if found else None
