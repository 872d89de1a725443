"""The ways between the GPUs: PCIe, NVLink, peer access, and what collectives run over."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bubblewatch.model.logs import CommKind, CommNote
from bubblewatch.model.server import Setting
from bubblewatch.model.signals import Confidence, Evidence, EvidenceKind
from bubblewatch.model.telemetry import GpuReading, Series
from bubblewatch.signals.builder import Notebook
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.signals.launch import setting_evidence
from bubblewatch.signals.recent import quoted

MOST_ON_A_HOST = 8
"""GPUs that one host has at most, in nearly all machines (HGX boards, PCIe servers): more tensor ranks than that cross
hosts. Sixteen on one board exist and are rare, so this alone is never more than medium."""


def write_links(book: Notebook, evidence: ServerEvidence, mine: Sequence[GpuReading]) -> None:
    """Write pcie.*, links.nvlink and comm.*."""
    _write_pcie(book, mine)
    _write_nvlink(book, evidence, mine)
    notes = [e for e in evidence.events if isinstance(e, CommNote)]
    _write_crossing(book, evidence)
    switched = _switched(evidence, "NCCL_P2P_DISABLE", {"1"}) or _switched(evidence, "NCCL_P2P_LEVEL", {"LOC", "0"})
    _write_switch(book, evidence, "comm.p2p_off", switched, _of(notes, CommKind.P2P_OFF, CommKind.VIA_SHM))
    sockets = _switched(evidence, "NCCL_IB_DISABLE", {"1"}) or _switched(evidence, "NCCL_NET", {"SOCKET"})
    seen = _of(notes, CommKind.VIA_SOCKET, CommKind.NETWORK_SOCKET)
    if sockets is None and not seen and _of(notes, CommKind.VIA_RDMA, CommKind.NETWORK_RDMA):
        book.know("comm.sockets", False, "log")
    else:
        _write_switch(book, evidence, "comm.sockets", sockets, seen)
    off = _of(notes, CommKind.CUSTOM_ALL_REDUCE_OFF)
    setting = evidence.facts.custom_all_reduce_setting
    if evidence.facts.custom_all_reduce is False or off:
        proof = [*setting_evidence(setting, evidence.server), *(quoted(e) for e in off[:1])]
        book.know("comm.custom_allreduce_off", True, "setting" if setting else "log", Confidence.CERTAIN, proof)
    else:
        book.lack("comm.custom_allreduce_off", "neither the launch nor a line says that it is off")


def _of(notes: Sequence[CommNote], *kinds: CommKind) -> list[CommNote]:
    return [note for note in notes if note.kind in kinds]


def _switched(evidence: ServerEvidence, name: str, values: Collection[str]) -> Setting | None:
    """The setting `name` when it has one of these values (in capitals)."""
    setting = evidence.server.settings.values.get(name)
    if setting is None:
        return None
    value = "1" if setting.value is True else str(setting.value).strip().upper()
    return setting if value in values else None


def _write_switch(
    book: Notebook, evidence: ServerEvidence, name: str, setting: Setting | None, notes: Sequence[CommNote]
) -> None:
    """Write a switch: on by a setting, else by a line; off only where the environment was read."""
    if setting is not None:
        book.know(name, True, "setting", Confidence.CERTAIN, setting_evidence(setting, evidence.server))
    elif notes:
        book.know(name, True, "log", Confidence.HIGH, [quoted(e) for e in notes[:2]])
    elif evidence.server.launch is not None and evidence.server.launch.env is not None:
        book.know(name, False, "environment", Confidence.MEDIUM)
    else:
        book.lack(name, "the environment was not read, and no line says so (NCCL_DEBUG=INFO)")


def _write_crossing(book: Notebook, evidence: ServerEvidence) -> None:
    """Whether the tensor ranks of a stage are on several hosts: every layer's collective then crosses them."""
    facts, here = evidence.facts, len(evidence.telemetry.gpus)
    if facts.tp is None or facts.pp is None:
        book.lack("comm.crosses_hosts", "the parallelism is not known")
        return
    world = facts.tp * facts.pp
    if facts.nodes is not None and facts.nodes > 1:
        crosses = world / facts.nodes < facts.tp
        text = f"{facts.tp} tensor ranks, {world} ranks on {facts.nodes} hosts"
        book.know("comm.crosses_hosts", crosses, "launch", Confidence.HIGH, [_said(text)] if crosses else ())
    elif here >= facts.tp or facts.tp <= MOST_ON_A_HOST:
        book.know("comm.crosses_hosts", False, "launch", Confidence.HIGH)
    else:
        text = f"{facts.tp} tensor ranks are more than one host has GPUs"
        book.know("comm.crosses_hosts", True, "launch", Confidence.MEDIUM, [_said(text)])


def _said(text: str) -> Evidence:
    return Evidence(EvidenceKind.SETTING, "launch", text)


def _write_pcie(book: Notebook, mine: Sequence[GpuReading]) -> None:
    """Width may be read at any time, generation only counts at its highest: an idle link falls to generation 1."""
    for name, field, most in (
        ("pcie.width_ratio", "pcie_width", "pcie_width_max"),
        ("pcie.gen_ratio", "pcie_gen", "pcie_gen_max"),
    ):
        found = []
        for reading in mine:
            values = [value for value in reading.series.get(field, Series()).values if value > 0]
            possible = getattr(reading.gpu, most)
            if values and possible:
                found.append((max(values) / possible, max(values), possible, reading.gpu.index))
        if not found:
            book.lack(name, "the links of the cards were not read")
            continue
        ratio, value, possible, index = min(found)
        what = f"x{value:.0f} of x{possible}" if field == "pcie_width" else f"generation {value:.0f} of {possible}"
        proof = [Evidence(EvidenceKind.TELEMETRY, f"GPU {index}", f"PCIe {what}")] if ratio < 1 else []
        book.know(name, min(ratio, 1.0), "link", Confidence.HIGH, proof)


def _write_nvlink(book: Notebook, evidence: ServerEvidence, mine: Sequence[GpuReading]) -> None:
    names = {f"GPU{reading.gpu.index}" for reading in mine}
    pairs = [link for link in evidence.telemetry.links if link.first in names and link.second in names]
    if not pairs:
        book.lack("links.nvlink", "the topology was not read (nvidia-smi topo -m)")
        return
    slow = next((link for link in pairs if not link.path.startswith("NV")), None)
    proof = [Evidence(EvidenceKind.TELEMETRY, "topology", f"{slow.first} - {slow.second}: {slow.path}")] if slow else []
    book.know("links.nvlink", slow is None, "topology", Confidence.HIGH, proof)
