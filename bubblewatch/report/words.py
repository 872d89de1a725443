"""Figures and names as people read them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from bubblewatch.model.findings import Finding, Gain, TargetView
from bubblewatch.model.server import Server
from bubblewatch.model.signals import Evidence, EvidenceKind, Signals
from bubblewatch.model.telemetry import GpuInfo
from bubblewatch.model.visible import visible

KINDS: Mapping[str, str] = MappingProxyType(
    {"sglang": "SGLang", "vllm": "vLLM", "trtllm": "TensorRT-LLM", "llamacpp": "llama.cpp", "unknown": "unknown server"}
)
"""Server kind -> how its makers write it."""

BASES: Mapping[str, str] = MappingProxyType(
    {
        "sm": "SM activity",
        "util": "utilization",
        "power": "power",
        "card": "power, levels of this card model",
        "prior": "power, guessed levels",
        "log": "the log",
    }
)
"""Basis of a signal -> what it rests on, for people."""

_LABELS: Mapping[EvidenceKind, str] = MappingProxyType(
    {
        EvidenceKind.TELEMETRY: "gpu",
        EvidenceKind.LOG: "log",
        EvidenceKind.SETTING: "set",
        EvidenceKind.PROCESS: "process",
        EvidenceKind.ENDPOINT: "metrics",
        EvidenceKind.STATED: "stated",
    }
)

LABEL_COLUMNS = 8
"""Columns for the label of an evidence line: the longest, `metrics`, and a space."""


TARGET_LENGTH = 48
"""Characters of a target beside the name of its finding: a GPU's uuid has 40."""


def figure(value: float) -> str:
    """Three significant digits, thousands with commas: `0.5`, `95.6`, `1,540`; `?` when not finite."""
    if not math.isfinite(value):
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def duration(seconds: float) -> str:
    """`83.7 ms`, `3.35 s`, `15 min`, `2 h 14 min`."""
    if not math.isfinite(seconds):
        return "?"
    if seconds < 1:
        return f"{figure(seconds * 1000)} ms"
    if seconds < 120:
        return f"{figure(seconds)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def joined(texts: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(part for part in (", ".join(texts[:-1]), *texts[-1:]) if part)


def sentence(text: str) -> str:
    """`text` with a capital first letter and a full stop, unless it begins with an option or ends as a sentence."""
    text = text.strip()
    if not text:
        return ""
    return text[0].upper() + text[1:] + ("" if text[-1] in ".!?:…" else ".")


def server_words(server: Server | None) -> str:
    """`SGLang 0.5.10`; says when the kind or the version is not known."""
    if server is None:
        return KINDS["unknown"]
    return f"{KINDS.get(server.kind, server.kind)} {server.version or '(version unknown)'}"


def shape_words(signals: Signals) -> str:
    """`PP8 x TP1`; a part that is unknown shows `?`, nothing when both are."""
    stages, ranks = signals.number("parallel.pp"), signals.number("parallel.tp")
    if stages is None and ranks is None:
        return ""
    replicas = signals.number("parallel.dp")
    more = f" x DP{replicas:.0f}" if replicas is not None and replicas > 1 else ""
    return f"PP{_whole(stages)} x TP{_whole(ranks)}{more}"


def gpu_words(gpus: list[GpuInfo]) -> str:
    """`8x RTX PRO 6000`, several models joined by `+`; says when no GPU was seen."""
    models = Counter(gpu.name.removeprefix("NVIDIA ") for gpu in gpus)
    return " + ".join(f"{count}x {model}" for model, count in models.items()) or "GPUs not seen"


def demand_words(signals: Signals) -> str:
    """`8 running, 0 queued`; says what is unknown instead of leaving it out."""
    if signals.value("demand.state") == "none":
        return "nothing running"
    running, at_least = signals.number("demand.running"), signals.number("demand.running_min")
    queued = signals.number("demand.queued")
    waiting = "queue unknown" if queued is None else f"{queued:.0f} queued"
    if running is not None:
        return f"{running:.0f} running, {waiting}"
    if at_least is not None:
        return f"at least {at_least:.0f} running, {waiting}"
    if signals.value("demand.state") == "running":
        return f"running, number unknown, {waiting}"
    return "requests unknown"


def measured_words(signals: Signals) -> str:
    """What was measured of the work, in one line; empty when nothing was."""
    parts = []
    if (rate := signals.number("throughput.gen_tps")) is not None:
        parts.append(f"{figure(rate)} tok/s{_share_words(signals)}")
    if (step := signals.number("throughput.step_s")) is not None:
        parts.append(f"{duration(step)} a step")
    parts.append(_work_words(signals))
    if (power := signals.number("power.median_w")) is not None:
        parts.append(f"{power:.0f} W a GPU")
    return "; ".join(part for part in parts if part)


def _share_words(signals: Signals) -> str:
    """` (21 % of the 448 that memory bandwidth allows)`, empty when that is not known."""
    share, most = signals.number("roofline.ratio"), signals.number("roofline.tps")
    if share is None or most is None:
        return ""
    return f" ({100 * share:.0f} % of the {figure(most)} that memory bandwidth allows)"


def _work_words(signals: Signals) -> str:
    busy, stages = signals.number("pipeline.stages_busy"), signals.number("pipeline.stages")
    if busy is not None and stages is not None and stages > 1:
        basis = signals.value("pipeline.basis") or signals.known["pipeline.stages_busy"].basis
        return f"{busy:.1f} of {stages:.0f} stages at work (S{_by(str(basis))})"
    duty = signals.number("duty.median")
    if duty is None:
        return ""
    return f"GPUs at work {100 * duty:.0f} % of the time{_by(signals.known['duty.median'].basis)}"


def _by(basis: str) -> str:
    return f" by {BASES.get(basis, basis)}" if basis else ""


def gain_words(gain: Gain) -> str:
    """`95.6 -> 115-190 tok/s (model)`, `x1-1.25 (…)` or `uncertain: …`."""
    ends = [figure(end) for end in (gain.low, gain.high) if end is not None]
    if not ends:
        return f"uncertain: {gain.assumption.removeprefix('uncertain: ')}"
    span = "-".join(dict.fromkeys(ends))
    if gain.unit == "x":
        size = f"x{span}"
    else:
        now = f"{figure(gain.now)} -> " if gain.now is not None else ""
        size = f"{now}{span} {gain.unit}"
    return f"{size} ({gain.assumption})" if gain.assumption else size


def evidence_words(evidence: Evidence, length: int) -> tuple[str, str]:
    """Label and text of one fact, the text cut at `length` characters.

    A short place (`argv`, `smi`) is the label itself, a longer one follows in brackets.
    """
    where, text = evidence.where, visible(evidence.text, length)
    if where and len(where) < LABEL_COLUMNS and where.isalnum():
        return where, text
    return _LABELS[evidence.kind], f"{text}  ({where})" if where and where not in text else text


def title_target(finding: Finding, view: TargetView) -> str:
    """What the finding is about when that is not the server itself, else empty."""
    if finding.target == view.target:
        return ""
    return f" ({finding.target.scope} {visible(finding.target.id, TARGET_LENGTH)})"


def _whole(number: float | None) -> str:
    return "?" if number is None else f"{number:.0f}"
