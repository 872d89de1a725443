"""Lines that any log may hold, and the rarer lines of vLLM and SGLang."""

from __future__ import annotations

import pytest

from bubblewatch.model.logs import (
    CommKind,
    CommNote,
    Compiling,
    Event,
    Failure,
    LogLine,
    Note,
    NoteKind,
    PoolSized,
    SettingsSeen,
    SpecDecode,
    StepTimes,
    VersionSeen,
    Xid,
)
from bubblewatch.model.server import Launch
from bubblewatch.servers.common import parse_any
from bubblewatch.servers.registry import by_name


def by_launch(command: str) -> Launch:
    return Launch(tuple(command.split()))


def parse(name: str, text: str) -> tuple[Event, ...]:
    kind = by_name(name)
    assert kind is not None
    return kind.parse(LogLine(text))


# Any log --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        ("P2P/CUMEM/read", CommKind.VIA_P2P),
        ("P2P/IPC", CommKind.VIA_P2P),
        ("SHM/direct/direct", CommKind.VIA_SHM),
        ("NET/Socket/0", CommKind.VIA_SOCKET),
        ("NET/IB/0/GDRDMA", CommKind.VIA_RDMA),
        ("NET/AWS Libfabric/0/GDRDMA", CommKind.VIA_RDMA),
    ],
)
def test_the_way_that_nccl_takes(way: str, kind: CommKind) -> None:
    (event,) = parse_any(LogLine(f"gpu-1:53:271 [0] NCCL INFO Channel 00/0 : 2[0] -> 3[0] [send]    via {way}"))
    assert isinstance(event, CommNote)
    assert event.kind is kind


def test_what_nccl_would_use_between_hosts_is_no_way_that_it_takes() -> None:
    (event,) = parse_any(LogLine("gpu-1:53:271 [0] NCCL INFO Using network Socket"))
    assert isinstance(event, CommNote)
    assert event.kind is CommKind.NETWORK_SOCKET
    assert parse_any(LogLine("gpu-1:53:271 [0] NCCL INFO NET/IB : No device found.")) == ()


def test_no_custom_all_reduce_for_want_of_peer_access_is_said_as_both() -> None:
    lacking = "your platform lacks GPU P2P capability or P2P test failed."
    found = parse("vllm", f"WARNING 03-19 08:09:03 [car.py:1] Custom allreduce is disabled because {lacking}")
    assert [event.kind for event in found if isinstance(event, CommNote)] == [
        CommKind.CUSTOM_ALL_REDUCE_OFF,
        CommKind.P2P_OFF,
    ]
    (event,) = parse("sglang", "[2026-09-27 21:10:15 TP0] Setup Custom allreduce failed with invalid literal for int()")
    assert isinstance(event, CommNote)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dec 01 14:00:00 host kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=1, GPU has fallen off the bus.",
         (79, "0000:41:00", None)),
        ("[12.6] NVRM: Xid (PCI:0000:0a:00): 45, pid=7, Ch 0001, caused by previous Xid 149", (45, "0000:0a:00", 149)),
        ("[12345.67] NVRM: Xid (PCI:0000:01:00): 13", (13, "0000:01:00", None)),
        ("kernel: NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.", (None, "0000:41:00.0", None)),
        ("kernel: NVRM: fallen off the bus and is not responding to commands.", (None, "", None)),
    ],
)  # fmt: skip
def test_errors_of_the_driver(text: str, expected: tuple[object, ...]) -> None:
    (event,) = parse_any(LogLine(text))
    assert isinstance(event, Xid)
    assert (event.code, event.bus, event.cause) == expected


def test_what_the_kernel_killed_is_fatal_and_a_failed_allocation_is_not() -> None:
    killed = parse_any(LogLine("Dec 01 14:00:00 host kernel: Memory cgroup out of memory: Killed process 12 (python)"))
    failed = parse_any(LogLine("ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory"))
    assert [event.fatal for event in (*killed, *failed) if isinstance(event, Failure)] == [True, False]


# vLLM and SGLang, the rarer lines -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (("SpecDecoding metrics: Mean acceptance length: 4.00, Accepted throughput: 0.02 tokens/s, Drafted throughput: "
         "0.02 tokens/s, Accepted: 3 tokens, Drafted: 3 tokens, Per-position acceptance rate: 1.000, 1.000, 1.000, Avg "
         "Draft acceptance rate: 100.0%"), (4.0, 1.0, 3, 3, False)),
        ("SpecDecoding metrics: Draft acceptance rate: 62.1%, Accepted: 123 tokens, Drafted: 198 tokens",
         (None, 0.621, 123, 198, False)),
        (("Speculative metrics: Draft acceptance rate: 0.600, System efficiency: 0.500, "
         "Number of accepted tokens: 120, Number of draft tokens: 200, Number of emitted tokens: 150."),
         (None, 0.6, 120, 200, True)),
    ],
)  # fmt: skip
def test_vllm_speculation_in_every_form(text: str, expected: tuple[object, ...]) -> None:
    (event,) = parse("vllm", f"(APIServer pid=1) INFO 07-06 07:53:26 [metrics.py:120] {text}")
    assert isinstance(event, SpecDecode)
    got = (event.accept_len, event.accept_ratio, event.accepted_tokens, event.drafted_tokens, event.total)
    assert got == pytest.approx(expected)


