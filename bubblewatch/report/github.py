"""Audit -> workflow commands, which GitHub Actions shows at the lines of a change.

Format: `::warning file=…,line=…,title=…::…` (GitHub documentation, "Workflow commands for GitHub Actions"; escapes as
in actions/toolkit, packages/core/src/command.ts).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from bubblewatch.model.findings import Finding, Severity
from bubblewatch.model.visible import visible
from bubblewatch.report.places import FileLine, place_of_finding, place_of_texts
from bubblewatch.report.words import sentence
from bubblewatch.runtime.audit import Audit, ServerAudit

_LEVELS = MappingProxyType({Severity.INFO: "notice", Severity.WARNING: "warning", Severity.CRITICAL: "error"})


def github_lines(audit: Audit) -> list[str]:
    """One command for each problem and finding, in the order in which to act; a notice for what could not be told.

    A finding that is held back by another one, or that the user accepts, is a notice.
    """
    return [line for server in audit.servers for line in _of_server(server)]


def github_error(what: str) -> str:
    """The command that says why nothing could be judged."""
    return command("error", None, "bubblewatch", what)


def command(level: str, place: FileLine | None, title: str, text: str) -> str:
    """One workflow command. Nothing in the texts can end it or begin another one."""
    properties = [f"file={_property(place[0])}", f"line={place[1]}"] if place is not None else []
    properties.append(f"title={_property(title)}")
    return f"::{level} {','.join(properties)}::{_data(text)}"


def _of_server(audited: ServerAudit) -> Iterator[str]:
    launch = audited.server.launch
    for problem in audited.problems:
        place = place_of_texts((problem,), launch) if launch is not None else None
        yield command("error", place, f"settings of {audited.server.key}", sentence(problem))
    for finding in audited.view.findings:
        quiet = finding.held_back_by or finding.ignored
        level = "notice" if quiet else _LEVELS[finding.severity]
        title = f"{finding.name} ({finding.confidence.word})"
        yield command(level, place_of_finding(finding, launch), title, _words(finding))
    for doubt in audited.doubts:
        place = place_of_texts((), launch) if launch is not None else None
        yield command("notice", place, f"not sure of {audited.server.key}", sentence(doubt))


def _words(finding: Finding) -> str:
    parts = [sentence(finding.summary)]
    if finding.held_back_by:
        parts.append(f"Held back by {', '.join(finding.held_back_by)}.")
    elif finding.remedy is not None:
        parts.append(sentence(finding.remedy.do))
        parts += [f"Risk: {sentence(hazard)}" for hazard in finding.hazards[:1]]
    return " ".join(part for part in parts if part)


def _data(text: str) -> str:
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
