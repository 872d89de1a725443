"""What a person chose last time: kept in a small file, and never a reason to fail."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from bubblewatch.tui.room import SPANS_S

MOST_BYTES = 4096
"""A file larger than this is not ours."""


@dataclass(frozen=True, slots=True)
class Prefs:
    """Choices that outlive a run. `palette` empty = the usual one."""

    palette: str = ""
    span_s: float = SPANS_S[0]
    with_defaults: bool = False


def prefs_path(environ: Mapping[str, str]) -> Path | None:
    """Where choices are kept by the XDG rules; None where there is no home."""
    state = environ.get("XDG_STATE_HOME")
    if state and Path(state).is_absolute():
        return Path(state) / "bubblewatch" / "top.json"
    home = environ.get("HOME")
    return Path(home) / ".local" / "state" / "bubblewatch" / "top.json" if home else None


def load_prefs(path: Path | None) -> Prefs:
    """The choices in the file; the usual ones when there is none or it cannot be read as such."""
    if path is None:
        return Prefs()
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(MOST_BYTES))
    except (OSError, ValueError):
        return Prefs()
    if not isinstance(found, dict):
        return Prefs()
    palette, span_s = found.get("palette"), found.get("span_s")
    return Prefs(
        palette=palette if isinstance(palette, str) else "",
        span_s=span_s if span_s in SPANS_S else SPANS_S[0],
        with_defaults=found.get("with_defaults") is True,
    )


def save_prefs(path: Path | None, prefs: Prefs) -> None:
    """Keep the choices; where that cannot be done they are not kept."""
    if path is None:
        return
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial.write_text(json.dumps(asdict(prefs)) + "\n", encoding="utf-8")
        partial.replace(path)
    except OSError:
        return
