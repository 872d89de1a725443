"""Lines of the servers beside SGLang and vLLM, and lines that any log may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.logs import (
    Access,
    CommKind,
    CommNote,
    Compiling,
    DecodeStep,
    Event,
    Failure,
    GraphOff,
    Idle,
    LogLine,
    Note,
    NoteKind,
    Offload,
    PoolSized,
    PrefillStep,
    RequestWork,
    SettingsSeen,
    SpecDecode,
    StatsLine,
    StepTimes,
    VersionSeen,
    Xid,
)
from bubblewatch.model.server import Launch
from bubblewatch.servers.common import parse_any
from bubblewatch.servers.registry import KNOWN, by_name, recognise_lines


def by_launch(command: str) -> Launch:
    return Launch(tuple(command.split()))


def parse(name: str, text: str) -> tuple[Event, ...]:
    kind = by_name(name)
    assert kind is not None
    return kind.parse(LogLine(text))


# TensorRT-LLM ---------------------------------------------------------------------------------------------------------

STATES = "states = {'num_ctx_requests': 0, 'num_ctx_tokens': 0, 'num_generation_tokens': 64}"
GENERATIONS = {
    "early 2025": (
        "[05/06/2025-03:12:11] [TRT-LLM] [I] iter = 100, global_rank = 0, rank = 0, currank_total_requests = 64/64, "
        "elapsed_time = 0.0214s, timestamp = 2025-05-06 03:12:11, num_scheduled_requests: 64, " + STATES,
        (None, None, 0.0214),
    ),
    "2025": (
        "[09/06/2025-03:12:11] [TRT-LLM] [I] iter = 100, global_rank = 0, rank = 0, currank_total_requests = 64/64, "
        "host_step_time = 21.4ms, prev_device_step_time = 7.25ms, timestamp = 2025-09-06 03:12:11, "
        "num_scheduled_requests: 64, " + STATES,
        (0.0214, 0.00725, None),
    ),
    "2025, first step": (
        "[09/06/2025-03:12:11] [TRT-LLM] [I] iter = 1, global_rank = 0, rank = 0, currank_total_requests = 64/64, "
        "host_step_time = 2114.2938709259033ms, prev_device_step_time = N/A, timestamp = 2025-09-06 03:12:11, "
        "num_scheduled_requests: 64, " + STATES,
        (2.1142938709259033, None, None),
    ),
    "2026": (
        "[08/19/2026-14:11:49] [TRT-LLM] [I] [_torch][RANK 0] iter = 2, global_rank = 0, rank = 0, "
        "num_scheduled_requests = 64, kv_cache_util = N/A, currank_total_requests = 0/1, host_step_time = 4ms, "
        "prev_device_step_time = 8.5ms, timestamp = 08-19-2026 14:11:49, " + STATES,
        (0.004, 0.0085, None),
    ),
}


@pytest.mark.parametrize(("text", "times"), GENERATIONS.values(), ids=GENERATIONS)
def test_trtllm_iterations_of_every_generation(text: str, times: tuple[float | None, ...]) -> None:
    step, timed = parse("trtllm", text)
    assert isinstance(step, DecodeStep)
    assert isinstance(timed, StepTimes)
    assert (step.running, step.kv_usage_ratio) == (64, None)
    assert (timed.host_s, timed.device_s, timed.wall_s) == pytest.approx(times)
    assert (timed.scheduled, timed.decode_only) == (64, True)
    assert step.time_ns is not None


def test_trtllm_prompts_make_a_prefill_step_and_nothing_scheduled_is_no_work() -> None:
    text = GENERATIONS["2026"][0].replace("'num_ctx_requests': 0, 'num_ctx_tokens': 0", "'num_ctx_requests': 2, "
                                          "'num_ctx_tokens': 4096")  # fmt: skip
    step, timed = parse("trtllm", text)
    assert isinstance(step, PrefillStep)
    assert (step.new_seqs, step.new_tokens, step.running) == (2, 4096, 62)
    assert isinstance(timed, StepTimes)
    assert timed.decode_only is False
    assert (
        parse("trtllm", GENERATIONS["2026"][0].replace("num_scheduled_requests = 64", "num_scheduled_requests = 0"))
        == ()
    )


def test_trtllm_batch_manager_totals() -> None:
    line = '[TensorRT-LLM][INFO] {"Active Request Count":7,"Iteration Counter":1,"Max KV cache blocks":200,'
    (event,) = parse("trtllm", line + '"Used KV cache blocks":50,"Scheduled Requests":7}')
    assert event == StatsLine(event.line, None, running=7, kv_usage_ratio=0.25)


# llama.cpp, ollama ----------------------------------------------------------------------------------------------------


def test_llamacpp_request_timings_in_every_form() -> None:
    forms = (
        (
            "0.12.345.678 I slot print_timing: id  0 | task 9161 | prompt eval time =     877.88 ms /    52 tokens "
            "(   16.88 ms per token,    59.23 tokens per second)"
        ),
        "prompt eval time =     877.88 ms /    52 tokens (   16.88 ms per token,    59.23 tokens per second)",
        (
            "llama_print_timings: prompt eval time =     877.88 ms /    52 tokens (   16.88 ms per token, 59.23 tokens "
            "per second)"
        ),
        (
            '{"timestamp":1707000000,"level":"INFO","function":"print_timings","line":260,"msg":"prompt eval time'
            '     =     877.88 ms /    52 tokens (   16.88 ms per token,    59.23 tokens per second)","slot_id":0}'
        ),
    )
    for text in forms:
        (event,) = parse("llamacpp", text)
        assert isinstance(event, RequestWork)
        assert (event.prompt_tokens, event.prompt_s, event.gen_tps) == (52, pytest.approx(0.87788), None)
    (event,) = parse("llamacpp", "llama_print_timings:        eval time =    1000.00 ms /    40 runs")
    assert isinstance(event, RequestWork)
    assert (event.generated_tokens, event.gen_tps) == (40, 40.0)


def test_llamacpp_demand() -> None:
    assert isinstance(parse("llamacpp", "srv  update_slots: all slots are idle")[0], Idle)
    (slots,) = parse(
        "llamacpp", '{"function":"process_single_task","level":"INFO","msg":"slot data","n_idle_slots":0,'
        '"n_processing_slots":4,"task_id":1}')  # fmt: skip
    assert slots == StatsLine(slots.line, None, running=4, waiting=None)
    (part,) = parse("llamacpp", "slot update_slots: id  0 | task 1508 | prompt processing progress, n_past = 517, "
                    "n_tokens = 512, progress = 0.335958")  # fmt: skip
    assert part == PrefillStep(part.line, None, new_tokens=512)
    assert parse("llamacpp", "main: HTTP server is listening, hostname: 127.0.0.1, port: 8080") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("load_tensors: offloaded 30/81 layers to GPU", (30, 81, None, None, None)),
        ("load_tensors:   CPU_Mapped model buffer size =  1024.00 MiB", (None, None, 1.0, None, None)),
        ("load_tensors:        CUDA0 model buffer size =  2048.00 MiB", (None, None, None, 2.0, None)),
        ("load_tensors:    CUDA_Host model buffer size =   512.00 MiB", (None, None, 0.5, None, None)),
    ],
)
def test_llamacpp_says_where_the_weights_are(text: str, expected: tuple[object, ...]) -> None:
    (event,) = parse("llamacpp", text)
    assert isinstance(event, Offload)
    assert (event.layers, event.of_layers, event.host_gib, event.gpu_gib, event.devices) == expected


def test_other_buffers_are_no_weights() -> None:
    assert parse("llamacpp", "llama_kv_cache_init:      CUDA0 KV buffer size =   697.50 MiB") == ()
    assert parse("llamacpp", "llama_new_context_with_model:  CUDA_Host  output buffer size =     0.49 MiB") == ()


def test_ollama_estimate_and_placement_by_gpu() -> None:
    head = "time=2025-07-30T10:53:50.069+10:00 level=INFO source=server.go:175 msg="
    (split,) = parse("ollama", head + 'offload library=cuda layers.requested=-1 layers.model=81 layers.offload=81 '
                     'layers.split=41,40 memory.available="[23.1 GiB 23.1 GiB]"')  # fmt: skip
    assert isinstance(split, Offload)
    assert (split.layers, split.of_layers, split.devices) == (81, 81, 2)
    assert split.time_ns == 1_753_836_830_069_000_000
    assert split.line.time_exact
    (placed,) = parse(
        "ollama", head + 'load request="{Operation:commit Parallel:1 GPULayers:24[ID:GPU-a Layers:12(0..11) '
        'ID:GPU-b Layers:12(12..23)] MultiUserCache:false}"')  # fmt: skip
    assert isinstance(placed, Offload)
    assert (placed.layers, placed.devices) == (24, 2)


def test_ollama_in_the_journal_is_ollama_and_bare_lines_are_the_library() -> None:
    lines = ["ggml_cuda_init: found 2 CUDA devices:", "llm_load_tensors: offloaded 30/81 layers to GPU"]
    journal = recognise_lines([LogLine(f"Apr 19 16:54:17 host ollama[1180]: {text}") for text in lines])
    bare = recognise_lines([LogLine(text) for text in lines])
    mixed = recognise_lines([LogLine('time=2025-07-30T10:53:50Z level=INFO source=server.go:1 msg="x"'),
                             *(LogLine(text) for text in lines)])  # fmt: skip
    assert [getattr(kind, "kind", None) for kind in (journal, bare, mixed)] == ["ollama", "llamacpp", "ollama"]


def test_devices_in_the_log_settle_the_stages() -> None:
    kind = by_name("llamacpp")
    assert kind is not None
    (seen,) = kind.parse(LogLine("ggml_cuda_init: found 3 CUDA devices:"))
    assert isinstance(seen, SettingsSeen)
    assert kind.facts(seen.settings, None).pp is None
    split = by_name("ollama")
    assert split is not None
    assert split.facts(seen.settings, None).pp == 3


# TGI, LMDeploy --------------------------------------------------------------------------------------------------------


def test_tgi_request_times_in_text_and_json() -> None:
    text = (
        "\x1b[2m2025-04-17T09:01:02.123456Z\x1b[0m \x1b[32m INFO\x1b[0m "
        'generate{parameters=GenerateParameters { best_of: None, stop: ["Killed"] } total_time="174.1s" '
        'validation_time="5.669107ms" queue_time="161.454300714s" inference_time="12.5s" time_per_token="50ms" '
        'seed="None"}: text_generation_router::server: router/src/server.rs:325: Success'
    )
    json = (
        '{"timestamp":"2025-04-17T09:01:02.123456Z","level":"INFO","message":"Success","target":"text_generation_router'
        '::server","filename":"router/src/server.rs","span":{"queue_time":"161.454300714s","inference_time":"12.5s",'
        '"time_per_token":"50ms","name":"generate"}}'
    )
    for line in (text, json):
        (event,) = parse("tgi", line)
        assert isinstance(event, RequestWork)
        assert (event.queue_s, event.inference_s, event.gen_tps) == pytest.approx((161.454300714, 12.5, 20.0))
        assert event.time_ns == 1_744_880_462_123_456_000


def test_tgi_graphs_in_json_and_switched_off() -> None:
    line = (
        '{"timestamp":"2025-04-17T09:01:02.1Z","fields":{"message":"bitsandbytes doesn\'t work with cuda '
        'graphs, deactivating them"},"target":"text_generation_launcher"}'
    )
    (event,) = parse("tgi", line)
    assert isinstance(event, GraphOff)
    assert recognise_lines([LogLine(line)]) is by_name("tgi")
    (event,) = parse("tgi", "2025-07-04T12:36:06Z  INFO text_generation_launcher: Cuda Graphs are disabled (None).")
    assert isinstance(event, GraphOff)


def test_lmdeploy_requests_in_front_of_the_engine_wait_too() -> None:
    line = (
        "[2026-01-02 10:00:11 DP1] Avg thr (in/out): 1024.0 / 512.5 tokens/s, API server (completed/routed/waiting): "
        "12 / 8 / 3, Engine (running/waiting): 6 / 2, KV cache: 41.5%, "
    )
    (event,) = parse("lmdeploy", line)
    assert event == StatsLine(event.line, None, 6, 5, None, 1024.0, 512.5, 0.415, "DP1")


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


def test_access_lines_of_ollama_and_llamacpp() -> None:
    (gin,) = parse("ollama", '[GIN] 2025/11/19 - 12:12:02 | 200 |    27.137µs |       127.0.0.1 | HEAD     "/?x=1"')
    assert gin == Access(gin.line, None, "HEAD", "/", 200)
    (srv,) = parse("llamacpp", "srv  log_server_r: done request: GET /health?x 127.0.0.1 503")
    assert srv == Access(srv.line, None, "GET", "/health", 503)


@given(st.text(max_size=400))
def test_noise_means_nothing_to_any_kind(text: str) -> None:
    for kind in KNOWN:
        assert kind.parse(LogLine(text)) == ()
        assert not kind.tells(LogLine(text))
