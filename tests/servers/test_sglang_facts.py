"""What SGLang's settings mean: graphs by era, the slot ring, limits, overlap, the layer split."""

from __future__ import annotations

import shlex

import pytest

from bubblewatch.model.logs import LogLine, PoolSized, SettingsSeen
from bubblewatch.model.server import Launch, Settings
from bubblewatch.servers.base import Facts, LayerRule, LayerSplit, Running
from bubblewatch.servers.sglang import SGLang
from bubblewatch.servers.versions import Bounds, Version

KIND = SGLang()


def facts(options: str, version: str | None = "0.5.10", bounds: Bounds | None = None, **more: object) -> Facts:
    argv = ("python3", "-m", "sglang.launch_server", "--model-path", "m", *shlex.split(options))
    env = more.get("env")
    found = KIND.settings(Launch(argv, env if isinstance(env, dict) else None), version)
    pool = more.get("pool")
    return KIND.facts(found, version, bounds=bounds, pool=pool if isinstance(pool, PoolSized) else None)


def logged(text: str) -> Settings:
    events = KIND.parse(LogLine(text))
    return next(event.settings for event in events if isinstance(event, SettingsSeen))


def test_the_story() -> None:
    found = facts("--tp 1 --pp-size 8 --max-running-requests 64 --disable-cuda-graph")
    assert (found.pp, found.tp, found.dp) == (8, 1, 1)
    assert found.decode_graphs is False
    assert found.decode_graphs_setting is not None
    assert found.decode_graphs_setting.evidence == "--disable-cuda-graph"
    assert (found.depth_available, found.depth, found.ring_slots, found.slot_capacity) == (True, 0, 8, 8)
    assert (found.max_running, found.decode_log_interval, found.port) == (64, 40, 30000)
    assert (found.overlap_enabled, found.overlap_possible) == (False, False)
    assert found.running is Running.ONE_SLOT
    assert found.role == "both"
    assert found.graphs_exempt is False


@pytest.mark.parametrize(
    ("version", "options", "on", "decided_by"),
    [
        ("0.5.10", "", True, "disable_cuda_graph"),
        ("0.5.10", "--disable-cuda-graph", False, "disable_cuda_graph"),
        ("0.5.20", "--disable-cuda-graph", False, "disable_cuda_graph"),
        ("0.5.20", "--disable-decode-cuda-graph", False, "disable_decode_cuda_graph"),
        ("0.5.20", "--disable-prefill-cuda-graph", True, "disable_cuda_graph"),
        ("0.5.20", "--disable-cuda-graph --cuda-graph-backend-decode full", True, "cuda_graph_backend_decode"),
        ("0.5.20", "--cuda-graph-backend-decode=disabled", False, "cuda_graph_backend_decode"),
        ("0.5.20", "--cuda-graph-backend-prefill=disabled", True, "disable_cuda_graph"),
        (
            "0.5.20",
            """--cuda-graph-backend-decode full --cuda-graph-config '{"decode": {"backend": "disabled"}}'""",
            False,
            "cuda_graph_config",
        ),
        ("0.5.20", """--disable-cuda-graph --cuda-graph-config '{"prefill": {}}'""", False, "disable_cuda_graph"),
        ("0.5.20", "--cuda-graph-config not-json", True, "disable_cuda_graph"),
        ("0.5.10", "--attention-backend torch_native", False, "attention_backend"),
        ("0.5.10", "--deepep-mode normal --moe-a2a-backend deepep", False, "deepep_mode"),
        ("0.5.10", "--deepep-mode normal", True, "disable_cuda_graph"),
        ("0.5.10", "--disaggregation-mode prefill", False, "disaggregation_mode"),
    ],
)
def test_who_decides_on_decode_graphs(version: str, options: str, on: bool, decided_by: str) -> None:
    found = facts(options, version)
    assert found.decode_graphs is on
    assert found.decode_graphs_setting is not None
    assert found.decode_graphs_setting.name == decided_by