def test_vllm_steps_of_an_idle_replica_are_no_work() -> None:
    line = (
        "INFO 02-11 08:14:02 [core.py:402] Iteration(7): 0 context requests, 0 context tokens, 1 generation requests, "
    )
    rest = "1 generation tokens, iteration elapsed time: 21.44 ms"
    (event,) = parse("vllm", line + rest)
    assert event == StepTimes(event.line, None, wall_s=0.02144, scheduled=1, decode_only=True)
    assert parse("vllm", line + rest + " (dummy)") == ()


def test_vllm_layer_split_and_batch_queue_hold_over_what_the_version_would_do() -> None:
    kind = by_name("vllm")
    assert kind is not None
    _, layers = kind.parse(
        LogLine("INFO 03-11 06:12:01 [utils.py:1] Hidden layers were unevenly partitioned: [15,15,16,15].")
    )
    (queue,) = kind.parse(LogLine("INFO 07-15 04:26:20 [core.py:149] Batch queue is enabled with size 5"))
    assert isinstance(layers, SettingsSeen)
    assert isinstance(queue, SettingsSeen)
    pp = kind.settings(by_launch("vllm serve m -pp 4"), None)
    found = kind.facts(queue.settings.over(layers.settings.over(pp)), "0.24.0")
    assert found.ring_slots == 5
    assert found.layer_split is not None
    assert found.layer_split.layers(61, 4) == (15, 15, 16, 15)


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("vllm", "INFO 03-11 06:12:01 m:1] Reducing Torch parallelism from 8 threads", NoteKind.HOST_THREADS_REDUCED),
        ("vllm", "INFO 03-11 06:12:01 [c.py:1] Using FlashInfer backend on V1 engine.", NoteKind.ATTENTION_BACKEND),
        ("sglang", "[2026-02-04 13:33:12] INFO a.py:1: Attention backend not specified. Use fa3 backend by default.",
         NoteKind.ATTENTION_BACKEND),
        ("llamacpp", "llama_context: pipeline parallelism enabled", NoteKind.PIPELINE_ON),
        ("llamacpp", "llama_context: compute buffer allocation failed, retrying without pipeline parallelism",
         NoteKind.PIPELINE_OFF),
    ],
)  # fmt: skip
def test_remarks(name: str, text: str, kind: NoteKind) -> None:
    (event,) = parse(name, text)
    assert isinstance(event, Note)
    assert event.kind is kind


def test_backends_for_something_else_are_no_remark() -> None:
    assert (
        parse("vllm", "INFO 03-11 06:12:01 [c.py:1] Using AttentionBackendEnum.FLASH_ATTN for MMEncoderAttention.")
        == ()
    )
    assert parse("vllm", "INFO 03-11 06:12:01 [c.py:1] Using FlashInfer backend for sampling.") == ()


def test_versions_pools_and_compiling() -> None:
    (version,) = parse("vllm", "(APIServer pid=1) INFO 06-23 10:26:00 [utils.py:299]   █▄█▀ █     █  version 0.20.2")
    assert version == VersionSeen(version.line, None, "0.20.2")
    (pool,) = parse("vllm", "(EngineCore pid=1) INFO 06-23 10:27:28 [w.py:1] Available KV cache memory: 5.16 GiB")
    assert pool == PoolSized(pool.line, None, kv_gib=5.16)
    (jit,) = parse("vllm", "WARNING 08-04 20:51:06 [j.py:1] Triton kernel JIT compilation during inference: _k. This")
    assert jit == Compiling(jit.line, None, "_k", None, serving=True)


def test_sglang_speculation_brings_a_limit() -> None:
    kind = by_name("sglang")
    assert kind is not None
    (seen,) = kind.parse(LogLine("[2026-07-27 12:32:21] Max running requests is reset to 48 for speculative decoding."))
    assert isinstance(seen, SettingsSeen)
    asked = kind.settings(by_launch("python -m sglang.launch_server --dp 8 --enable-dp-attention "
                                    "--speculative-algorithm EAGLE"), "0.5.20")  # fmt: skip
    for settings in (asked, seen.settings.over(asked)):
        found = kind.facts(settings, "0.5.20")
        assert (found.max_running, found.slot_capacity, found.speculative) == (48, 6, "EAGLE")
    old = kind.settings(by_launch("python -m sglang.launch_server --speculative-algorithm NEXTN"), "0.4.4")
    assert kind.facts(old, "0.4.4").max_running == 32
