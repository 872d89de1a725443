"""What the settings say: parallelism, limits, CUDA graphs, the slot ring; and what the log says against them."""

from __future__ import annotations

from collections.abc import Sequence

from bubblewatch.model.logs import DecodeStep, Event, GraphCaptured, GraphOff, OverlapOff, PoolSized, Ready
from bubblewatch.model.server import Origin, Server, Setting
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.decode import DecodePace
from bubblewatch.signals.evidence import ServerEvidence

_SURE: dict[Origin, Confidence] = {Origin.DEFAULT: Confidence.HIGH}
"""A setting that was read is certain; a default of the version is as sure as the version is known."""


def _sure(setting: Setting | None) -> Confidence:
    return Confidence.CERTAIN if setting is None else _SURE.get(setting.origin, Confidence.CERTAIN)


def setting_evidence(setting: Setting | None, server: Server) -> list[Evidence]:
    """Where this setting is written, as a person would look it up: in the launch that asks for it, and in the log.

    A default that nobody wrote down has no evidence; nor has None.
    """
    if setting is None:
        return []
    asked = server.asked.values.get(setting.name)
    written = [s for s in (asked, setting) if s is not None and s.origin is not Origin.DEFAULT]
    return list(dict.fromkeys(_written(s, server) for s in written))


def _written(setting: Setting, server: Server) -> Evidence:
    words = setting.evidence or f"{setting.name}={setting.value}"
    launch = server.launch
    if setting.origin not in (Origin.ARGV, Origin.ENVIRONMENT) or launch is None:
        kind = EvidenceKind.LOG if setting.origin is Origin.LOG else EvidenceKind.SETTING
        return Evidence(kind, str(setting.origin), words)
    place = launch.places.get(words.partition(" ")[0].partition("=")[0], launch.where)
    return Evidence(EvidenceKind.SETTING, str(setting.origin), f"{words} ({place})")


def _line(event: Event) -> Evidence:
    return Evidence(EvidenceKind.LOG, event.line.source or "log", event.line.text[:300])


def write_launch(book: Notebook, evidence: ServerEvidence, pace: DecodePace) -> None:
    """Write what the launch and the start-up lines settle."""
    server, facts = evidence.server, evidence.facts
    book.know("server.kind", server.kind, "launch", Confidence.HIGH)
    book.know("server.version", server.version, server.version_basis, otherwise="the version is not known")
    book.know("server.role", facts.role, "launch", otherwise="not said")
    lacking = "the launch command was not read" if server.launch is None else "the launch does not say"
    for name, value in (("parallel.pp", facts.pp), ("parallel.tp", facts.tp), ("parallel.dp", facts.dp)):
        setting = server.settings.values.get(f"{name.removeprefix('parallel.')}_size")
        book.know(name, value, "launch", _sure(setting), setting_evidence(setting, server), otherwise=lacking)
    sized = [e for e in evidence.events if isinstance(e, PoolSized) and e.max_running is not None]
    if sized:
        book.know("limits.max_running", sized[-1].max_running, "log", Confidence.CERTAIN, [_line(sized[-1])])
    else:
        book.know("limits.max_running", facts.max_running, "launch", otherwise=lacking)
    _write_overlap(book, evidence)
    _write_graphs(book, evidence, pace)
    _write_ring(book, evidence, lacking)


def _write_overlap(book: Notebook, evidence: ServerEvidence) -> None:
    facts = evidence.facts
    book.know("overlap.possible", facts.overlap_possible, "version", otherwise="not known for this version")
    off = [e for e in evidence.events if isinstance(e, OverlapOff)]
    if off:
        book.know("overlap.enabled", False, "log", Confidence.CERTAIN, [_line(off[-1])])
    else:
        book.know("overlap.enabled", facts.overlap_enabled, "launch", otherwise="the launch does not say")


