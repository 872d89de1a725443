"""The words of a report: what the page, the text and the Markdown of a recording say, whoever draws them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from bubblewatch.model.accounts import GpuState
from bubblewatch.model.findings import Answer
from bubblewatch.model.server import Server
from bubblewatch.report.summary import SeenFinding, Summary, is_worth_showing
from bubblewatch.report.words import duration, figure, gain_words, gpu_words, joined, sentence, server_words

FACTS = 6
"""Evidence lines that are shown of one finding."""

FACT_CHARS = 400
"""Characters of one evidence line."""


@dataclass(frozen=True, slots=True)
class Words:
    """A verdict in a word, a sentence on it, and what to do first ("" = nothing)."""

    word: str
    text: str
    do: str
    is_bad: bool
    is_good: bool


@dataclass(frozen=True, slots=True)
class FindingWords:
    name: str
    about: str
    summary: str
    is_loud: bool
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a report says in words. Tables are rows of texts."""

    title: str
    facts: str
    verdict: Words
    numbers: tuple[tuple[str, str], ...]
    states: tuple[dict[str, str], ...]
    lost: tuple[dict[str, str], ...]
    findings: tuple[FindingWords, ...]
    servers: tuple[dict[str, Any], ...]
    sources: tuple[dict[str, str], ...]
    program: str

    def as_dict(self) -> dict[str, Any]:
        """As plain values, for a template."""
        return asdict(self)


def page(shown: Summary) -> Page:
    """The words for this recording."""
    names = joined([server.key for server in shown.servers]) or "no server"
    host = "a simulated host" if shown.scenario else shown.host.name or "a host"
    facts = [
        f"{_time(shown.start_ns)} to {_time(shown.end_ns)} UTC ({duration(shown.seconds)})",
        *(f"{server.key}: {server_words(server)}" for server in shown.servers),
        gpu_words(list(shown.gpus)),
        f"scenario {shown.scenario}" if shown.scenario else shown.host.system,
    ]
    return Page(
        title=f"{names} on {host}",
        facts="; ".join(filter(None, facts)),
        verdict=_verdict(shown),
        numbers=_numbers(shown),
        states=_states(shown),
        lost=tuple(
            {"server": server, "cause": cause, "hours": _hours(seconds)}
            for server, causes in shown.lost_s.items()
            for cause, seconds in sorted(causes.items(), key=lambda one: -one[1])
        ),
        findings=tuple(_finding(seen, shown) for seen in shown.findings if is_worth_showing(seen)),
        servers=tuple(_server(server) for server in shown.servers),
        sources=tuple(
            {"name": source.name, "health": source.health.value, "detail": source.detail} for source in shown.sources
        ),
        program=shown.program,
    )


def _verdict(shown: Summary) -> Words:
    first = shown.first
    if first is not None:
        when = "" if first.at_end else f" It stood for {duration(first.seconds)} and was gone at the end."
        do = sentence(first.finding.remedy.do) if first.finding.remedy else ""
        return Words("Findings.", sentence(first.finding.summary) + when, do, is_bad=True, is_good=False)
    match shown.last_answer:
        case Answer.HEALTHY:
            return Words("Healthy.", "Requests and work were judged.", "", is_bad=False, is_good=True)
        case Answer.QUIET:
            return Words("Quiet.", "There was nothing to judge at the end.", "", is_bad=False, is_good=False)
        case _:
            text = "There was not enough evidence to judge."
            return Words("Cannot judge.", text, "", is_bad=False, is_good=False)


def _numbers(shown: Summary) -> tuple[tuple[str, str], ...]:
    rows: list[tuple[str, str]] = []
    for name, label, unit in (
        ("throughput.gen_tps", "tokens a second", ""),
        ("demand.running", "requests running", ""),
        ("throughput.step_s", "time of a step", "s"),
        ("pipeline.stages_busy", "stages at work (S)", ""),
        ("duty.median", "work duty of a GPU", "%"),
        ("power.median_w", "power of a GPU", "W"),
    ):
        values = shown.signals[shown.signals["name"] == name]["number"].dropna() if len(shown.signals) else pd.Series()
        if len(values):
            rows.append((f"{label} (median)", _with_unit(float(values.median()), unit)))
    if shown.joules is not None:
        rows.append(("energy", f"{figure(shown.joules / 3.6e6)} kWh"))
        tokens = _tokens(shown)
        if tokens:
            rows.append(("energy of a token", f"{figure(shown.joules / tokens)} J"))
    if shown.restarts:
        rows.append(("restarts seen", str(len(shown.restarts))))
    return tuple(rows)


def _tokens(shown: Summary) -> float:
    """Tokens generated: each rate holds until the next one, for a minute at the most."""
    total = 0.0
    rates = shown.signals[shown.signals["name"] == "throughput.gen_tps"] if len(shown.signals) else shown.signals
    for _, frame in rates.groupby("target") if len(rates) else ():
        gaps = frame["time"].diff().shift(-1).dt.total_seconds().clip(upper=60.0).fillna(0.0)
        total += float((frame["number"] * gaps).sum())
    return total


def _with_unit(value: float, unit: str) -> str:
    match unit:
        case "s":
            return duration(value)
        case "%":
            return f"{100 * value:.0f} %"
        case _:
            return f"{figure(value)} {unit}".strip()


def _states(shown: Summary) -> tuple[dict[str, str], ...]:
    total = sum(shown.states_s.values()) or 1.0
    return tuple(
        {
            "name": state.value,
            "hours": _hours(shown.states_s[state.value]),
            "share": f"{100 * shown.states_s[state.value] / total:.1f} %",
        }
        for state in GpuState
        if shown.states_s.get(state.value)
    )


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.3f}" if seconds < 36_000 else f"{seconds / 3600:,.1f}"


def _finding(seen: SeenFinding, shown: Summary) -> FindingWords:
    finding = seen.finding
    share = 100 * seen.seconds / max(shown.seconds, 1e-9)
    words = [finding.severity.word, finding.confidence.word, f"stood {duration(seen.seconds)} ({share:.0f} %)"]
    if not seen.at_end:
        words.append(f"last seen {_time(seen.last_ns)}")
    if finding.held_back_by:
        words.append(f"held back by {joined(list(finding.held_back_by))}")
    if finding.caused_by:
        words.append(f"effect of {joined(list(finding.caused_by))}")
    facts = [(f"{fact.kind.value} {fact.where}".strip(), fact.text[:FACT_CHARS]) for fact in finding.evidence[:FACTS]]
    if finding.expected_gain is not None:
        facts.append(("gain", gain_words(finding.expected_gain)))
    facts += [("risk", hazard) for hazard in finding.hazards]
    if finding.remedy is not None and finding.remedy.do:
        facts.append(("do", finding.remedy.do))
    if finding.check:
        facts.append(("check", finding.check))
    facts += [("missing", text) for text in finding.missing]
    return FindingWords(finding.name, ", ".join(words), sentence(finding.summary), finding.is_loud, tuple(facts))


def _server(server: Server) -> dict[str, Any]:
    argv = " ".join(server.launch.argv) if server.launch is not None else ""
    settings = [
        {"name": s.name, "value": str(s.value), "origin": s.origin.value}
        for s in sorted(server.settings, key=lambda s: s.name)
    ]
    return {"name": server.key, "about": server_words(server), "argv": argv, "settings": settings}


def _time(time_ns: int) -> str:
    return f"{datetime.fromtimestamp(time_ns // 1_000_000_000, UTC):%Y-%m-%d %H:%M:%S}"
