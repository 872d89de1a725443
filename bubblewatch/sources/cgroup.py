"""Who runs a process, by the path of its control group: systemd unit, container, pod. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONTAINER = re.compile(r"(?:^|[-/:])([0-9a-f]{64})(?=\.scope|/|$)")
"""Examples: `/docker/<id>`, `docker-<id>.scope`, `cri-containerd-<id>.scope`, `crio-<id>.scope`, `libpod-<id>.scope`,
`/kubepods/burstable/pod<uid>/<id>` (Docker 20..27, containerd 1.6 and 2, CRI-O, Podman 4 and 5; cgroup v1 and v2)."""

_POD = re.compile(r"[-/]pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})(?=\.slice|/|:|$)")
"""Examples: `kubepods-burstable-pod1b2c…_….slice` (systemd driver writes `_` for `-`), `/kubepods/pod1b2c…-…/`."""

_USER_MANAGER = re.compile(r"user@\d+\.service")
"""The manager of a user's units is no server; the units under it are."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Unit (`k26.service`), container (full id) and pod (uid) of a process; None = not run by such a one."""

    unit: str | None = None
    container: str | None = None
    pod: str | None = None


def owner_of(text: str) -> Owner:
    """Whose process it is, by the text of its /proc/PID/cgroup (cgroups(7)).

    The unified hierarchy speaks first, then systemd's own, then any other. Seen from inside a container all paths may
    be `/`, which tells nothing.
    """
    paths = _paths(text)
    pod = _innermost(_POD, paths)
    return Owner(
        unit=next(filter(None, map(_unit, paths)), None),
        container=_innermost(_CONTAINER, paths),
        pod=pod and pod.replace("_", "-"),
    )


def _paths(text: str) -> list[str]:
    """Paths of the hierarchies, the one that tells most first."""
    ranked: list[tuple[int, str]] = []
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        rank = 0 if number == "0" and not controllers else 1 if controllers == "name=systemd" else 2
        ranked.append((rank, path))
    return [path for _, path in sorted(ranked, key=lambda pair: pair[0])]


def _unit(path: str) -> str | None:
    """The innermost `.service` of a path."""
    services = [part for part in path.split("/") if part.endswith(".service") and not _USER_MANAGER.fullmatch(part)]
    return services[-1] if services else None


def _innermost(pattern: re.Pattern[str], paths: list[str]) -> str | None:
    """What the pattern's group found last in the first path in which it found anything."""
    found = (pattern.findall(path) for path in paths)
    return next((matches[-1] for matches in found if matches), None)