def _write_graphs(book: Notebook, evidence: ServerEvidence, pace: DecodePace) -> None:
    """CUDA graphs of decode: the lines that say what ran, then what was captured, then the switch."""
    server, facts, events = evidence.server, evidence.facts, evidence.events
    book.know("graphs.exempt", facts.graphs_exempt, "launch", otherwise="the role of this server is not known")
    captured = _captured(events)
    sizes = [s for e in events if isinstance(e, GraphCaptured) and e.phase == "decode" for s in e.sizes]
    if sizes:
        book.know("graphs.max_batch", max(sizes), "log", Confidence.CERTAIN, [_line(captured[-1])] if captured else [])
    else:
        book.know("graphs.max_batch", facts.graph_max_batch, "launch", otherwise="the captured sizes are not known")
    if pace.graph_share is not None:
        ran = round(pace.graph_share * pace.graph_lines)
        word, count = ("False", pace.graph_lines - ran) if pace.graph_share < 0.5 else ("True", ran)
        text = f'{count} of {pace.graph_lines} decode lines say "cuda graph: {word}"'
        share = Evidence(EvidenceKind.LOG, "log", text)
        book.know("graphs.decode_share", pace.graph_share, "log", Confidence.HIGH, [share])
    off = [e for e in events if isinstance(e, GraphOff) and e.phase in ("decode", "all") and not e.expected]
    setting = facts.decode_graphs_setting
    proof = setting_evidence(setting, server)
    said = book.get("graphs.decode_share")
    told = list(said.evidence) if said else []
    never = _ready_without_capture(evidence) if not captured else None
    if facts.decode_graphs is False and (pace.graph_share or 0.0) < 0.5:
        seen = [*proof, *([never] if never else []), *map(_line, off[:1]), *told]
        book.know("graphs.decode_enabled", False, "setting", Confidence.CERTAIN, seen)
    elif off and not captured:
        book.know("graphs.decode_enabled", False, "log", Confidence.CERTAIN, [_line(off[0]), *told])
    elif captured:
        book.know("graphs.decode_enabled", True, "log", Confidence.CERTAIN, [_line(captured[-1])])
    elif never is not None:
        book.know("graphs.decode_enabled", False, "log", Confidence.HIGH, [never, *told])
    elif pace.graph_share is not None and pace.graph_share >= 0.5:
        book.know("graphs.decode_enabled", True, "log", Confidence.HIGH, told)
    elif facts.decode_graphs is not None:
        sure = Confidence.MEDIUM if setting is None or setting.origin is Origin.DEFAULT else Confidence.CERTAIN
        book.know("graphs.decode_enabled", facts.decode_graphs, "setting", sure, proof)
    else:
        book.lack("graphs.decode_enabled", "neither the launch nor the start-up lines were read")


def _captured(events: Sequence[Event]) -> list[GraphCaptured]:
    """Lines that show that decode graphs exist: an end of the capture, or its begin and then a server that decodes.

    A capture that fails ends the start, so a server that decodes after its begin has captured.
    """
    of_decode = [e for e in events if isinstance(e, GraphCaptured) and e.phase == "decode"]
    ended = [e for e in of_decode if not e.begin]
    if ended or not of_decode:
        return ended
    later = events[events.index(of_decode[-1]) :]
    return of_decode if any(isinstance(e, DecodeStep | Ready) for e in later) else []


def _ready_without_capture(evidence: ServerEvidence) -> Evidence | None:
    """That the server was ready without having captured decode graphs; None when it says so or this cannot be seen."""
    is_ready = any(isinstance(e, Ready) for e in evidence.events)
    if not (is_ready and evidence.birth_complete and evidence.facts.capture_is_logged):
        return None
    return Evidence(EvidenceKind.LOG, "log", "ready, with no line before it that decode graphs were captured")


def _write_ring(book: Notebook, evidence: ServerEvidence, lacking: str) -> None:
    """The slot ring as configured: how many slots, how many requests each may hold, the depth."""
    facts, server = evidence.facts, evidence.server
    book.know("depth.available", facts.depth_available, "version", otherwise="the version is not known")
    depth = server.settings.values.get("pp_async_batch_depth")
    proof = setting_evidence(depth, server)
    book.know("depth.value", facts.depth, "launch", _sure(depth), proof, otherwise=lacking)
    book.know("slots.ring", facts.ring_slots, "launch", otherwise=lacking)
    book.know("slots.capacity", facts.slot_capacity, "launch", otherwise="the admission limit is not known")


def layers_remainder(layers: int, pp: int) -> int:
    """Layers left over when they are split evenly over the stages."""
    return layers % pp


def write_layers(
    book: Notebook, layers: int | None, pp: int | None, proof: Sequence[Evidence], basis: str = "stated"
) -> None:
    """Write the layer count and what it leaves over; None = not known."""
    book.know("layers.count", layers, basis, evidence=proof, otherwise="the number of layers is not known")
    if layers is not None and pp:
        book.know("layers.remainder", layers_remainder(layers, pp), basis, evidence=proof)