def test_what_the_server_resolved_outranks_the_command_line() -> None:
    argv = ("python", "-m", "sglang.launch_server", "--disable-cuda-graph")
    asked = KIND.settings(Launch(argv), "0.5.20")
    resolved = logged(
        "server_args={'disable_cuda_graph': True, 'cuda_graph_config': {'decode': {'backend': 'full', 'max_bs': 24}}}"
    )
    found = KIND.facts(resolved.over(asked), "0.5.20")
    assert found.decode_graphs is True
    assert found.graph_max_batch == 24


def test_graphs_are_unknown_without_a_launch() -> None:
    found = KIND.facts(Settings(), "0.5.10")
    assert found.decode_graphs is None
    assert found.graphs_exempt is None
    assert found.ring_slots is None
    assert found.running is None


@pytest.mark.parametrize("options", ["--disaggregation-mode prefill", "--is-embedding"])
def test_servers_that_decode_nothing_are_exempt(options: str) -> None:
    assert facts(options).graphs_exempt is True


@pytest.mark.parametrize(
    ("version", "bounds", "available"),
    [
        ("0.5.6.post2", None, False),
        ("0.5.7", None, True),
        ("9.0.0", None, True),
        (None, None, None),
        (None, Bounds(None, Version.parse("0.5.4")), False),
        (None, Bounds(Version.parse("0.5.14"), None), True),
    ],
)
def test_depth_is_there_by_version_or_by_dialect(version: str | None, bounds: Bounds | None, available: bool) -> None:
    found = facts("--pp-size 8", version, bounds)
    assert found.depth_available is available
    assert (found.depth, found.ring_slots) == (0, 8)


def test_the_ring_grows_by_the_depth_and_capacity_does_not_count_it() -> None:
    found = facts("--pp-size 8 --pp-async-batch-depth 2 --max-running-requests 64")
    assert (found.ring_slots, found.slot_capacity) == (10, 8)
    assert facts("--pp-size 8 --pp-max-micro-batch-size 3").slot_capacity == 3
    assert facts("--pp-size 8 --max-micro-batch-size 3", "0.5.3").slot_capacity == 3
    assert facts("--pp-size 8").slot_capacity is None


def test_what_the_server_computed_stands_above_what_was_asked_for() -> None:
    pool = PoolSized(LogLine(""), max_running=32)
    found = facts("--pp-size 4 --max-running-requests 64", pool=pool)
    assert (found.max_running, found.slot_capacity) == (32, 8)
    assert facts("--dp-size 2 --max-running-requests 64").max_running == 128
    shared = facts("--dp-size 2 --tp 2 --enable-dp-attention --max-running-requests 64")
    assert (shared.max_running, shared.slot_capacity) == (64, 32)


def test_overlap_is_possible_only_with_one_stage() -> None:
    assert facts("").overlap_enabled is True
    off = facts("--disable-overlap-schedule")
    assert (off.overlap_enabled, off.overlap_possible) == (False, True)


@pytest.mark.parametrize(
    ("version", "layers"),
    [("0.5.5", (7, 7, 7, 7, 7, 7, 7, 12)), ("0.5.6", (7, 7, 7, 8, 8, 8, 8, 8))],
)
def test_layers_are_split_as_the_version_does(version: str, layers: tuple[int, ...]) -> None:
    split = facts("--pp-size 8", version).layer_split
    assert split is not None
    assert split.layers(61, 8) == layers
    assert facts("--pp-size 8", None).layer_split is None


def test_a_stated_split_counts_when_it_fits() -> None:
    split = facts("--pp-size 2", env={"SGLANG_PP_LAYER_PARTITION": "30,31"}).layer_split
    assert split == LayerSplit(LayerRule.STATED, (30, 31))
    assert split.layers(61, 2) == (30, 31)
    assert split.layers(60, 2) == ()


def test_a_version_newer_than_known_is_judged_as_the_newest_and_says_so() -> None:
    assert facts("--pp-size 8", "7.0.0").newer_than_known
    assert not facts("--pp-size 8", "0.5.23").newer_than_known
