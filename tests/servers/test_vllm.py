"""vLLM: command line, lines of every dialect, and what the settings mean for the version."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.logs import (
    Access,
    Event,
    Failure,
    GraphOff,
    LogLine,
    OverlapOff,
    PoolSized,
    Retraction,
    SettingsSeen,
    StatsLine,
    VersionSeen,
)
from bubblewatch.model.server import Launch, Rank, Settings
from bubblewatch.servers.base import Facts
from bubblewatch.servers.vllm import VLLM

KIND = VLLM()


def settings(command: str, env: dict[str, str] | None = None) -> Settings:
    return KIND.settings(Launch(tuple(shlex.split(command)), env), None)


def facts(options: str, version: str | None, env: dict[str, str] | None = None) -> Facts:
    return KIND.facts(settings("vllm serve m " + options, env), version)


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve m -pp 2 --enforce-eager --max_num_seqs 64",
        "/usr/bin/python3 /opt/venv/bin/vllm serve m --pipeline_parallel_size=2 --enforce_eager --max-num-seqs 64",
        "python -m vllm.entrypoints.openai.api_server --model m -pp 2 --enforce-eager --max-num-seqs=64",
        "docker run --gpus all vllm/vllm-openai:v0.11.0 --model m -pp 2 --enforce-eager --max-num-seqs 64",
        "bash -c 'exec vllm serve m -pp 2 --enforce-eager --max-num-seqs 64'",
        "vllm serve m -pp 2 --enforce-eager True --max-num-seqs 64",
        "python -m vllm.entrypoints.cli.main serve m -pp 2 --enforce-eager --max-num-seqs 64",
    ],
)
def test_every_way_to_start_it(command: str) -> None:
    assert KIND.matches(Launch(tuple(shlex.split(command))), "")
    found = settings(command)
    assert (found.get("model"), found.number("pp_size"), found.number("max_num_seqs")) == ("m", 2, 64)
    assert found.flag("enforce_eager") is True
    assert found.problems == ()


def test_options_behind_the_image_alone() -> None:
    launch = Launch(("--model", "m", "-tp", "4"), image="vllm/vllm-openai:v0.11.0")
    assert KIND.matches(launch, "")
    assert KIND.settings(launch, None).number("tp_size") == 4


def test_other_programs_are_none() -> None:
    assert not KIND.matches(Launch(("python", "-m", "sglang.launch_server")), "sglang::scheduler")
    assert not KIND.matches(Launch(("vllm", "bench", "serve")), "")
    assert KIND.matches(Launch(), "VLLM::Worker_PP0_TP1")


def test_unknown_options_are_kept_and_secrets_dropped() -> None:
    found = settings("vllm serve m --api-key s3cr3t --new-switch --no-old-switch --new-value 3 --chat-template-x=y")
    assert "s3cr3t" not in repr(found)
    assert (found.flag("new_switch"), found.flag("old_switch"), found.number("new_value")) == (True, False, 3)
    assert found.problems == ()


@pytest.mark.parametrize(
    ("options", "on"),
    [
        ("", True),
        ("--enforce-eager", False),
        ("--no-enforce-eager", True),
        ("-O0", False),
        ("-O3", True),
        ("-O.cudagraph_mode=NONE", False),
        ("-cc.cudagraph_mode=none", False),
        ("""--compilation-config '{"cudagraph_mode": "NONE"}'""", False),
        ("""--compilation-config '{"cudagraph_mode": "PIECEWISE"}'""", True),
        ("--compilation-config not-json", True),
    ],
)
def test_who_decides_on_graphs(options: str, on: bool) -> None:
    found = facts(options, "0.14.0")
    assert found.decode_graphs is on
    assert found.decode_graphs_setting is not None


def test_the_new_runner_had_no_graphs_with_stages_for_a_while() -> None:
    env = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert facts("-pp 2", "0.18.1", env).decode_graphs is False
    assert facts("-pp 2", "0.20.2", env).decode_graphs is True
    assert facts("", "0.18.1", env).decode_graphs is True


@pytest.mark.parametrize(
    ("version", "options", "enabled", "possible"),
    [
        ("0.9.2", "", False, False),
        ("0.10.0", "", False, True),
        ("0.13.0", "--async-scheduling", True, True),
        ("0.13.0", "-pp 2", False, False),
        ("0.14.0", "", True, True),
        ("0.14.0", "--no-async-scheduling", False, True),
        ("0.14.0", "-pp 2", False, False),
        ("0.16.0", "-pp 2", True, True),
        ("0.16.0", "-pp 2 --distributed-executor-backend ray", None, True),
        ("0.33.0", "-pp 2", None, True),
        ("0.33.0", "", True, True),
        (None, "", None, None),
    ],
)
def test_async_scheduling_by_version(version: str | None, options: str, enabled: object, possible: object) -> None:
    found = facts(options, version)
    assert (found.overlap_enabled, found.overlap_possible) == (enabled, possible)


@pytest.mark.parametrize(
    ("version", "options", "slots"),
    [
        ("0.8.5", "-pp 4", 1),
        ("0.8.5", "-pp 4 --distributed-executor-backend ray", 4),
        ("0.9.2", "-pp 4", 4),
        ("0.33.0", "-pp 4", 4),
        (None, "-pp 4", None),
        (None, "", 1),
    ],
)
def test_batches_in_flight_by_version(version: str | None, options: str, slots: int | None) -> None:
    assert facts(options, version).ring_slots == slots


def test_limits_and_role() -> None:
    found = facts(
        """-dp 2 --max-num-seqs 64 --cudagraph-capture-sizes 1 2 32 --kv-transfer-config '{"kv_role":"kv_producer"}'""",
        "0.14.0",
    )
    assert (found.max_running, found.slot_capacity, found.graph_max_batch) == (128, 64, 32)
    assert (found.role, found.graphs_exempt, found.port) == ("prefill", True, 8000)
    assert found.depth_available is False
    split = facts("-pp 4", "0.14.0").layer_split
    assert split is not None
    assert split.layers(61, 4) == (15, 15, 16, 15)
    assert split.layers(64, 4) == (16, 16, 16, 16)


DIALECTS = {
    "0.1": (
        (
            "INFO 08-01 03:08:51 scheduler.py:271] Throughput: 185.4 tokens/s, Running: 1 reqs, Swapped: 0 reqs, "
            "Pending: 0 reqs, GPU KV cache usage: 100.0%, CPU KV cache usage: 0.0%"
        ),
        (1, 0, 185.4, None, 1.0, None),
    ),
    "V0": (
        (
            "INFO 01-02 16:16:56 metrics.py:467] Avg prompt throughput: 1.9 tokens/s, Avg generation "
            "throughput: 0.1 tokens/s, "
            "Running: 1 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 0.0%."
        ),
        (1, 3, 0.1, 1.9, 0.001, None),
    ),
    "V1": (
        (
            "(APIServer pid=387731) INFO 03-11 06:16:52 [loggers.py:257] Engine 001: Avg prompt throughput: 0.0 "
            "tokens/s, Avg generation throughput: 809.3 tokens/s, Running: 31 reqs, Waiting: 108 reqs, GPU KV cache "
            "usage: 98.6%, Prefix cache hit rate: 66.0%, MM cache hit rate: 0.0%"
        ),
        (31, 108, 809.3, 0.0, 0.986, "001"),
    ),
    "bare and cut": (
        (
            "Avg prompt throughput: 642.0 tokens/s, Avg generation throughput: 61.0 tokens/s, Running: 2 reqs, "
            "Swapped: 0 reqs, Pending: 20 reqs, GPU KV cache u"
        ),
        (2, 20, 61.0, 642.0, None, None),
    ),
}


@pytest.mark.parametrize(("text", "expected"), DIALECTS.values(), ids=DIALECTS)
def test_stats_lines_of_every_dialect(text: str, expected: tuple[object, ...]) -> None:
    (event,) = KIND.parse(LogLine(text))
    assert isinstance(event, StatsLine)
    got = (event.running, event.waiting, event.gen_tps, event.prompt_tps, event.kv_usage_ratio, event.engine)
    assert got == pytest.approx(expected)


def test_preemptions_on_a_stats_line_are_retractions_too() -> None:
    events = KIND.parse(
        LogLine(
            "INFO 03-11 06:16:52 [loggers.py:257] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation "
            "throughput: 9.3 tokens/s, Running: 31 reqs, Waiting: 8 reqs, Deferred: 1 reqs, Preemptions: 4, "
            "GPU KV cache usage: 98.6%"
        )
    )
    assert [type(event) for event in events] == [StatsLine, Retraction]
    assert isinstance(events[1], Retraction)
    assert events[1].count == 4


def test_glued_lines_and_times_without_a_year() -> None:
    one = "INFO 12-31 23:59:{} metrics.py:467] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 2.9 "
    rest = "tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.1%."
    first, second = KIND.parse(LogLine(one.format("02") + rest + one.format("07") + rest))
    assert first.time_ns is not None
    assert second.time_ns is not None
    assert second.time_ns - first.time_ns == 5_000_000_000
    assert not first.line.time_exact
    assert KIND.parse(LogLine(one.format("02").replace("12-31", "02-29") + rest))[0].time_ns is not None


def test_engine_line_gives_version_and_resolved_settings() -> None:
    version, seen = KIND.parse(
        LogLine(
            "(EngineCore_DP0 pid=1) INFO 10-22 09:31:10 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with "
            "config: model='m', speculative_config=None, tensor_parallel_size=2, pipeline_parallel_size=4, "
            "enforce_eager=False, "
            'compilation_config={"level":3,"cudagraph_mode":[2,1],"cudagraph_capture_sizes":[4,2,1]}'
        )
    )
    assert isinstance(version, VersionSeen)
    assert version.version == "0.11.0"
    assert isinstance(seen, SettingsSeen)
    found = seen.settings
    assert (found.number("tp_size"), found.number("pp_size"), found.flag("enforce_eager")) == (2, 4, False)
    assert (found.get("cudagraph_mode"), found.get("cudagraph_capture_sizes")) == ("FULL_AND_PIECEWISE", "4 2 1")
    assert KIND.facts(found, "0.11.0").decode_graphs is True


def test_an_eager_engine_line_decides() -> None:
    events = KIND.parse(
        LogLine(
            "INFO 02-02 11:50:02 llm_engine.py:232] Initializing a V0 LLM engine (v0.7.1) with config: model='m', "
            "tensor_parallel_size=2, pipeline_parallel_size=1, enforce_eager=True, "
            "compilation_config={'cudagraph_mode': 2}"
        )
    )
    assert isinstance(events[1], SettingsSeen)
    found = KIND.facts(events[1].settings, "0.7.1")
    assert found.decode_graphs is False
    assert found.decode_graphs_setting is not None
    assert found.decode_graphs_setting.evidence == "engine line enforce_eager=True"


def test_non_default_args_survive_values_without_a_literal_form() -> None:
    (seen,) = KIND.parse(
        LogLine(
            "(APIServer pid=1) INFO 10-22 09:31:02 [utils.py:233] non-default args: {'pipeline_parallel_size': 2, "
            "'api_key': ['s3cr3t-value'], 'kv': KVTransferConfig(role='x'), 'enforce_eager': True}"
        )
    )
    assert isinstance(seen, SettingsSeen)
    assert (seen.settings.number("pp_size"), seen.settings.flag("enforce_eager")) == (2, True)
    assert "s3cr3t" not in repr(seen.settings)


@pytest.mark.parametrize(
    ("message", "kind", "expected"),
    [
        ("Asynchronous scheduling is disabled.", OverlapOff, False),
        ("Async scheduling is disabled because V1 does not support it with pipeline parallelism.", OverlapOff, True),
        ("Enforce eager set, disabling torch.compile and CUDAGraphs.", GraphOff, None),
        ("Skipping CUDA graph capture because pipeline parallel is enabled", GraphOff, None),
        ("CUDAGraphMode.FULL is not supported with X backend (Y); setting cudagraph_mode=NONE", GraphOff, None),
        ("Worker proc VllmWorker-1 died unexpectedly, shutting down executor.", Failure, None),
        ("GPU KV cache size: 1,000 tokens, Maximum concurrency for 100 tokens per request: 10.00x", PoolSized, None),
    ],
)  # fmt: skip
def test_lines_that_are_said_once(message: str, kind: type[Event], expected: bool | None) -> None:
    (event,) = KIND.parse(LogLine(f"(Worker_PP1_TP0 pid=5) WARNING 02-11 08:11:59 [a.py:1] {message}"))
    assert isinstance(event, kind)
    assert event.rank == Rank(pp=1)
    if isinstance(event, OverlapOff):
        assert event.expected is expected


def test_waiting_for_a_worker_is_no_fatal_failure() -> None:
    (event,) = KIND.parse(
        LogLine("(EngineCore pid=1) INFO [shm.py:7] No available shared memory broadcast block found in 60 seconds.")
    )
    assert isinstance(event, Failure)
    assert (event.kind, event.fatal) == ("shm-wait", False)


def test_access_line_behind_stern_names_has_no_query() -> None:
    (event,) = KIND.parse(
        LogLine('pod-1 vllm (APIServer pid=1) INFO:     127.0.0.1:59892 - "GET /metrics?key=1 HTTP/1.1" 200 OK')
    )
    assert event == Access(event.line, None, "GET", "/metrics", 200)


def test_what_users_wrote_is_not_read() -> None:
    text = "INFO 03-11 06:16:52 [logger.py:1] Received request x: prompt: 'EngineDeadError Running: 1 reqs'"
    assert KIND.parse(LogLine(text)) == ()


@pytest.mark.parametrize(
    ("title", "rank"),
    [
        ("VLLM::Worker_PP0_TP1", Rank(0, 1, 0)),
        ("VLLM::Worker_DP1_PP2_TP3_EP4", Rank(2, 3, 1)),
        ("VLLM::EngineCore_DP1", Rank(dp=1)),
        ("VLLM::EngineCore", Rank()),
        ("VLLM::APIServer_0", None),
        ("sglang::scheduler_PP3", None),
    ],
)
def test_rank_from_a_process_title(title: str, rank: Rank | None) -> None:
    assert KIND.gpu_rank(title) == rank


def test_dialect_bounds_the_version() -> None:
    bounds = KIND.version_bounds([LogLine("(EngineCore_DP0 pid=1) INFO 10-22 09:31:10 [core.py:77] x")])
    assert (str(bounds.low), str(bounds.below)) == ("0.10.2", "0.19.0")
    said = KIND.version_bounds(
        [LogLine("INFO 05-16 13:11:58 [api_server.py:1043] vLLM API server version 0.8.5.post1")]
    )
    assert said.since("0.8.5.post1") is True
    assert said.since("0.8.6") is False


@given(st.text(max_size=400))
def test_noise_means_nothing(text: str) -> None:
    assert KIND.parse(LogLine(text)) == ()


@given(st.lists(st.text(max_size=30), max_size=30))
def test_any_words_are_read_without_an_error(words: list[str]) -> None:
    found = KIND.settings(Launch(("vllm", "serve", *words)), None)
    KIND.facts(found, "0.14.0")


def test_all_arguments_of_older_versions_are_read() -> None:
    (seen,) = KIND.parse(
        LogLine(
            "INFO 05-16 13:11:59 [api_server.py:1044] args: Namespace(host=None, port=8000, enforce_eager=True, "
            "max_num_seqs=None, tensor_parallel_size=2, api_key='s3cr3t', dispatch_function=<function at 0x7f>)"
        )
    )
    assert isinstance(seen, SettingsSeen)
    assert (seen.settings.number("tp_size"), seen.settings.flag("enforce_eager")) == (2, True)
    assert "s3cr3t" not in repr(seen.settings)


def test_the_dialect_that_names_the_time_of_an_iteration_and_of_a_token() -> None:
    """Fields of a release of early 2024: a hung server goes on printing this line."""
    text = (
        "INFO 02-01 06:36:05 llm_engine.py:921] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: "
        "0.0 tokens/s, Max iteration time: 386.7 ms, Avg time/tok:149.4 ms, Running: 35 reqs, Swapped: 0 reqs, "
        "Pending: 115 reqs, GPU KV cache usage: 99.0%, CPU KV cache usage: 0.0%"
    )
    (found,) = KIND.parse(LogLine(text))
    assert isinstance(found, StatsLine)
    assert (found.running, found.waiting, found.gen_tps) == (35, 115, 0.0)
