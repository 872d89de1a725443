"""What settings say beyond the shape of the pipeline: switches, backends, memory, the model's size by its name."""

from __future__ import annotations

import re

from bubblewatch.model.logs import Note, NoteKind
from bubblewatch.model.server import Origin, Setting
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.launch import setting_evidence
from bubblewatch.signals.recent import quoted

GIB_GB = 1.073741824
"""GB in one GiB."""

_PARAMETERS = re.compile(r"(?<![A-Za-z0-9.])(?P<count>\d{1,4}(?:\.\d{1,3})?)(?P<unit>[bB]|[mM])(?![A-Za-z0-9])")
"""`8B` in `Meta-Llama-3-8B-Instruct`, `125m` in `opt-125m`, `30B` in `Qwen3-30B-A3B`: how
models are named on the model hubs. The largest counts."""

_MODEL_SETTINGS = ("model_path", "model")
_QUIET_LEVELS = frozenset({"warning", "error", "critical"})
"""Log levels at which SGLang prints no decode lines (0.4.3 .. 0.5.23, they are INFO)."""


def write_config(book: Notebook, evidence: ServerEvidence) -> None:
    """Write overlap.asked_off, backend.attention, kernels.slow, offload.cpu_gb, memory.granted_ratio, model.params_b,
    layers.split_ratio, log.stats_off and server.newer_than_known.
    """
    facts, server = evidence.facts, evidence.server
    if server.version is not None:
        newer = facts.newer_than_known
        proof = [Evidence(EvidenceKind.SETTING, "version", f"{server.version} is newer than any known here")]
        book.know("server.newer_than_known", newer, "version", evidence=proof if newer else ())
    _write_overlap(book, evidence)
    _write_backend(book, evidence)
    _write_offload(book, evidence)
    granted = _first(evidence, "gpu_memory_utilization", "mem_fraction_static")
    book.know(
        "memory.granted_ratio",
        facts.gpu_memory_ratio,
        "launch",
        Confidence.CERTAIN,
        setting_evidence(granted, server),
        otherwise="the launch does not say",
    )
    _write_model_size(book, evidence)
    _write_split(book, evidence)
    _write_silence(book, evidence)


def _first(evidence: ServerEvidence, *names: str) -> Setting | None:
    values = evidence.server.settings.values
    return next((values[name] for name in names if name in values), None)


def _write_overlap(book: Notebook, evidence: ServerEvidence) -> None:
    """A switch that somebody used; a default or a consequence of the parallelism is none."""
    setting = evidence.facts.overlap_setting
    if setting is None:
        book.lack("overlap.asked_off", "the launch was not read")
        return
    switched = setting.value is (setting.name.startswith("disable")) and setting.origin is not Origin.DEFAULT
    proof = setting_evidence(setting, evidence.server) if switched else []
    book.know("overlap.asked_off", switched, "setting", Confidence.CERTAIN, proof)


def _write_backend(book: Notebook, evidence: ServerEvidence) -> None:
    facts = evidence.facts
    proof = setting_evidence(facts.attention_backend_setting, evidence.server)
    book.know(
        "backend.attention", facts.attention_backend, "setting", Confidence.CERTAIN, proof, otherwise="not stated"
    )
    slow = [e for e in evidence.events if isinstance(e, Note) and e.kind is NoteKind.SLOW_KERNELS]
    if evidence.log_read:
        book.know("kernels.slow", bool(slow), "log", Confidence.HIGH, [quoted(e) for e in slow[:2]])


def _write_offload(book: Notebook, evidence: ServerEvidence) -> None:
    facts = evidence.facts
    proof = setting_evidence(facts.cpu_offload_setting, evidence.server)
    if facts.cpu_offload_gib is not None:
        book.know("offload.cpu_gb", facts.cpu_offload_gib * GIB_GB, "setting", Confidence.CERTAIN, proof)
    book.know(
        "offload.enabled", facts.cpu_offload, "setting", Confidence.CERTAIN, proof, otherwise="the launch does not say"
    )


def _write_model_size(book: Notebook, evidence: ServerEvidence) -> None:
    """Parameters by the name: a name is a claim, so this is never sure."""
    setting = _first(evidence, *_MODEL_SETTINGS)
    name = evidence.facts.model or (str(setting.value) if setting is not None else "")
    base = name.rstrip("/").rpartition("/")[2][:200]
    sizes = [float(found["count"]) / (1000 if found["unit"] in "mM" else 1) for found in _PARAMETERS.finditer(base)]
    proof = [Evidence(EvidenceKind.SETTING, "model", base)]
    book.know(
        "model.params_b",
        max(sizes) if sizes else None,
        "name",
        Confidence.MEDIUM,
        proof,
        otherwise="the model's name does not say how large it is",
    )


def _write_split(book: Notebook, evidence: ServerEvidence) -> None:
    """How uneven the layers are spread, by the rule of the version or as stated."""
    stages, count = evidence.facts.pp, book.number("layers.count")
    split = evidence.facts.layer_split
    if stages is None or stages < 2 or count is None:
        why = "there is no pipeline" if stages == 1 else "the number of layers or stages is not known (--layers N)"
        book.lack("layers.split_ratio", why)
        return
    layers = int(count)
    parts = split.layers(layers, stages) if split is not None else ()
    if not parts and layers % stages == 0:
        parts = (layers // stages,) * stages
    if not parts:
        book.lack("layers.split_ratio", "how this version splits the layers is not known")
        return
    text = f"{layers} layers over {stages} stages: {', '.join(map(str, parts))}"
    proof = [Evidence(EvidenceKind.SETTING, "layers", text)]
    book.know("layers.split_ratio", max(parts) * stages / layers, "split", Confidence.HIGH, proof)


def _write_silence(book: Notebook, evidence: ServerEvidence) -> None:
    setting = _first(evidence, "disable_log_stats", "log_level")
    if setting is None:
        book.lack("log.stats_off", "the launch does not say")
        return
    quiet = setting.value is True or str(setting.value).lower() in _QUIET_LEVELS
    proof = setting_evidence(setting, evidence.server) if quiet else []
    book.know("log.stats_off", quiet, "setting", Confidence.CERTAIN, proof)
