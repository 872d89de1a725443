"""SGLang's lines in all their dialects, cut, glued and hostile."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bubblewatch.model.logs import (
    DecodeStep,
    Event,
    Failure,
    GraphCaptured,
    GraphOff,
    LogLine,
    OverlapOff,
    PoolSized,
    PrefillStep,
    SettingsSeen,
    Starting,
)
from bubblewatch.model.server import Rank
from bubblewatch.servers.sglang import SGLang
from bubblewatch.servers.sglang.server_args import DICT_EXAMPLE, REPR_EXAMPLE

KIND = SGLang()


def only(text: str) -> Event:
    events = KIND.parse(LogLine(text))
    assert len(events) == 1
    return events[0]


ERAS = {
    "0.4.4: no graph word yet, a field in between": (
        (
            "[2025-03-14 08:30:05 TP0] Decode batch. #running-req: 1, #token: 66, token usage: 0.00, accept len: 1.80, "
            "gen throughput (token/s): 0.59, largest-len: 0, #queue-req: 0,"
        ),
        (1, 0.59, 0, None, 0.0),
    ),
    "0.4.10: a comma at the end": (
        (
            "[2025-09-02 10:00:00 DP0 TP0] Decode batch. #running-req: 32, #token: 4096, token usage: 0.11, "
            "cuda graph: True, gen throughput (token/s): 1200.50, #queue-req: 3,"
        ),
        (32, 1200.5, 3, True, 0.11),
    ),
    "0.5.4: the iteration": (
        (
            "[2025-10-24 10:00:00] Decode batch [1044], #running-req: 2, #token: 40, token usage: 0.01, "
            "cuda graph: False, gen throughput (token/s): 12.00, #queue-req: 0,"
        ),
        (2, 12.0, 0, False, 0.01),
    ),
    "0.5.10: hybrid pools, the fullest one counts": (
        (
            "[2026-05-24 03:51:45 TP0] Decode batch, #running-req: 4, #full token: 2642688, full token usage: 1.00, "
            "#swa token: 14592, swa token usage: 0.06, cuda graph: True, gen throughput (token/s): 429.52, "
            "#queue-req: 3"
        ),
        (4, 429.52, 3, True, 1.0),
    ),
    "0.5.21: every tail, a rate that is none": (
        (
            "[2026-10-02 01:02:03.123 DP1 PP3 TP1 EP0] Decode batch, #running-req: 9, #token: 100, token usage: 0.50, "
            "accept len: 2.50, accept rate: 0.75, pre-allocated usage: 0.90, #prealloc-req: 1, #transfer-req: 2, "
            "#retracted-req: 1, cuda graph: True, gen throughput (token/s): nan, #queue-req: 12, "
            "est. decode TFLOPS/s (per GPU): 1.25, fwd occupancy: nan%, fwd+idle occupancy: 12.5%"
        ),
        (9, None, 12, True, 0.5),
    ),
}


@pytest.mark.parametrize(("text", "expected"), ERAS.values(), ids=ERAS)
def test_decode_lines_of_every_era(text: str, expected: tuple[object, ...]) -> None:
    event = only(text)
    assert isinstance(event, DecodeStep)
    assert (event.running, event.gen_tps, event.queued, event.cuda_graph, event.kv_usage_ratio) == expected


@pytest.mark.parametrize(
    ("tags", "rank"),
    [
        (" PP3", Rank(pp=3)),
        (" TP1 PP3", Rank(pp=3, tp=1)),
        (" DP1 TP4 EP4 PP2", Rank(pp=2, tp=4, dp=1)),
        (" DP1 PP2 ATTN_CP0 MOE_DP1 TP4 EP4", Rank(pp=2, tp=4, dp=1)),
        ("", Rank()),
    ],
)
def test_rank_tags_in_either_order(tags: str, rank: Rank) -> None:
    event = only(
        f"[2026-01-01 00:00:00{tags}] Decode batch, #running-req: 1, gen throughput (token/s): 1.00, #queue-req: 0"
    )
    assert event.rank == rank


@pytest.mark.parametrize(
    "text",
    [
        "Decode batch. #running-:, #: 484009, token usage: 0.95",
        "[2025-03-24 02:48:49 TP0] Decode batch. #running-req",
        "[2025-03-24 02:48:49] Receive: obj=X(text='[2025-03-24 02:48:49 TP0] Decode batch. #running-req: 1, x')",
        "[2025-03-24 02:48:49] Finish: obj=X, out={'text': 'Watchdog timeout (self.watchdog_timeout=300)'}",
        "[rank0]:[W918 08:30:21.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called",
        "Piecewise cuda graph is disabled for MoE runner backend x",
        "",
        "Traceback (most recent call last):",
    ],
)
def test_damaged_quoted_and_harmless_lines_mean_nothing(text: str) -> None:
    assert KIND.parse(LogLine(text)) == ()


def test_a_cut_prefill_line_gives_what_it_has() -> None:
    event = only(
        "[2025-03-24 02:48:49] Prefill batch. #new-seq: 1, #new-token: 128, #cached-token: 1, token usage: 0.0, #runn"
    )
    assert event == PrefillStep(event.line, Rank(), new_seqs=1, new_tokens=128, cached_tokens=1, kv_usage_ratio=0.0)


def test_two_records_glued_on_one_line_are_two_events_with_their_own_times() -> None:
    one = "[2025-10-24 10:00:0{}] Decode batch, #running-req: {}, gen throughput (token/s): 12.00, #queue-req: 0"
    first, second = KIND.parse(LogLine(one.format(1, 5) + one.format(4, 6)))
    assert isinstance(first, DecodeStep)
    assert isinstance(second, DecodeStep)
    assert (first.running, second.running) == (5, 6)
    assert first.time_ns is not None
    assert second.time_ns is not None
    assert second.time_ns - first.time_ns == 3_000_000_000


def test_time_of_the_transport_wins_and_text_time_is_coarse() -> None:
    text = "[1970-01-01 00:00:10] The server is fired up and ready to roll!"
    assert only(text).time_ns == 10_000_000_000
    assert not only(text).line.time_exact
    (exact,) = KIND.parse(LogLine(text, time_ns=5, time_exact=True))
    assert (exact.time_ns, exact.line.time_exact) == (5, True)
    zoned = only("1970-01-01T01:00:01.5+01:00 stderr F " + text)
    assert (zoned.time_ns, zoned.line.time_exact) == (1_500_000_000, True)
    assert only("[2025-13-45 00:00:10] The server is fired up and ready to roll!").time_ns is None


CAPTURES = {
    "Capture cuda graph begin. This can take up to several minutes. avail mem=10.10 GB": ("decode", True, ()),
    "Capture cuda graph bs [1, 2, 4]": ("decode", True, (1, 2, 4)),
    "Capture cuda graph end. Time elapsed: 9.32 s. avail mem=8.48 GB. mem usage=1.63 GB.": ("decode", False, ()),
    "Capture draft extend cuda graph end. Time elapsed: 1.00 s. mem usage=0.10 GB.": ("draft", False, ()),
    "Capture piecewise CUDA graph end. Time elapsed: 1.00 s. mem usage=0.10 GB.": ("prefill", False, ()),
    "Capture target verify CUDA graph end. bs=[1, 2], elapsed=7.10 s, mem usage=0.51 GB": ("decode", False, (1, 2)),
    "Capture target prefill CUDA graph end. elapsed=7.10 s, mem usage=0.51 GB": ("prefill", False, ()),
}


@pytest.mark.parametrize(("message", "expected"), CAPTURES.items())
def test_captures_of_every_era(message: str, expected: tuple[str, bool, tuple[int, ...]]) -> None:
    event = KIND.parse(LogLine(f"[2026-08-20 10:02:13 TP0] {message}"))[0]
    assert isinstance(event, GraphCaptured)
    assert (event.phase, event.begin, event.sizes) == expected


def test_a_capture_that_begins_is_a_step_of_starting() -> None:
    events = KIND.parse(
        LogLine("[2025-10-16 03:20:42 TP0] Capture cuda graph begin. This can take. avail mem=10.10 GB")
    )
    assert isinstance(events[1], Starting)


@pytest.mark.parametrize(
    ("text", "phase", "expected"),
    [
        ("Cuda graph is disabled because deepep_mode=`normal`", "all", False),
        ("Cuda graph is disabled for prefill server when piecewise cuda graph is not enabled.", "all", True),
        ("CUDA graph is disabled because --enable-mis is set.", "all", False),
        ("Disable piecewise CUDA graph because piecewise_cuda_graph does not support PP", "prefill", True),
        ("Disable prefill CUDA graph because cuda_graph_config resolved prefill.backend='disabled'", "prefill", True),
        (
            "Disabling breakable prefill CUDA graph by default for pipeline parallelism. Set x to opt in.",
            "prefill",
            True,
        ),
    ],
)
def test_graphs_off_tells_the_phase_and_whether_that_is_normal(text: str, phase: str, expected: bool) -> None:
    event = only(f"[2026-08-20 10:02:13] {text}")
    assert isinstance(event, GraphOff)
    assert (event.phase, event.expected) == (phase, expected)


def test_overlap_off_under_pipeline_parallelism_is_expected() -> None:
    event = only("[2026-01-01 00:00:00] Pipeline parallelism is incompatible with overlap schedule.")
    assert isinstance(event, OverlapOff)
    assert event.expected


def test_a_soft_watchdog_is_not_fatal() -> None:
    soft = only("[2026-01-02 00:00:00 PP1] Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)")
    hard = only("[2026-01-02 00:00:00 PP1] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)")
    assert isinstance(soft, Failure)
    assert isinstance(hard, Failure)
    assert (soft.kind, soft.fatal, hard.fatal) == ("watchdog", False, True)


def test_sizing_line() -> None:
    event = only(
        "[2025-06-16 20:11:47 PP2] max_total_num_tokens=1039136, chunked_prefill_size=-1, max_prefill_tokens=16384, "
        "max_running_requests=4096, context_len=40960"
    )
    assert event == PoolSized(event.line, Rank(pp=2), 1039136, 4096, 40960, -1)


def seen(text: str) -> SettingsSeen:
    event = only(text)
    assert isinstance(event, SettingsSeen)
    return event


def test_settings_printed_as_repr_and_as_dict() -> None:
    old = seen(REPR_EXAMPLE).settings
    assert (old.number("pp_size"), old.flag("disable_cuda_graph"), old.get("cuda_graph_bs")) == (8, True, "1 2 4")
    new = seen(DICT_EXAMPLE).settings
    assert new.number("pp_size") == 1
    assert new.get("cuda_graph_backend_decode") == "full"
    assert (new.number("cuda_graph_max_bs_decode"), new.get("cuda_graph_bs_decode")) == (32, "1 2 4 8")


def test_nested_repr_keeps_the_resolved_graph_backend() -> None:
    found = seen(
        "server_args=ServerArgs(pp_size=8, cuda_graph_config=CudaGraphConfig("
        "decode=PhaseConfig(backend='disabled', bs=None), prefill=PhaseConfig(backend='full')), device=device('cuda'))"
    ).settings
    assert found.get("cuda_graph_backend_decode") == "disabled"


@pytest.mark.parametrize("text", [REPR_EXAMPLE, DICT_EXAMPLE])
def test_a_cut_settings_line_gives_its_whole_fields(text: str) -> None:
    end = text.index("disable_cuda_graph")
    found = seen(text[:end] + "disa").settings
    assert found.number("pp_size") in (1, 8)
    assert "disable_cuda_graph" not in found


@pytest.mark.parametrize(
    "body",
    [
        "ServerArgs(pp_size=8, api_key='s3cr3t-value', admin_api_key='s3cr3t-two', x=<object at 0x7f>)",
        "ServerArgs(pp_size=8, api_key='s3cr3t-value', nested=X(hf_token='s3cr3t-two'))",
        "{'pp_size': 8, 'api_key': 's3cr3t-value', 'x': {'api_key': 's3cr3t-two'}}",
        "{'pp_size': 8, 'api_key': 's3cr3t-value', 'x': <cut",
    ],
)
def test_secrets_never_reach_the_settings(body: str) -> None:
    found = seen("server_args=" + body).settings
    assert found.number("pp_size") == 8
    assert "s3cr3t" not in repr(found)


def test_dialect_bounds_the_version() -> None:
    def bounds(*texts: str) -> tuple[str, str]:
        found = KIND.version_bounds(LogLine(text) for text in texts)
        return str(found.low or ""), str(found.below or "")

    decode = "Decode batch{} #running-req: 1, cuda graph: True, gen throughput (token/s): 1.00, #queue-req: 0"
    assert bounds("[2025-09-01 00:00:00 TP1 PP3] " + decode.format(".")) == ("0.4.6.post4", "0.5.4")
    assert bounds("[2025-12-09 00:00:00 PP3 TP1] " + decode.format(",")) == ("0.5.6", "")
    assert bounds("server_args={'pp_size': 1}") == ("0.5.19", "")
    assert bounds(REPR_EXAMPLE) == ("0.5.7", "0.5.19")
    assert bounds("[2025-12-09 00:00:00] Watchdog timeout (self.watchdog_timeout=300)") == ("", "0.5.7")
    assert bounds("nothing", "") == ("", "")
    assert bounds(decode.format("."), decode.format(",")) == ("", "")


NOISE = st.text(st.characters(exclude_categories=("Cs",)), max_size=400)
FRAGMENTS = st.sampled_from(
    [
        *(
            "Decode batch",
            "#running-req: ",
            "server_args=",
            "ServerArgs(",
            "{'a': ",
            "[2026-01-01 00:00:00 PP",
            "graph end. ",
        ),
        *("Capture cuda ", "=[1, ", "\x1b[31m", "pid=", "((((", "'", ", ", "Watchdog timeout (self.", "\r", "\x00"),
    ]
)


@given(NOISE)
@example("[" * 400)
def test_noise_means_nothing(text: str) -> None:
    assert KIND.parse(LogLine(text)) == ()


@settings(deadline=None)
@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=8)), max_size=40))
def test_mutated_lines_never_raise(parts: list[str]) -> None:
    line = LogLine("".join(parts))
    assert all(isinstance(event, Event) for event in KIND.parse(line))
    KIND.tells(line)
    KIND.version_bounds([line])


@given(st.data())
def test_a_real_line_with_a_piece_torn_out_never_raises(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([REPR_EXAMPLE, DICT_EXAMPLE]))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    KIND.parse(LogLine(text[:start] + text[end:]))


@given(st.integers(0, 9999), st.floats(0, 1e6), st.integers(0, 9999), st.booleans(), st.floats(0, 1))
def test_what_was_printed_is_what_is_read(running: int, tps: float, queued: int, graph: bool, usage: float) -> None:
    event = only(
        f"[2026-01-01 00:00:00 PP3] Decode batch, #running-req: {running}, #token: 5, token usage: {usage:.2f}, "
        f"cuda graph: {graph}, gen throughput (token/s): {tps:.2f}, #queue-req: {queued}"
    )
    assert event == DecodeStep(
        event.line, Rank(pp=3), running, queued, float(f"{tps:.2f}"), graph, float(f"{usage:.2f}")
    )


def test_the_sizes_of_a_capture_are_read_behind_its_other_words() -> None:
    """From 0.5.14 on the backend and the tokens per request come before the sizes."""
    text = (
        "[2026-08-20 10:02:13 TP0] Capture target decode CUDA graph begin. backend=full, num_tokens_per_bs=1, "
        "bs=[1, 2, 24, 32], avail mem=21.07 GB"
    )
    sizes = [e.sizes for e in SGLang().parse(LogLine(text)) if isinstance(e, GraphCaptured)]
    assert sizes == [(1, 2, 24, 32)]


@pytest.mark.parametrize(
    ("ending", "rate", "queued"),
    [
        ("gen throughput (token/s): 95.60, #queue-req: 4", 95.6, 4),
        ("gen throughput (token/s): 95.60, #queue-req: 4, ", 95.6, 4),
        ("gen throughput (token/s): nan, #queue-req: ", None, None),
        ("gen throughput (token/s): 95.6", 95.6, None),
        ("gen throughput (token/s): 95.6, #queue-req: ٣", 95.6, None),
        ("gen throughput (token/s), #queue-req: 4", None, 4),
    ],
)
def test_a_decode_line_that_is_cut_or_odd_gives_what_is_left_of_it(
    ending: str, rate: float | None, queued: int | None
) -> None:
    text = "[2026-04-05 20:02:51 TP0] Decode batch, #running-req: 8, #token: 35785, token usage: 0.27, " + ending
    (step,) = SGLang().parse(LogLine(text))
    assert isinstance(step, DecodeStep)
    assert (step.running, step.kv_usage_ratio, step.gen_tps, step.queued) == (8, 0.27, rate, queued)
