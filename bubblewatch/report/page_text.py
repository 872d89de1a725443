"""A report as Markdown or as plain text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

from bubblewatch.model.visible import visible
from bubblewatch.report.page import Page

_ACTS = re.compile(r"([\\`*_{}\[\]<>#|~&!])")


def markdown(page: Page) -> str:
    """The report as Markdown (GitHub's tables). Nothing in a text from outside acts as markup."""
    lines = [f"# {_safe(page.title)}", "", _safe(page.facts), ""]
    lines += [f"**{page.verdict.word}** {_safe(page.verdict.text)}", ""]
    lines += [f"**First:** {_safe(page.verdict.do)}", ""] if page.verdict.do else []
    lines += _table(("", ""), page.numbers)
    lines += ["## Where the GPU time went", ""]
    lines += _table(("state", "GPU-hours", "share"), [(r["name"], r["hours"], r["share"]) for r in page.states])
    lost = [(r["server"], r["cause"], r["hours"]) for r in page.lost]
    lines += _table(("server", "idle while requests ran, by cause", "GPU-hours"), lost)
    lines += ["## Findings", ""]
    for finding in page.findings:
        lines += [f"### {finding.name}", "", f"{_safe(finding.about)}. {_safe(finding.summary)}", ""]
        lines += [f"- {_safe(label)}: {_code(text)}" for label, text in finding.facts] + [""]
    lines += [] if page.findings else ["None.", ""]
    lines += ["## Settings", ""]
    for server in page.servers:
        lines += [f"### {_safe(server['name'])} ({_safe(server['about'])})", ""]
        lines += _table(
            ("setting", "value", "from"), [(s["name"], s["value"], s["origin"]) for s in server["settings"]]
        )
    lines += ["## Sources", ""]
    lines += _table(("source", "health", ""), [(s["name"], s["health"], s["detail"]) for s in page.sources])
    return "\n".join(lines).rstrip() + "\n"


def _safe(text: str) -> str:
    return _ACTS.sub(r"\\\1", visible(text))


def _code(text: str) -> str:
    """As code, between more backticks than it holds."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}" if longest else f"{fence}{shown}{fence}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    body = ["| " + " | ".join(_safe(cell) for cell in row) + " |" for row in rows]
    if not body:
        return []
    return ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body, ""]


def plain_report(page: Page, width: int) -> str:
    """The report as text of at most `width` columns where words allow."""
    lines = [visible(page.title), *_wrapped(page.facts, width), ""]
    lines += _wrapped(f"{page.verdict.word} {page.verdict.text}", width)
    lines += _wrapped(f"First: {page.verdict.do}", width) if page.verdict.do else []
    lines += ["", *_columns(page.numbers)]
    lines += ["", "Where the GPU time went (GPU-hours)"]
    lines += _columns([(r["name"], r["hours"], r["share"]) for r in page.states])
    if page.lost:
        lines += ["", "Idle while requests ran, by cause (GPU-hours)"]
        lines += _columns([(r["server"], r["cause"], r["hours"]) for r in page.lost])
    lines += ["", "Findings" if page.findings else "Findings: none"]
    for finding in page.findings:
        lines += _wrapped(f"{finding.name}  ({finding.about})", width, "  ", "    ")
        lines += _wrapped(finding.summary, width, "    ")
        lines += [
            line for label, text in finding.facts for line in _wrapped(f"{label}: {text}", width, "    ", "      ")
        ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _wrapped(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    return textwrap.wrap(
        visible(text),
        width,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_on_hyphens=False,
    )


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows with their columns below each other, the last ones flush right."""
    if not rows:
        return []
    widths = [max(len(visible(row[at])) for row in rows) for at in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            visible(cell).ljust(width) if at == 0 or not cell[:1].isdigit() else visible(cell).rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
