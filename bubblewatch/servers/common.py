"""Lines that any server's log may hold: HTTP access, CUDA, NCCL, the kernel's driver. And a reader for them."""

from __future__ import annotations

import re

from bubblewatch.model.logs import Access, CommKind, CommNote, Event, Failure, LogLine, Note, NoteKind, Xid
from bubblewatch.model.server import Rank
from bubblewatch.servers.logprefix import OwnPrefix, Record, records
from bubblewatch.servers.patterns import Pattern, failure, first_meaning, ready

_WAYS = {"P2P": CommKind.VIA_P2P, "SHM": CommKind.VIA_SHM, "NET/Socket": CommKind.VIA_SOCKET}
_ANY_PREFIX = OwnPrefix(re.compile(r"(?!)"), re.compile(r"(?!)"))
"""The prefix of a server that we do not know: none."""


def _access(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    path = found["path"].partition("?")[0][:200]
    return (Access(record.line, rank, method=found["method"], path=path, status=int(found["status"])),)


def _out_of_memory(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """A failed allocation may be survived; what the kernel killed is gone."""
    what = record.message[found.start() :][:200]
    return (Failure(record.line, rank, kind="out-of-memory", what=what, fatal=found["killed"] is not None),)


def _way(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    kind = _WAYS.get(found["way"], CommKind.VIA_RDMA)
    return (CommNote(record.line, rank, kind=kind, text=found[0][:200]),)


def _network(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    kind = CommKind.NETWORK_SOCKET if found["network"] == "Socket" else CommKind.NETWORK_RDMA
    return (CommNote(record.line, rank, kind=kind, text=found[0][:200]),)


def _no_peer(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (CommNote(record.line, rank, kind=CommKind.P2P_OFF, text=found[0][:200]),)


def _no_custom_all_reduce(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    """Where the reason is that the cards cannot reach each other, that is said too."""
    text = found[0][:200]
    off = CommNote(record.line, rank, kind=CommKind.CUSTOM_ALL_REDUCE_OFF, text=text)
    if "P2P" in text or "peer access" in text:
        return (off, CommNote(record.line, rank, kind=CommKind.P2P_OFF, text=text))
    return (off,)


def _slow_kernels(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Note(record.line, rank, kind=NoteKind.SLOW_KERNELS, text=found[0][:200]),)


def _xid(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    text = (found["text"] or "").strip()
    cause = re.search(r"caused by previous Xid (\d{1,4})", text)
    return (
        Xid(
            record.line,
            rank,
            code=int(found["code"]),
            bus=found["bus"],
            text=text[:200],
            cause=int(cause[1]) if cause else None,
        ),
    )


def _fallen_off(found: re.Match[str], record: Record, rank: Rank | None) -> tuple[Event, ...]:
    return (Xid(record.line, rank, bus=found["bus"] or "", text=found[0].removeprefix("NVRM: ")[:200]),)


ACCESS = Pattern(
    "access",
    "HTTP/",
    re.compile(
        r'^(?:INFO:\s{1,10})?[\w.:\[\]-]{1,64} - "(?P<method>[A-Z]{3,8}) (?P<path>\S{1,2048}) HTTP/[\d.]{1,4}" '
        r"(?P<status>\d{3})\b"
    ),
    _access,
    'INFO:     127.0.0.1:57564 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "uvicorn 0.34",
)

COMMON = (
    Pattern(
        "cuda-out-of-memory",
        "emory",
        re.compile(
            r"(?:CUDA out of memory|torch\.(?:cuda\.)?OutOfMemoryError|cudaMalloc failed: out of memory"
            r"|CUDA error: out of memory|(?P<killed>(?:Out of memory|Memory cgroup out of memory): Killed process))"
        ),
        _out_of_memory,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 79 GiB",
        "torch 2.6",
    ),
    Pattern(
        "cuda-error",
        "CUDA error: ",
        re.compile(
            r"CUDA error: (?:an illegal memory access was encountered|device-side assert triggered"
            r"|unspecified launch failure|uncorrectable ECC error encountered|misaligned address"
            r"|an illegal instruction was encountered|the launch timed out and was terminated)"
        ),
        failure("cuda-error", fatal=True),
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "torch 2.8",
    ),
    Pattern(
        "nccl-timeout",
        "ollective operation timeout",
        re.compile(r"Watchdog caught collective operation timeout[^\n]{0,120}"),
        failure("watchdog", fatal=True),
        "[rank3]:[E718 08:30:21.123456789 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=212, OpType=ALLREDUCE, NumelIn=7168, NumelOut=7168, Timeout(ms)=600000) ran for "
        "600013 milliseconds before timing out.",
        "torch 2.7",
    ),
    Pattern(
        "nccl-way",
        " via ",
        # Spaces between direction and `via` vary; a channel names two ranks, the GPU of each in brackets.
        re.compile(
            r"NCCL INFO Channel \d{1,3}(?:/\d{1,3})? : \d{1,6}\[\w{1,12}\] -> \d{1,6}\[\w{1,12}\]"
            r"(?: \[(?:send|receive)\])?\s{1,6}via (?P<way>P2P|SHM|NET/Socket|NET/[\w ]{1,24}?)(?=/|\s|$)"
        ),
        _way,
        "esm2-worker-0:53:271 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[0] [receive] via NET/Socket/0",
        "NCCL 2.25",
    ),
    Pattern(
        "nccl-network",
        "NCCL INFO ",
        re.compile(r"NCCL INFO (?:Using network|Assigned NET plugin) (?P<network>[A-Z][\w -]{0,30}?)(?: to comm)?$"),
        _network,
        "node-1:7:19 [0] NCCL INFO Using network Socket",
        "NCCL 2.30",
    ),
    Pattern(
        "p2p-off",
        "P2P",
        re.compile(
            r"NCCL (?:INFO|WARN) (?:NCCL_P2P_DISABLE set by environment to [1-9]|P2P is disabled between [^\n]{0,120})"
        ),
        _no_peer,
        "gpu-host:412:601 [1] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.",
        "NCCL 2.27 (built from the source's format)",
    ),
    Pattern(
        "custom-all-reduce-off",
        "ustom allreduce ",
        re.compile(r"(?:Custom allreduce is disabled [^\n]{0,160}|Setup Custom allreduce failed with [^\n]{0,160})"),
        _no_custom_all_reduce,
        "Custom allreduce is disabled because it's not supported on "
        "more than two PCIe-only GPUs. To silence this warning, specify disable_custom_all_reduce=True explicitly.",
        "vLLM 0.7",
    ),
    Pattern(
        "slow-kernels",
        "sub-optimal",
        re.compile(r"^Using default [\w ]{1,40}? (?:kernel )?config\. Performance might be sub-optimal![^\n]{0,160}"),
        _slow_kernels,
        "Using default MoE config. Performance might be sub-optimal! Config "
        "file not found at E=40,N=512,device_name=NVIDIA_L40S.json",
        "vLLM 0.7, SGLang 0.5",
    ),
    Pattern(
        "nccl-error",
        "NCCL",
        # Warnings (`[W918 …] ProcessGroupNCCL.cpp … destroy_process_group() was not called`) are harmless.
        re.compile(r"(?:NCCL error in|nccl(?:UnhandledCuda|System|Internal|Remote)Error)[^\n]{0,120}"),
        failure("nccl", fatal=True),
        "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:77, "
        "unhandled cuda error, NCCL version 2.26.2",
        "torch 2.7",
    ),
    Pattern(
        "xid",
        "NVRM: Xid",
        re.compile(
            r"NVRM: Xid \(PCI:(?P<bus>[0-9a-fA-F:.]{4,16})\): (?P<code>\d{1,4})(?:,(?P<text>[^\n]{0,400}))?(?=\s|$)"
        ),
        _xid,
        "kernel: NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVIDIA driver 550",
    ),
    Pattern(
        "fallen-off-the-bus",
        "fallen off the bus",
        # NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.
        # NVRM: fallen off the bus and is not responding to commands.      the last of three lines, no address on it
        re.compile(
            r"NVRM: (?:GPU (?:at PCI:)?(?P<bus>[0-9a-fA-F:.]{7,16}): )?[^\n]{0,80}fallen off the bus[^\n]{0,60}"
        ),
        _fallen_off,
        "[12345.678901] NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.",
        "NVIDIA driver 535",
    ),
    Pattern(
        "killed",
        "Killed",
        re.compile(r"^Killed$"),
        failure("killed", fatal=True),
        "Killed",
        "bash 5.2",
    ),
    Pattern(
        "crashed",
        "core dumped",
        re.compile(r"^(?:Segmentation fault|Aborted|Bus error|Illegal instruction) {1,10}\(core dumped\)"),
        failure("killed", fatal=True),
        "Segmentation fault (core dumped)",
        "bash 5.2",
    ),
)
"""What runs beneath a server writes these: torch, NCCL, the shell, the kernel."""

UVICORN_READY = Pattern(
    "ready",
    "pplication startup complete",
    re.compile(r"^(?:INFO:\s{1,10})?Application startup complete\.$"),
    ready,
    "INFO:     Application startup complete.",
    "uvicorn 0.34",
)
"""Ready, for a server that loads its model before uvicorn starts."""


def parse_any(line: LogLine) -> tuple[Event, ...]:
    """What the line means whoever wrote it: for the log of a server that we do not know, and for the kernel's."""
    return tuple(
        event for part in records(line, _ANY_PREFIX) for event in first_meaning((ACCESS, *COMMON), part, None)[1]
    )
