"""Where in a file the settings behind a finding stand."""

from __future__ import annotations

import re
from collections.abc import Iterable

from bubblewatch.model.findings import Finding
from bubblewatch.model.server import Launch
from bubblewatch.model.signals import EvidenceKind

_FILE_LINE = re.compile(r"(?P<path>.+):(?P<line>\d+)")

FileLine = tuple[str, int]
"""Path as the user wrote it, and 1-based line."""


def place_of_finding(finding: Finding, launch: Launch | None) -> FileLine | None:
    """The line to change for a finding: that of an option its remedy takes out, else of a setting it rests on, else
    where the command begins; None when the launch was not read from a file.
    """
    if launch is None:
        return None
    removed = finding.remedy.remove if finding.remedy is not None else ()
    settings = [fact.text for fact in finding.evidence if fact.kind is EvidenceKind.SETTING]
    return place_of_texts((*removed, *settings), launch)


def place_of_texts(texts: Iterable[str], launch: Launch) -> FileLine | None:
    """The line of the first text that begins with an option or variable of the launch; else where it begins."""
    for text in texts:
        word = text.partition(" ")[0].partition("=")[0]
        if (place := _file_line(launch.places.get(word, ""))) is not None:
            return place
    return _file_line(launch.where)


def _file_line(text: str) -> FileLine | None:
    found = _FILE_LINE.fullmatch(text)
    return (found["path"], int(found["line"])) if found else None
