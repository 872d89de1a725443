"""SGLang's command line: argparse semantics of the version that runs."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.server import Launch, Origin, Settings
from bubblewatch.servers.sglang import SGLang

START = "python3 -m sglang.launch_server --model-path m "


def settings(command: str, version: str | None = "0.5.10", env: dict[str, str] | None = None) -> Settings:
    return SGLang().settings(Launch(tuple(shlex.split(command)), env), version)


@pytest.mark.parametrize(
    "command",
    [
        "python -m sglang.launch_server --pp-size 8",
        "/opt/venv/bin/python3.11 -u -m sglang.launch_server --pp-size 8",
        "/usr/bin/env -u X A=1 python3 -m sglang.launch_server --pp-size 8",
        "numactl --cpunodebind=0 --membind 0 python3 -m sglang.launch_server --pp-size 8",
        "nsys profile -o out -t cuda,nvtx python3 -m sglang.launch_server --pp-size 8",
        "srun -N 1 uv run python -m sglang.launch_server --pp-size 8",
        "nohup taskset -c 0-31 sglang serve --pp-size 8",
        "/opt/venv/bin/python3 /opt/venv/bin/sglang serve meta/m --pp-size 8",
        "docker run --rm --gpus all -p 30000:30000 lmsysorg/sglang:v0.5.10 python3 -m sglang.launch_server --pp-size 8",
        'bash -c "source env.sh && exec python -m sglang.launch_server --pp-size 8 2>&1 | tee server.log"',
        "sh -lc 'python3 -m sglang.launch_server \\\n --pp-size 8 > server.log'",
        "python3 /sgl-workspace/sglang/python/sglang/launch_server.py --pp-size 8",
    ],
)
def test_the_server_is_found_behind_wrappers(command: str) -> None:
    launch = Launch(tuple(shlex.split(command)))
    assert SGLang().matches(launch, "")
    assert SGLang().settings(launch, "0.5.10").number("pp_size") == 8


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m sglang.bench_serving --backend sglang --port 30000",
        "vllm serve m -pp 8",
        "tail -f sglang.log",
        "grep -m sglang.launch_server file",
        "bash -c 'unbalanced \" python -m sglang.launch_server'",
        "",
    ],
)
def test_what_starts_no_server_is_not_one(command: str) -> None:
    argv = (
        tuple(command.split()) if "unbalanced" not in command else ("bash", "-c", 'x " python -m sglang.launch_server')
    )
    assert not SGLang().matches(Launch(argv), "")


def test_an_option_is_quoted_as_it_was_written_and_the_last_one_wins() -> None:
    found = settings(START + "--max-running-requests 64 --tp=2 --max-running-requests=128 --disable-cuda-graph")
    assert found.number("max_running_requests") == 128
    assert found.values["max_running_requests"].evidence == "--max-running-requests=128"
    assert found.values["disable_cuda_graph"].evidence == "--disable-cuda-graph"
    assert found.values["disable_cuda_graph"].origin is Origin.ARGV
    assert found.number("tp_size") == 2
    assert found.problems == ()


@pytest.mark.parametrize(
    ("version", "typed", "name", "value"),
    [
        ("0.5.3", "--pp 8", "pp_size", 8),
        ("0.5.10", "--pp-si 8", "pp_size", 8),
        ("0.5.10", "--pipeline 4", "pp_size", 4),
        ("0.5.10", "--mem-frac 0.9", "mem_fraction_static", 0.9),
        ("0.5.19", "--cuda-graph-max-bs 16", "cuda_graph_max_bs_decode", 16),
        ("0.5.10", "--cuda-graph-max-bs 16", "cuda_graph_max_bs", 16),
        ("0.5.10", "--cuda-graph-bs 1 2 4", "cuda_graph_bs", "1 2 4"),
        ("0.5.10", "--chunked-prefill-size 8k", "chunked_prefill_size", 8000),
        ("0.5.10", "--chunked-prefill-size 8Ki", "chunked_prefill_size", 8192),
        ("0.5.10", "--chunked-prefill-size -1", "chunked_prefill_size", -1),
        ("9.9.9", "--pp-async-batch-depth 2", "pp_async_batch_depth", 2),
        (None, "--pp 8", "pp_size", 8),
        (None, "--pp-async-batch-depth 2", "pp_async_batch_depth", 2),
    ],
)
def test_spellings_are_resolved_against_the_version(version: str | None, typed: str, name: str, value: object) -> None:
    found = settings(START + typed, version)
    assert found.get(name) == value
    assert found.problems == ()


@pytest.mark.parametrize(
    ("version", "typed", "problem"),
    [
        ("0.5.10", "--pp 8", "--pp is ambiguous in SGLang 0.5.10"),
        ("0.5.20", "--cuda-graph-max-bs 16", "--cuda-graph-max-bs is ambiguous in SGLang 0.5.20"),
        ("0.5.6.post2", "--pp-async-batch-depth 1", "--pp-async-batch-depth is not an option of SGLang 0.5.6.post2"),
        ("0.5.10", "--max-running-requests", "--max-running-requests has no value"),
        ("0.5.10", "--config server.yaml", "the file of --config server.yaml was not read"),
        ("9.9.9", "--no-such-thing", "--no-such-thing is not an option of SGLang up to 0.5.23, the newest known here"),
        (None, "--no-such-thing", "--no-such-thing is not an option of any SGLang version known here"),
    ],
)
def test_what_argparse_would_refuse_is_said(version: str | None, typed: str, problem: str) -> None:
    assert [text for text in settings(START + typed, version).problems if text.startswith(problem)]


def test_an_unresolved_option_leaves_what_it_may_mean_unknown() -> None:
    found = settings(START + "--pp 8", "0.5.10")
    assert "pp_size" not in found
    assert "pp_async_batch_depth" not in found
    assert found.number("tp_size") == 1


def test_defaults_are_those_of_the_version_and_only_where_the_launch_was_read() -> None:
    assert settings(START, "0.5.10").values["pp_async_batch_depth"].origin is Origin.DEFAULT
    assert "pp_async_batch_depth" not in settings(START, "0.5.6.post2")
    assert "pp_async_batch_depth" not in settings(START, None)
    assert settings(START, None).number("decode_log_interval") == 40
    assert not list(settings("", "0.5.10"))
    assert "decode_log_interval" not in settings(START + "--config f.yaml")


def test_secrets_are_dropped() -> None:
    found = settings(START + "--api-key s3cret-key --admin-api-key=other-s3cret", "0.5.20", {"SGLANG_API_KEY": "third"})
    shown = repr(found)
    assert "s3cret" not in shown
    assert "third" not in shown


def test_environment_that_bears_on_it_is_kept() -> None:
    found = settings(START, env={"SGLANG_PP_LAYER_PARTITION": "7,7,8", "HOME": "/root", "CUDA_LAUNCH_BLOCKING": "1"})
    assert found.values["SGLANG_PP_LAYER_PARTITION"].evidence == "SGLANG_PP_LAYER_PARTITION=7,7,8"
    assert found.values["CUDA_LAUNCH_BLOCKING"].origin is Origin.ENVIRONMENT
    assert "HOME" not in found


@pytest.mark.parametrize(
    ("title", "rank"),
    [
        ("sglang::scheduler_PP3_TP1", (3, 1, 0)),
        ("sglang::scheduler_TP1_PP3", (3, 1, 0)),
        ("sglang::scheduler_DP1_PP2_TP0_EP0", (2, 0, 1)),
        ("sglang::scheduler", (0, 0, 0)),
        ("sglang::detokenizer", None),
        ("sglang::scheduler_PPx", None),
        ("VLLM::Worker_PP0_TP1", None),
    ],
)
def test_rank_from_a_process_title(title: str, rank: tuple[int, int, int] | None) -> None:
    found = SGLang().gpu_rank(title)
    assert (None if found is None else (found.pp, found.tp, found.dp)) == rank


@given(st.lists(st.text(max_size=30), max_size=30), st.sampled_from([None, "0.4.3", "0.5.10", "0.5.23", "junk"]))
def test_any_words_are_read_without_an_error(words: list[str], version: str | None) -> None:
    found = SGLang().settings(Launch(("python", "-m", "sglang.launch_server", *words)), version)
    assert SGLang().facts(found, version).pp is None or isinstance(found.get("pp_size"), int | float)


@given(st.integers(1, 64), st.integers(1, 4096), st.booleans())
def test_every_way_to_write_a_value_means_the_same(stages: int, limit: int, equals: bool) -> None:
    join = "=" if equals else " "
    found = settings(START + f"--pp-size{join}{stages} --max-running-requests{join}{limit}")
    assert (found.number("pp_size"), found.number("max_running_requests")) == (stages, limit)
