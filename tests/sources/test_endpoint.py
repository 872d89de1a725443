"""A server's own pages: what they say, and what happens when they do not."""

import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.model.clock import ManualClock, SystemClock
from bubblewatch.model.errors import AccessDenied, NotSupported, SourceError, SourceLost, UsageError
from bubblewatch.model.findings import Health
from bubblewatch.sources.endpoint import MAX_BODY_BYTES, ServerMetrics, fetch_page
from bubblewatch.sources.exposition import reading_from_text, samples_of
from bubblewatch.sources.sockets import connection_count, sockets_of
from tests.support.fake_server import start_fake_server

# Names and labels as in SGLang 0.5.10 under pipeline parallelism 2, metrics on.
SGLANG_PP = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{engine_type="unified",model_name="k26",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 4.0
sglang:num_running_reqs{engine_type="unified",model_name="k26",moe_ep_rank="0",pp_rank="1",tp_rank="0"} 4.0
sglang:num_queue_reqs{engine_type="unified",model_name="k26",moe_ep_rank="0",pp_rank="0",tp_rank="0"} 2.0
sglang:num_queue_reqs{engine_type="unified",model_name="k26",moe_ep_rank="0",pp_rank="1",tp_rank="0"} 2.0
sglang:gen_throughput{engine_type="unified",model_name="k26",pp_rank="0",tp_rank="0"} 95.6
sglang:http_requests_active{endpoint="/v1/chat/completions",method="POST"} 9.0
sglang:http_requests_active{endpoint="/generate",method="POST"} 1.0
sglang:http_requests_active{endpoint="/metrics",method="GET"} 1.0
# TYPE sglang:cuda_graph_passes_total counter
sglang:cuda_graph_passes_total{mode="decode_none",model_name="k26",pp_rank="0"} 4000.0
sglang:cuda_graph_passes_total{mode="decode_cuda_graph",model_name="k26",pp_rank="0"} 0.0
sglang:realtime_tokens_total{mode="decode",model_name="k26",pp_rank="0"} 12345.0
sglang:realtime_tokens_total{mode="decode",model_name="k26",pp_rank="1"} 12345.0
sglang:realtime_tokens_total{mode="prefill_compute",model_name="k26",pp_rank="0"} 999.0
sglang:generation_tokens_total{model_name="k26"} 11000.0
sglang:fwd_occupancy{pp_rank="0"} NaN
"""

# SGLang 0.5.6, tensor parallelism only: no HTTP gauge yet.
SGLANG_TP = """\
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 7.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 0.0
sglang:generation_tokens_total{model_name="m"} 321.0
"""

# vLLM 0.24.0 with two engines (data parallelism 2).
VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 5.0
vllm:num_requests_running{engine="1",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:generation_tokens_total{engine="0",model_name="m"} 1000.0
vllm:generation_tokens_total{engine="1",model_name="m"} 2e+03
vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 5.0
"""


def test_sglang_under_pipeline_parallelism_tells_its_true_concurrency_by_http_requests():
    reading = reading_from_text("sglang", SGLANG_PP, 7)
    assert (reading.time_ns, reading.running, reading.queued) == (7, 8, 2)
    assert reading.generated_tokens == 12345.0
    eager = 'sglang:cuda_graph_passes_total{mode="decode_none",model_name="k26",pp_rank="0"}'
    assert reading.counters[eager] == 4000.0


def test_the_gauge_of_one_micro_batch_is_not_taken_for_all_requests():
    text = "\n".join(line for line in SGLANG_PP.splitlines() if "http_requests_active" not in line)
    reading = reading_from_text("sglang", text, 0)
    assert reading.running is None
    assert reading.queued == 2


def test_sglang_with_one_stage_tells_its_concurrency_by_its_own_gauge():
    reading = reading_from_text("sglang", SGLANG_TP, 0)
    assert (reading.running, reading.queued, reading.generated_tokens) == (7, 0, 321.0)


def test_vllm_engines_are_summed():
    reading = reading_from_text("vllm", VLLM, 0)
    assert (reading.running, reading.queued, reading.generated_tokens) == (8, 1, 3000.0)
    assert len(reading.counters) == 6


def test_what_is_not_printed_is_unknown_and_not_zero():
    reading = reading_from_text("vllm", "vllm:kv_cache_usage_perc 0.5\n", 0)
    assert (reading.running, reading.queued, reading.generated_tokens) == (None, None, None)


def test_labels_may_hold_anything():
    (sample,) = samples_of('a:b{x="1,y=\\"2\\"} 9 \\\\",z="\\n"} 4 1700000000 # {trace="a"} 1\n')
    assert sample.labels == {"x": '1,y="2"} 9 \\', "z": "\n"}
    assert sample.value == 4.0


@given(st.text())
def test_any_text_is_survived(text):
    assert reading_from_text("sglang", SGLANG_PP + "\n" + text, 0) is not None
    assert reading_from_text("other", text, 0) is None


class Pages:
    """Answers by page; an exception is raised."""

    def __init__(self, answers):
        self.answers = answers
        self.asked = []

    def __call__(self, url):
        self.asked.append(url)
        answer = self.answers[url.removeprefix("http://127.0.0.1:8000")]
        if isinstance(answer, Exception):
            raise answer
        return answer


def metrics_of(answers, kind="vllm"):
    pages = Pages(answers)
    return ServerMetrics("http://127.0.0.1:8000/", kind, ManualClock(wall_ns=5), fetch=pages), pages


def test_the_version_is_asked_once():
    source, pages = metrics_of({"/metrics": VLLM, "/version": '{"version": "0.24.0"}'})
    assert [source.read().version, source.read().version] == ["0.24.0", "0.24.0"]
    assert pages.asked.count("http://127.0.0.1:8000/version") == 1
    assert source.health().health is Health.OK
    assert source.health().read_count == 2


@pytest.mark.parametrize("answer", ["", "[]", '{"version": 3}', '{"version": "<script>"}', NotSupported("404")])
def test_a_strange_version_page_is_survived(answer):
    source, _ = metrics_of({"/metrics": VLLM, "/version": answer})
    assert source.read().version is None


def test_sglang_is_asked_for_nothing_but_its_metrics():
    source, pages = metrics_of({"/metrics": SGLANG_PP}, "sglang")
    source.read()
    assert pages.asked == ["http://127.0.0.1:8000/metrics"]


@pytest.mark.parametrize(
    ("answer", "health", "mend"),
    [
        (NotSupported("answers 404"), Health.OFF, "--enable-metrics"),
        ("nothing of the sort", Health.OFF, "--enable-metrics"),
        (AccessDenied("answers 401"), Health.DENIED, ""),
        (SourceLost("nobody answers"), Health.ABSENT, ""),
        (SourceError("answers 500"), Health.ABSENT, ""),
    ],
)
def test_no_metrics_is_a_state_and_no_error(answer, health, mend):
    source, _ = metrics_of({"/metrics": answer}, "sglang")
    assert source.read() is None
    assert source.health().health is health
    assert mend in source.health().mend


def test_a_server_that_stops_answering_is_lost():
    source, pages = metrics_of({"/metrics": VLLM, "/version": "{}"})
    source.read()
    pages.answers["/metrics"] = SourceLost("nobody answers")
    source.read()
    assert source.health().health is Health.LOST


@pytest.mark.parametrize("url", ["http://10.0.0.1:8000", "http://example.com", "file:///etc/passwd", "127.0.0.1:8000"])
def test_only_this_machine_is_asked(url):
    with pytest.raises(UsageError):
        ServerMetrics(url, "vllm")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000", "http://[::1]:30000/", "https://localhost:1"])
def test_loopback_addresses_are_asked(url):
    assert ServerMetrics(url, "vllm").health().health is Health.ABSENT


def test_a_real_page_is_read_without_becoming_a_client(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with start_fake_server(tmp_path, clients=2, metrics=SGLANG_PP, titles=()) as server:
        reading = ServerMetrics(f"http://127.0.0.1:{server.port}", "sglang").read()
        assert reading is not None
        assert reading.running == 8
        assert connection_count(sockets_of(Path(f"/proc/{server.pid}")), server.port) == 2


def test_a_real_server_without_metrics_has_them_off(tmp_path):
    with start_fake_server(tmp_path, clients=0, titles=()) as server:
        source = ServerMetrics(f"http://127.0.0.1:{server.port}", "sglang")
        assert source.read() is None
        assert source.health().health is Health.OFF
    assert source.read() is None
    assert source.health().health is Health.ABSENT


def answer_once(raw):
    """A server that sends `raw` to its first client and closes; returns its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        client, _ = listener.accept()
        with listener, client:
            client.recv(4096)
            client.sendall(raw)

    threading.Thread(target=serve, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}/metrics"


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"HTTP/1.1 501 Not Implemented\r\n\r\n", NotSupported),
        (b"HTTP/1.1 401 Unauthorized\r\n\r\n", AccessDenied),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", SourceError),
        (b"\x00\x01\x02 no HTTP\r\n\r\n", SourceError),
        (b"", SourceError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * (MAX_BODY_BYTES + 1), SourceError),
    ],
    ids=["501", "401", "302", "garbage", "closed", "endless"],
)
def test_strange_answers_become_errors_of_this_program(raw, error):
    with pytest.raises(error):
        fetch_page(answer_once(raw), SystemClock())


def test_a_body_that_drips_is_given_up():
    class Hasty(ManualClock):
        def monotonic_ns(self):
            self.sleep(5)
            return super().monotonic_ns()

    with pytest.raises(SourceLost, match="too slowly"):
        fetch_page(answer_once(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"), Hasty())
