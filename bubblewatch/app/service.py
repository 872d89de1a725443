"""The daemon as a systemd service: put in place, taken away, and how it stands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bubblewatch.app.config import DEFAULT_FILE, Loaded
from bubblewatch.app.config_check import check_named_files
from bubblewatch.app.service_unit import UNIT, Profile, UnitOptions, is_local, unit_text
from bubblewatch.model.errors import UsageError
from bubblewatch.sources.systemctl import properties, systemctl

UNIT_FOLDER = Path("/etc/systemd/system")
"""Where an administrator's units are (systemd.unit(5))."""

_SHOWN = (
    *("LoadState", "ActiveState", "SubState", "UnitFileState", "StatusText", "MainPID", "NRestarts"),
    *("ActiveEnterTimestamp", "Result", "MemoryCurrent"),
)

_NO_VALUE = ("", "[not set]", "0")


@dataclass(frozen=True, slots=True)
class Standing:
    """How the service stands. `is_well`: it runs and is ready."""

    is_installed: bool
    is_well: bool
    facts: Mapping[str, str]


def install(
    loaded: Loaded, profile: Profile, groups: Sequence[str], *, start: bool, say: Callable[[str], None]
) -> None:
    """Write the unit and start it, now and at every boot; an older one is replaced and restarted.

    Raises UsageError when the configuration could not be followed or the unit cannot be written, SourceError when
    systemd does not do it.
    """
    check_named_files(loaded.config)
    path = UNIT_FOLDER / UNIT
    _write(path, unit_of(loaded, profile, groups))
    say(f"wrote {path} (profile {profile})")
    systemctl("daemon-reload")
    if not start:
        say(f"start it with: systemctl enable --now {UNIT}")
        return
    systemctl("enable", UNIT)
    systemctl("restart", UNIT)
    say(f"{UNIT} runs, and will at every boot: bubblewatch service status")


def unit_of(loaded: Loaded, profile: Profile, groups: Sequence[str]) -> str:
    """The unit that runs this very installation with this configuration."""
    command = [sys.executable, "-m", "bubblewatch", "run"]
    if loaded.file is not None and Path(loaded.file) != DEFAULT_FILE:
        command += ["--config", str(Path(loaded.file).absolute())]
    return unit_text(UnitOptions(tuple(command), profile, tuple(groups), is_local(loaded.config.listen)))


def uninstall(*, say: Callable[[str], None]) -> None:
    """Stop the service and remove its unit. State and configuration stay, and are named."""
    path = UNIT_FOLDER / UNIT
    if not path.exists():
        raise UsageError(f"{path} is not there, so there is nothing to uninstall")
    systemctl("disable", "--now", UNIT)
    try:
        path.unlink()
    except OSError as error:
        raise UsageError(f"{path}: cannot be removed: {error.strerror}", "run it as root: sudo") from error
    systemctl("daemon-reload")
    say(f"removed {path}; /var/lib/bubblewatch and {DEFAULT_FILE.parent} stay as they are")


def standing() -> Standing:
    """How the service stands now. Raises SourceError when systemd cannot be asked."""
    found = properties(UNIT, _SHOWN)
    is_installed = found.get("LoadState") == "loaded"
    is_well = found.get("ActiveState") == "active" and found.get("SubState") == "running"
    return Standing(is_installed, is_well, found)


def standing_document(now: Standing) -> dict[str, Any]:
    """The same for scripts."""
    return {"installed": now.is_installed, "running": now.is_well, "properties": dict(now.facts)}


def standing_text(now: Standing) -> str:
    """The same for people, a fact a line."""
    if not now.is_installed:
        return "not installed: sudo bubblewatch service install"
    facts = now.facts
    lines = [f"{UNIT}: {facts['ActiveState']} ({facts['SubState']}), {facts['UnitFileState']} at boot"]
    if facts.get("StatusText"):
        lines.append(f"  {facts['StatusText']}")
    if facts.get("ActiveEnterTimestamp") and now.is_well:
        lines.append(f"  since {facts['ActiveEnterTimestamp']}, process {facts['MainPID']}")
    if facts.get("MemoryCurrent", "").isdecimal():
        lines.append(f"  memory {int(facts['MemoryCurrent']) // 2**20} MiB")
    if facts.get("NRestarts") not in _NO_VALUE:
        lines.append(f"  restarted {facts['NRestarts']} times: journalctl --unit {UNIT}")
    if not now.is_well:
        lines.append(f"  result {facts['Result']}: journalctl --unit {UNIT} --lines 30")
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}", "run it as root: sudo") from error
