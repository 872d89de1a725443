"""The daemon's pages over real HTTP on loopback."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import ServerHandle, serve
from bubblewatch.model.clock import ManualClock
from bubblewatch.model.errors import UsageError
from bubblewatch.report.document import error_document, snapshot_document, to_json
from bubblewatch.runtime.hub import STALE_S, Hub
from tests.support import snapshots

DOCUMENTS = Documents(
    of_snapshot=lambda snapshot: to_json(snapshot_document(snapshot)),
    of_error=lambda what, hint: to_json(error_document(what, hint)),
    of_rule={"server-hung": "what to do"}.get,
    rule_page={"server-hung": "<p>what to do</p>"}.get,
    rule_index="<p>all rules</p>",
)


@dataclass
class Daemon:
    hub: Hub
    clock: ManualClock
    server: ServerHandle

    def get(self, path: str, method: str = "GET", **headers: str) -> httpx.Response:
        return httpx.request(method, self.server.url + path, headers=headers, timeout=30)


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    clock = ManualClock()
    hub = Hub(clock)
    with serve(application(hub, Exposition(hub, "0.1.0"), DOCUMENTS), port=0) as server:
        yield Daemon(hub, clock, server)


@pytest.fixture
def empty() -> Iterator[Daemon]:
    clock = ManualClock()
    hub = Hub(clock)
    with serve(application(hub, Exposition(hub, "0.1.0"), DOCUMENTS), port=0) as server:
        yield Daemon(hub, clock, server)


def test_listens_on_loopback_only_unless_told(daemon: Daemon) -> None:
    assert daemon.server.host == "127.0.0.1"


def test_is_ready_only_with_a_fresh_snapshot(empty: Daemon) -> None:
    before = empty.get("/-/ready")
    empty.hub.publish(snapshots.story())
    fresh = empty.get("/-/ready")
    empty.clock.sleep(STALE_S + 5)
    stale = empty.get("/-/ready")

    assert (before.status_code, before.text) == (503, "no snapshot yet\n")
    assert (fresh.status_code, fresh.text) == (200, "ready\n")
    assert (stale.status_code, stale.text) == (503, "the last snapshot is 35 s old\n")
    assert empty.get("/-/healthy").status_code == 200


def test_an_alert_leads_to_the_page_of_its_rule(daemon: Daemon) -> None:
    found, missing = daemon.get("/rules/server-hung"), daemon.get("/rules/%3Cscript%3E")

    assert (found.status_code, found.text) == (200, "what to do\n")
    assert found.headers["content-type"].startswith("text/plain")
    assert missing.status_code == 404
    assert "script" not in missing.text


def test_a_browser_gets_the_page_of_a_rule_and_the_list_of_all(daemon: Daemon) -> None:
    page, index = daemon.get("/rules/server-hung", accept="text/html"), daemon.get("/rules")

    assert (page.status_code, page.text) == (200, "<p>what to do</p>")
    assert page.headers["content-type"].startswith("text/html")
    assert (index.status_code, index.text) == (200, "<p>all rules</p>")
    assert daemon.get("/rules/nothing", accept="text/html").status_code == 404


def test_serves_the_json_document_and_never_a_stale_one(empty: Daemon) -> None:
    missing = empty.get("/api/v1/snapshot")
    empty.hub.publish(snapshots.story())
    fresh = empty.get("/api/v1/snapshot")
    empty.clock.sleep(STALE_S + 1)
    stale = empty.get("/api/v1/snapshot")

    assert (missing.status_code, missing.json()["verdict"]) == (503, "error")
    assert (fresh.status_code, fresh.json()["findings"][0]["name"]) == (200, "cuda-graph-disabled")
    assert fresh.headers["content-type"] == "application/json"
    assert (stale.status_code, stale.json()["error"]["what"]) == (503, "the last snapshot is 31 s old")


def test_speaks_both_metric_formats(daemon: Daemon) -> None:
    daemon.hub.publish(snapshots.story())

    text = daemon.get("/metrics")
    openmetrics = daemon.get("/metrics", accept="application/openmetrics-text; version=1.0.0")

    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'bubblewatch_pipeline_stages_busy{server="sglang-k26.service"} 0.5' in text.text
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert openmetrics.text.endswith("# EOF\n")


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/ready", "/api/v1/snapshot"])
def test_head_answers_as_get_does_without_a_body(daemon: Daemon, path: str) -> None:
    daemon.hub.publish(snapshots.hostile())
    answer = daemon.get(path, "HEAD")

    assert answer.status_code == 200
    assert answer.content == b""


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(daemon: Daemon, method: str) -> None:
    answer = daemon.get("/metrics", method)

    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}


@pytest.mark.parametrize("path", ["/", "/metrics", "/nothing-here", "/../../etc/passwd", "/%0d%0aX-Evil:%201"])
def test_every_answer_forbids_guessing_framing_and_caching(daemon: Daemon, path: str) -> None:
    answer = daemon.get(path)

    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"
    assert "x-evil" not in answer.headers
    assert "server" not in answer.headers


def test_an_unfinished_request_does_not_hold_up_others(daemon: Daemon) -> None:
    with socket.create_connection((daemon.server.host, daemon.server.port)) as lazy:
        lazy.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n")

        assert daemon.get("/-/healthy").status_code == 200


def test_an_endless_request_head_is_refused(daemon: Daemon) -> None:
    with socket.create_connection((daemon.server.host, daemon.server.port), timeout=30) as greedy:
        greedy.sendall(b"GET / HTTP/1.1\r\nX-Fill: " + b"a" * 64 * 1024)

        assert greedy.recv(100).startswith(b"HTTP/1.1 4")


def test_can_be_started_and_stopped_from_any_thread_and_frees_its_port() -> None:
    hub = Hub(ManualClock())
    app = application(hub, Exposition(hub, "0.1.0"), DOCUMENTS)
    started: list[ServerHandle] = []
    starter = threading.Thread(target=lambda: started.append(serve(app, port=0)))
    starter.start()
    starter.join(30)
    first = started[0]
    assert httpx.get(first.url + "/-/healthy").text == "healthy\n"

    first.stop()
    first.stop()

    assert not first.is_serving
    with serve(app, port=first.port) as second:
        assert httpx.get(second.url + "/-/healthy").text == "healthy\n"


def test_a_port_in_use_is_one_clear_error(daemon: Daemon) -> None:
    app = application(daemon.hub, Exposition(daemon.hub, "0.1.0"), DOCUMENTS)

    with pytest.raises(UsageError) as caught:
        serve(app, port=daemon.server.port)

    assert str(daemon.server.port) in caught.value.what
    assert "--listen" in (caught.value.hint or "")


@pytest.mark.parametrize(("host", "port"), [("no.such.host.invalid", 0), ("192.0.2.1", 0), ("127.0.0.1", 70000)])
def test_an_address_that_cannot_be_is_one_clear_error(daemon: Daemon, host: str, port: int) -> None:
    app = application(daemon.hub, Exposition(daemon.hub, "0.1.0"), DOCUMENTS)

    with pytest.raises(UsageError, match="Cannot listen on") as caught:
        serve(app, host, port)

    assert caught.value.hint


def test_ipv6_addresses_are_written_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    hub = Hub(ManualClock())
    try:
        server = serve(application(hub, Exposition(hub, "0.1.0"), DOCUMENTS), "::1", 0)
    except UsageError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with server:
        assert server.url == f"http://[::1]:{server.port}"
        assert httpx.get(server.url + "/-/healthy").text == "healthy\n"
