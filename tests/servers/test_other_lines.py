"""Lines of the servers beside SGLang and vLLM, and lines that any log may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.logs import (
    Access,
    DecodeStep,
    Event,
    GraphOff,
    Idle,
    LogLine,
    Offload,
    PrefillStep,
    RequestWork,
    SettingsSeen,
    StatsLine,
    StepTimes,
)
from bubblewatch.servers.registry import KNOWN, by_name, recognise_lines


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
