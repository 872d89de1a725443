"""Who may ask and how: certificates, users, tokens, names, sockets; and what a flood of connections does to scrapes."""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import bcrypt
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import MOST_CONNECTIONS, ServerHandle, close_listeners
from bubblewatch.exporter.sockets import listen
from bubblewatch.exporter.stream import MOST_STREAMS
from bubblewatch.exporter.web_config import WebConfig, read_web_config
from bubblewatch.exporter.web_gate import Gate, host_name
from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import ConfigError, UsageError
from bubblewatch.report.document import error_document, snapshot_document, to_json
from bubblewatch.runtime.hub import Hub
from tests.support import snapshots

DOCUMENTS = Documents(
    of_snapshot=lambda snapshot: to_json(snapshot_document(snapshot)),
    of_error=lambda what, hint: to_json(error_document(what, hint)),
)
HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
TOKEN = "0123456789abcdef0123456789abcdef"


@contextlib.contextmanager
def serving(
    web: WebConfig = WebConfig(),  # noqa: B008  frozen
    address: str = "127.0.0.1:0",
    names: tuple[str, ...] = ("gpu07",),
    hosts: tuple[str, ...] = (),
) -> Iterator[tuple[ServerHandle, Hub]]:
    hub = Hub(SystemClock())
    hub.publish(snapshots.story())
    app = Gate(application(hub, Exposition(hub, "0.1.0"), DOCUMENTS), web, names, hosts)
    listeners = [listen(address)]
    try:
        with ServerHandle(app, listeners, web.tls.context() if web.tls else None) as server:
            yield server, hub
    finally:
        close_listeners(listeners)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem and key.pem for localhost, which is its own authority."""
    folder = tmp_path_factory.mktemp("tls")
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    subprocess.run([*command, *subject, "-keyout", "key.pem", "-out", "cert.pem"], cwd=folder, check=True, stderr=-3)
    return folder


def configured(folder: Path, text: str) -> WebConfig:
    file = folder / "web.yml"
    file.write_text(text)
    return read_web_config(str(file))


def test_tls_by_the_file_of_prometheus_exporters(certificate: Path) -> None:
    web = configured(certificate, "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n")
    with serving(web) as (server, _):
        trusted = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
        answer = httpx.get(f"https://localhost:{server.port}/-/ready", verify=trusted)
        assert (answer.status_code, answer.text) == (200, "ready\n")
        assert server.url.startswith("https://")
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://localhost:{server.port}/-/ready")
        old = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
        with pytest.deprecated_call():
            old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"https://localhost:{server.port}/", verify=old)


def test_a_client_certificate_is_asked_for(certificate: Path) -> None:
    web = configured(
        certificate,
        "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n"
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: cert.pem\n",
    )
    with serving(web) as (server, _):
        bare = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"https://localhost:{server.port}/-/ready", verify=bare)
        bare.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
        assert httpx.get(f"https://localhost:{server.port}/-/ready", verify=bare).status_code == 200


def test_users_have_to_say_who_they_are(tmp_path: Path) -> None:
    web = configured(tmp_path, f"basic_auth_users:\n  alice: {HASH}\n")
    with serving(web) as (server, _):
        refused = httpx.get(f"{server.url}/metrics")
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert "bubblewatch" not in refused.text
        for name, word in (("alice", "wrong"), ("alice", ""), ("bob", "secret"), ("", ""), ("alice", "x" * 100)):
            assert httpx.get(f"{server.url}/metrics", auth=(name, word)).status_code == 401
        for junk in ("Basic", "Basic !!!", "Basic " + base64.b64encode(b"\xff:\xff").decode(), "Bearer x", "\x7f"):
            assert httpx.get(f"{server.url}/metrics", headers={"Authorization": junk}).status_code == 401
        for _ in range(2):  # the second time from memory
            assert httpx.get(f"{server.url}/metrics", auth=("alice", "secret")).status_code == 200
        evil = httpx.get(f"{server.url}/-/ready", auth=("alice", "secret"), headers={"Host": "evil.example"})
        assert evil.status_code == 200, "who logs in need not come by our name"


def test_a_token_opens_too(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"# prometheus\n{TOKEN}\n\n")
    web = configured(tmp_path, f"bearer_token_file: tokens\nbasic_auth_users: {{alice: '{HASH}'}}\n")
    with serving(web) as (server, _):
        assert httpx.get(f"{server.url}/-/ready", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        assert httpx.get(f"{server.url}/-/ready", headers={"Authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert httpx.get(f"{server.url}/-/ready", auth=("alice", "secret")).status_code == 200


def test_guessing_passwords_does_not_hold_up_a_scrape(tmp_path: Path) -> None:
    slow = bcrypt.hashpw(b"secret", bcrypt.gensalt(11)).decode()
    web = configured(tmp_path, f"basic_auth_users:\n  alice: {slow}\n")
    with serving(web) as (server, _), ThreadPoolExecutor(24) as pool:
        assert httpx.get(f"{server.url}/-/ready", auth=("alice", "secret"), timeout=30).status_code == 200
        guesses = [
            pool.submit(httpx.get, f"{server.url}/", auth=("alice", f"guess {n}"), timeout=60) for n in range(48)
        ]
        known = httpx.get(f"{server.url}/metrics", auth=("alice", "secret"), timeout=30)
        codes = {guess.result().status_code for guess in guesses}
    assert known.status_code == 200
    assert codes <= {401, 503}
    assert 503 in codes, "those beyond the queue are sent away"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tls_server_config: {cert_file: a}", "web.yml:1: tls_server_config needs both cert_file and key_file"),
        ("basic_auth_users:\n  bob: hunter2", "web.yml:2: the password of 'bob' is no bcrypt hash"),
        ("basic_auth_user: {}\n", "basic_auth_user is not supported"),
        ("rate_limit:\n  burst: 3\n", "rate_limit is not supported"),
        (
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: TLS10\n",
            "min_version 'TLS10' is not one of",
        ),
        (
            "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: RequireAndVerifyClientCert\n",
            "client_auth_type needs client_ca_file",
        ),
        ("bearer_token_file: nowhere\n", "nowhere: cannot be read"),
        ("- a\n- b\n", "must hold keys and values"),
        ("a: [", "web.yml:"),
    ],
)
def test_a_wrong_web_configuration_is_one_clear_error(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(tmp_path, text)
    assert said in caught.value.what
    assert "hunter2" not in str(caught.value)


def test_a_short_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("guess-me\n")
    with pytest.raises(ConfigError, match="fewer than 16"):
        configured(tmp_path, "bearer_token_file: tokens\n")


def test_a_certificate_that_cannot_be_used_is_one_clear_error(certificate: Path, tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no certificate")
    (tmp_path / "key.pem").write_bytes((certificate / "key.pem").read_bytes())
    web = configured(tmp_path, "tls_server_config:\n  cert_file: cert.pem\n  key_file: key.pem\n")
    assert web.tls is not None
    with pytest.raises(ConfigError, match="cannot be used"):
        web.tls.context()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9736", 200),
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("[::1]:9736", 200),
        ("10.1.2.3", 200),
        ("gpu07:9736", 200),
        ("gpu07.", 200),
        ("metrics.corp:443", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("gpu07.evil.example:9736", 421),
        ("localhost.evil.example", 421),
        ("", 421),
    ],
)
def test_only_names_of_this_machine_are_answered(host: str, status: int) -> None:
    with serving(hosts=("metrics.corp",)) as (server, _):
        answer = httpx.get(f"{server.url}/api/v1/snapshot", headers={"Host": host})
    assert answer.status_code == status
    assert ("findings" in answer.text) is (status == 200)


@given(st.text(st.characters(codec="ascii", exclude_characters=":[]"), min_size=1, max_size=30), st.integers(0, 65535))
def test_a_host_header_is_taken_apart(name: str, port: int) -> None:
    assert host_name(f"{name}:{port}") == host_name(name) == name.lower().rstrip(".")


def test_a_unix_socket_for_those_who_may_open_it(tmp_path: Path) -> None:
    path = tmp_path / "bubblewatch.sock"
    with serving(address=f"unix:{path}") as (server, _):
        assert server.url == f"unix:{path}"
        assert path.stat().st_mode & 0o007 == 0
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
            assert client.get("http://anything/-/ready").text == "ready\n"
        with pytest.raises(UsageError, match="Address already in use"):
            listen(f"unix:{path}")
    assert not path.exists()


def test_a_socket_that_a_crash_left_behind_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    stale = tmp_path / "stale.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(stale))
    close_listeners([listen(f"unix:{stale}")])
    precious = tmp_path / "precious"
    precious.write_text("data")
    with pytest.raises(UsageError, match="Cannot listen on"):
        listen(f"unix:{precious}")
    assert precious.read_text() == "data"


def test_a_stream_gives_each_snapshot_and_skips_for_the_slow() -> None:
    with serving() as (server, hub), httpx.stream("GET", f"{server.url}/api/v1/stream", timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        first = [line for line in iter(lambda: next(lines), "") if line.startswith(("id:", "event:"))]
        for _ in range(50):
            hub.publish(snapshots.story())
        second = [line for line in iter(lambda: next(lines), "") if line.startswith("id:")]
    assert first == ["id: 1", "event: snapshot"]
    assert second == ["id: 51"]


def test_streams_are_bounded_and_given_back() -> None:
    with serving() as (server, _):
        with contextlib.ExitStack() as open_ones:
            readers = []  # a reader that is dropped hangs up
            for _ in range(MOST_STREAMS):
                answer = open_ones.enter_context(httpx.stream("GET", f"{server.url}/api/v1/stream", timeout=30))
                readers.append(answer.iter_lines())
                next(readers[-1])
            assert httpx.get(f"{server.url}/api/v1/stream").status_code == 503
        give_up = time.monotonic() + 20
        while time.monotonic() < give_up:
            with httpx.stream("GET", f"{server.url}/api/v1/stream", timeout=30) as again:
                if again.status_code == 200:
                    break
            time.sleep(0.05)
        assert again.status_code == 200


def scrapes(server: ServerHandle, count: int = 200) -> list[float]:
    """Seconds that each of so many scrapes takes, a connection each, as at the worst."""
    taken = []
    for _ in range(count):
        started = time.perf_counter()
        connection = http.client.HTTPConnection(server.host, server.port, timeout=30)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        body = answer.read()
        taken.append(time.perf_counter() - started)
        connection.close()
        assert (answer.status, b"bubblewatch_build_info" in body) == (200, True)
    return sorted(taken)


def idle(place: tuple[str, int], stack: contextlib.ExitStack) -> None:
    for _ in range(1000):
        stack.enter_context(socket.create_connection(place, timeout=10))


def half_sent(place: tuple[str, int], stack: contextlib.ExitStack) -> None:
    for _ in range(1000):
        lazy = stack.enter_context(socket.create_connection(place, timeout=10))
        with contextlib.suppress(OSError):  # it may have been pushed out already
            lazy.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")


def never_read(place: tuple[str, int], stack: contextlib.ExitStack) -> None:
    for _ in range(300):
        deaf = stack.enter_context(socket.create_connection(place, timeout=10))
        with contextlib.suppress(OSError):
            deaf.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 5)


@pytest.mark.parametrize("attack", [idle, half_sent, never_read])
def test_a_flood_of_connections_does_not_stall_scrapes(
    attack: Callable[[tuple[str, int], contextlib.ExitStack], None], record_property: Any
) -> None:
    with serving() as (server, _), contextlib.ExitStack() as stack:
        quiet = scrapes(server)
        attack((server.host, server.port), stack)
        busy = scrapes(server)
    for name, taken in (("idle", quiet), (attack.__name__, busy)):
        record_property(f"{name} p50 ms", round(statistics.median(taken) * 1000, 2))
        record_property(f"{name} p99 ms", round(taken[int(len(taken) * 0.99)] * 1000, 2))
    assert busy[-1] < 5.0  # a scrape that waits for idle connections to time out would take a minute


def test_connections_are_bounded_and_the_oldest_goes_first() -> None:
    with serving() as (server, _), contextlib.ExitStack() as stack:
        place = (server.host, server.port)
        first = stack.enter_context(socket.create_connection(place, timeout=20))
        for _ in range(MOST_CONNECTIONS + 50):
            last = stack.enter_context(socket.create_connection(place, timeout=20))
        with contextlib.suppress(ConnectionResetError):
            assert first.recv(1) == b""
        last.sendall(b"GET /-/ready HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert last.recv(100).startswith(b"HTTP/1.1 200")


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_connection_that_ends_leaves_no_descriptor_behind() -> None:
    with serving() as (server, _):
        before = descriptors()
        scrapes(server, 50)
        for _ in range(50):
            socket.create_connection((server.host, server.port), timeout=20).close()
        with contextlib.ExitStack() as stack:
            half_sent((server.host, server.port), stack)
            assert descriptors() - before < 1000 + 2 * MOST_CONNECTIONS
        give_up = time.monotonic() + 20
        while descriptors() > before + 5 and time.monotonic() < give_up:
            time.sleep(0.05)
        assert descriptors() <= before + 5


def test_a_stop_takes_less_than_a_second_with_connections_open() -> None:
    with serving() as (server, _), contextlib.ExitStack() as stack:
        idle((server.host, server.port), stack)
        with httpx.stream("GET", f"{server.url}/api/v1/stream", timeout=30):
            started = time.monotonic()
            server.stop()
            assert time.monotonic() - started < 1.5


def test_a_thread_that_hangs_is_noticed() -> None:
    hub = Hub(SystemClock())

    async def hanging(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            time.sleep(3)

    listeners = [listen("127.0.0.1:0")]
    with ServerHandle(hanging, listeners) as server, ThreadPoolExecutor(1) as pool:
        assert server.has_answered(2.0)
        asked = pool.submit(httpx.get, server.url, timeout=10)
        time.sleep(2.5)
        assert not server.has_answered(1.0)
        with contextlib.suppress(httpx.HTTPError):
            asked.result()
    close_listeners(listeners)
    hub.close()


@pytest.mark.parametrize("path", ["/../../etc/passwd", "/rules/..%2f..%2fetc%2fpasswd", "/%00", "/static/x", "//etc"])
def test_nothing_from_outside_reaches_the_file_system(path: str) -> None:
    with serving() as (server, _), socket.create_connection((server.host, server.port), timeout=20) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400"))
    assert b"root:" not in answer
