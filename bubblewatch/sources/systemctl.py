"""The service manager, asked and told through `systemctl`."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence

from bubblewatch.model.errors import AccessDenied, SourceError, SourceUnavailable

TIMEOUT_S = 90
"""Longest wait for one call, in seconds: a start may take a minute, while NVML initialises its GPUs."""

LOG_TIMEOUT_S = 20
"""Longest wait for the lines of a unit, in seconds: a cold journal of some GiB takes several."""


def systemctl(*words: str) -> str:
    """What `systemctl WORDS` prints.

    Raises SourceUnavailable where there is none or systemd does not run, AccessDenied, or SourceError with its words.
    """
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, arguments without a shell
            ["systemctl", "--no-ask-password", *words],  # noqa: S607 - found as the shell would
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise SourceUnavailable(
            "there is no systemctl on this machine", "start bubblewatch run by other means"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"systemctl {words[0]} did not end within {TIMEOUT_S} s") from error
    if done.returncode == 0:
        return done.stdout
    said = " ".join(done.stderr.split()) or f"it ended with {done.returncode}"
    if "Access denied" in said or "authentication required" in said or "Permission denied" in said:
        raise AccessDenied(f"systemctl {words[0]} was refused", "run it as root: sudo")
    if "not been booted with systemd" in said or "connect to bus" in said:
        raise SourceUnavailable("systemd does not run on this machine", "start bubblewatch run by other means")
    raise SourceError(f"systemctl {words[0]} failed: {said}")


def properties(unit: str, names: Sequence[str]) -> Mapping[str, str]:
    """Properties of a unit as text, also of one that is not there (LoadState is then `not-found`)."""
    printed = systemctl("show", unit, f"--property={','.join(names)}")
    pairs = (line.partition("=") for line in printed.splitlines())
    return {name: value for name, _, value in pairs}


def unit_log(unit: str, lines: int) -> str:
    """The newest lines of a unit as journalctl prints them. Raises SourceUnavailable when there are none to be had."""
    command = ["journalctl", "--unit", unit, "--lines", str(lines), "--no-pager", "--quiet", "--output=short-iso"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, arguments without a shell
            command, capture_output=True, text=True, errors="replace", timeout=LOG_TIMEOUT_S, check=False
        )
    except FileNotFoundError as error:
        raise SourceUnavailable("there is no journalctl on this machine") from error
    except subprocess.TimeoutExpired as error:
        raise SourceUnavailable(f"journalctl did not answer within {LOG_TIMEOUT_S} s") from error
    if not done.stdout.strip():
        raise SourceUnavailable(f"the journal has no lines of {unit} that this user may read")
    return done.stdout
