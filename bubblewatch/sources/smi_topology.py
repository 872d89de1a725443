"""The matrix of `nvidia-smi topo -m`: which devices reach each other over what. Pure."""

from __future__ import annotations

import re

from bubblewatch.model.telemetry import DeviceLink

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
"""The header line is underlined on a terminal and, before driver 545, in a file too."""

_HEADER = re.compile(r"\s*GPU0\s+(?:GPU\d+\s|\S+\s+CPU Affinity|CPU Affinity|NIC\d|mlx\d)")
"""Example (nvidia-smi 570): `        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID`."""

_LONGEST_LINE = 4000
"""Characters; a row of 16 GPUs and as many network cards has about 300."""

_PATH = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d+|PSB|SOC|CNS|OK|N/A")
"""The words of the legend (nvidia-smi 450..580)."""


def links_of(text: str) -> tuple[DeviceLink, ...]:
    """Every pair of devices of the first matrix in `text`, once each; () when there is none."""
    devices: list[str] = []
    links: list[DeviceLink] = []
    named: set[str] = set()
    for line in text.splitlines():
        plain = _ANSI.sub("", line[:_LONGEST_LINE])
        if not devices:
            if _HEADER.match(plain):
                devices = plain.partition("CPU Affinity")[0].split()
            continue
        name, *cells = plain.split() or [""]
        if name not in devices or name in named:
            break
        named.add(name)
        for other, path in zip(devices, cells, strict=False):
            if other not in named and _PATH.fullmatch(path):
                links.append(DeviceLink(name, other, path))
    return tuple(links)
