"""An archive for a bug report: what this machine shows bubblewatch, without secrets and names, and a list of it."""

from __future__ import annotations

import getpass
import gzip
import io
import json
import os
import platform
import socket
import sys
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from bubblewatch import __version__
from bubblewatch.app.config import load
from bubblewatch.app.config_show import as_toml
from bubblewatch.app.doctor import examine, report_text
from bubblewatch.app.rules import rules_in_force
from bubblewatch.app.service_unit import UNIT
from bubblewatch.model.anonymous import Anonymiser
from bubblewatch.model.clock import Clock
from bubblewatch.model.errors import BubblewatchError, UsageError
from bubblewatch.model.redact import redact_text
from bubblewatch.sources.endpoint import fetch_page
from bubblewatch.sources.systemctl import unit_log

LOG_LINES = 500
"""Newest lines of the daemon's own log that go into the archive."""

MOST_CHARS = 4 * 1024 * 1024
"""Longest text of one part; its end is cut off."""

TOP = "bubblewatch-bundle"
"""Folder within the archive."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of the archive: its name, what it is, and its text; `absent` says why there is none."""

    name: str
    what: str
    text: str = ""
    absent: str = ""


def collect(environ: Mapping[str, str], url: str, clock: Clock) -> tuple[Part, ...]:
    """Every part, cleaned. One that cannot be had says why. Takes a few seconds, while the sources are looked at."""
    makers: tuple[tuple[str, str, Callable[[], str]], ...] = (
        ("versions.txt", "versions of bubblewatch, Python, its packages and the system", _versions),
        (
            "doctor.txt",
            "what bubblewatch can see here",
            lambda: report_text(examine(None, rules_in_force(), clock), 100),
        ),
        (
            "config.toml",
            "the daemon's configuration and where each value comes from",
            lambda: as_toml(load(None, environ)),
        ),
        ("rules.txt", "names and states of the rules in force", _rules),
        (
            "snapshot.json",
            f"what the daemon says now ({url}/api/v1/snapshot)",
            lambda: _page(f"{url}/api/v1/snapshot", clock),
        ),
        ("metrics.txt", f"what Prometheus gets ({url}/metrics)", lambda: _page(f"{url}/metrics", clock)),
        ("daemon.log", f"the newest {LOG_LINES} lines of the daemon's own log", lambda: unit_log(UNIT, LOG_LINES)),
    )
    anonymiser = Anonymiser({platform.node(), socket.getfqdn(), platform.node().partition(".")[0]}, _users())
    return tuple(_made(name, what, make, anonymiser) for name, what, make in makers)


def write_bundle(path: str, parts: tuple[Part, ...]) -> int:
    """Write the archive for its owner alone; its size in bytes. Raises UsageError when `path` exists or cannot be."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}", "give --output another name") from error
    with (
        os.fdopen(descriptor, "wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, text in (("contents.txt", contents(parts)), *((p.name, p.text) for p in parts if not p.absent)):
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{TOP}/{name}")  # no owner, no time: they say nothing about the fault
            entry.size = len(data)
            entry.mode = 0o600
            archive.addfile(entry, io.BytesIO(data))
    return Path(path).stat().st_size


def contents(parts: tuple[Part, ...]) -> str:
    """The list of what is in the archive and what is not."""
    lines = ["What is in this archive. Secrets, host and user names, home folders and addresses were replaced.", ""]
    for part in parts:
        size = f"not there: {part.absent}" if part.absent else f"{len(part.text.encode('utf-8', 'replace'))} bytes"
        lines.append(f"{part.name:<15} {part.what}  ({size})")
    lines += ["", "Command lines and log lines of inference servers are quoted in it: read it before you send it."]
    return "\n".join(lines) + "\n"


def _made(name: str, what: str, make: Callable[[], str], anonymiser: Anonymiser) -> Part:
    try:
        text = make()
    except BubblewatchError as error:
        return Part(name, what, absent=anonymiser.clean(redact_text(str(error))))
    except OSError as error:
        return Part(name, what, absent=error.strerror or type(error).__name__)
    cut = "" if len(text) <= MOST_CHARS else "\n(the rest was cut off)\n"
    lines = (redact_text(line) for line in text[:MOST_CHARS].split("\n"))
    return Part(name, anonymiser.clean(what), anonymiser.clean("\n".join(lines)) + cut)


def _versions() -> str:
    packages = sorted({f"{d.name} {d.version}" for d in metadata.distributions() if d.name}, key=str.lower)
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    distribution = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown distribution")
    head = [f"bubblewatch {__version__}", f"Python {sys.version.split()[0]}", system, distribution]
    return "\n".join([*head, "", *packages]) + "\n"


def _rules() -> str:
    return "".join(f"{rule.id} {rule.name} {rule.status}\n" for rule in rules_in_force())


def _page(url: str, clock: Clock) -> str:
    text = fetch_page(url, clock)
    try:
        return json.dumps(json.loads(text), indent=1)
    except ValueError:
        return text


def _users() -> set[str]:
    names = {os.environ.get("SUDO_USER", ""), Path.home().name}
    try:
        names.add(getpass.getuser())
    except (KeyError, OSError):
        return names
    return names
