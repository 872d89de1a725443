"""The answer over one target, and what to ask for so that it could be given (better)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import MappingProxyType

from bubblewatch.model.findings import Answer, Finding, Severity
from bubblewatch.model.signals import Confidence, Signals

QUIET_NAMES = frozenset({"no-demand", "startup-phase", "telemetry-artefact"})
"""Info findings that explain why there is nothing to judge (design §4)."""

MIN_READINGS = 5
"""Distinct readings below which telemetry is a snapshot (design §6)."""

ASK_TELEMETRY = (
    "30 s under load of `nvidia-smi --query-gpu=index,utilization.gpu,power.draw --format=csv -lms 500` (--telemetry)"
)
ASK_LAUNCH = "the launch command or unit file (--command, --unit-file)"
ASK_VERSION = "the server's version (--server-version)"
ASK_RUNNING = "how many requests run in all (--running N)"

ASK_HOST = "whether a process of the server uses a full core under load (`top -H`), and how many requests wait"
"""When everything that can be handed over was, and requests and GPUs still do not fit together."""

_ASK_LINES = MappingProxyType(
    {
        "sglang": 'ten "Decode batch" lines of the server\'s log (--log)',
        "vllm": 'ten "Avg generation throughput" lines of the server\'s log (--log)',
    }
)
_ASK_LOG = "the server's log over a minute under load (--log)"
_KNOWN_FROM_LAUNCH = ("parallel.pp", "graphs.decode_enabled")


def answer(signals: Signals, findings: Sequence[Finding]) -> tuple[Answer, tuple[str, ...]]:
    """The verdict of design §4, and what to ask for, most useful first, in words that a person can act on.

    FINDINGS when one is loud; else QUIET when an info finding explains why there is nothing to judge; else CANNOT_JUDGE
    when demand or the effect is unknown, or when they are known and the rule `healthy` does not match: it names what is
    not healthy although no other rule explains it. Else HEALTHY.
    """
    asked = tuple(_wanted(signals))
    if any(finding.is_loud for finding in findings):
        return Answer.FINDINGS, asked
    if _is_quiet(findings):
        return Answer.QUIET, asked
    if not is_judged(signals, findings):
        return Answer.CANNOT_JUDGE, asked or (ASK_HOST,)
    return Answer.HEALTHY, asked


def is_judged(signals: Signals, findings: Sequence[Finding]) -> bool:
    """Whether demand and the effect are known and lead to something, or something quiet explains why they do not.

    That GPUs work shows that something runs; it counts nobody. They lead to nothing when there is no finding that would
    be loud (an accepted one explains as well) and the rule `healthy` does not match either.
    """
    if _is_quiet(findings):
        return True
    concluded = any(
        finding.name == Answer.HEALTHY or (finding.severity >= Severity.WARNING and not finding.held_back_by)
        for finding in findings
    )
    is_counted = _is_known(signals, "demand.state") and signals.value("demand.counted") is not False
    return concluded and is_counted and effect_is_known(signals)


def effect_is_known(signals: Signals) -> bool:
    """Whether a token rate or a work duty says how well the hardware is used.

    A rate of zero while requests run is no effect but a question, and utilization alone proves no work (design §1.3):
    a spinning kernel reads 100 %. A duty against a guessed busy level is no proof either, nor are watts that can be
    compared with nothing.
    """
    rate = signals.number("throughput.gen_tps")
    if rate is not None and (rate > 0 or signals.value("demand.state") != "running"):
        return True
    if signals.value("pipeline.basis_tells") is True and _is_sure(signals, "pipeline.stages_busy"):
        return True
    comparable = _is_known(signals, "power.limit_ratio") or _is_known(signals, "power.above_cold_w")
    if signals.value("parallel.tp") == 1 and signals.value("parallel.pp") == 1 and _is_sure(signals, "duty.median"):
        return True  # one GPU alone has no peer to spin for
    return _is_sure(signals, "duty.median") and _is_known(signals, "power.median_w") and comparable


def overall(answers: Sequence[Answer]) -> Answer:
    """One answer for several targets: the most urgent one; blindness on one of them is never hidden by health."""
    order = (Answer.FINDINGS, Answer.CANNOT_JUDGE, Answer.HEALTHY, Answer.QUIET)
    return next((a for a in order if a in answers), Answer.CANNOT_JUDGE)


def _is_quiet(findings: Sequence[Finding]) -> bool:
    return any(finding.name in QUIET_NAMES for finding in findings)


def _is_known(signals: Signals, name: str) -> bool:
    return name in signals.known


def _is_sure(signals: Signals, name: str) -> bool:
    signal = signals.known.get(name)
    return signal is not None and signal.confidence is not Confidence.POSSIBLE


def _wanted(signals: Signals) -> Iterator[str]:
    """What is not there yet. Readings first: they say what the cards do, whatever serves on them."""
    if (signals.number("telemetry.readings") or 0) < MIN_READINGS:
        yield ASK_TELEMETRY
    if any(not _is_known(signals, name) for name in _KNOWN_FROM_LAUNCH):
        yield ASK_LAUNCH
    if not _is_known(signals, "server.version"):
        yield ASK_VERSION
    if not _is_known(signals, "throughput.gen_tps"):
        yield _ASK_LINES.get(str(signals.value("server.kind")), _ASK_LOG)
    if not _is_known(signals, "demand.running"):
        yield ASK_RUNNING
