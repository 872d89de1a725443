"""No text from outside makes a parser fail in a way of its own: it gives a value or one of our errors.

`make fuzz` runs the same with many more examples; what it finds becomes a seed or a test beside the parser.
"""

from __future__ import annotations

import io
import json
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from bubblewatch.app.config import load
from bubblewatch.app.rules import rules_in_force
from bubblewatch.diagnose.loader import read_catalogue
from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.pages import Documents, application
from bubblewatch.exporter.server import ServerHandle, serve
from bubblewatch.exporter.web_config import WebConfig, read_web_config
from bubblewatch.exporter.web_gate import Gate
from bubblewatch.model.clock import SystemClock
from bubblewatch.model.errors import BubblewatchError
from bubblewatch.model.logs import LogLine
from bubblewatch.model.redact import redact_argv, redact_text
from bubblewatch.model.server import Launch, Server
from bubblewatch.runtime.assess import assess, facts_of, with_settings
from bubblewatch.runtime.feed_codec import feed_from_json
from bubblewatch.runtime.hub import Hub
from bubblewatch.runtime.state_store import decoded
from bubblewatch.servers import registry
from bubblewatch.signals.evidence import ServerEvidence
from bubblewatch.sources import launch_text
from bubblewatch.sources.container_log import unwrapped
from bubblewatch.sources.env_file import environment_words
from bubblewatch.sources.exposition import reading_from_text
from bubblewatch.sources.journalctl import _entry
from bubblewatch.sources.model_config import model_config
from bubblewatch.sources.recording_log import MAGIC, read_frames
from bubblewatch.sources.safetensors import MalformedHeader, read_header
from bubblewatch.sources.smi import telemetry_from_text
from bubblewatch.sources.smi_topology import links_of
from bubblewatch.sources.systemd_unit import state_from_show, unit_launch
from bubblewatch.sources.text import safe_lines
from bubblewatch.sources.yaml_nodes import read_documents
from tests.fuzz import seeds
from tests.fuzz.mutate import mutations

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
"""Examples of each parser; `make fuzz` asks for many more."""


@dataclass(frozen=True)
class Target:
    """A parser, texts that it accepts, and errors that it may answer with beside ours."""

    name: str
    parse: Callable[[str], object]
    seeds: Sequence[str] = field(repr=False)
    errors: tuple[type[Exception], ...] = ()


def log_line(text: str) -> None:
    for line in safe_lines(text.encode("utf-8", "surrogatepass")):
        for kind in registry.KNOWN:
            kind.parse(LogLine(line))
            kind.tells(LogLine(line))
        registry.events_of(None, LogLine(line))


def launch(text: str) -> None:
    found = launch_text.read_launches(f"{text} ", lambda one: registry.recognise(one, "") is not None)
    for named in found:
        settings_of(named.launch)


def settings_of(one: Launch) -> None:
    kind = registry.recognise(one, "")
    for each in registry.KNOWN if kind is None else (kind,):
        for version in (None, "0.5.10", "0.24.0", "garbage"):
            found = each.settings(one, version)
            each.facts(found, version)


def argv(text: str) -> None:
    words = tuple(text.split(" "))
    redact_argv(words)
    for program in (
        ("python", "-m", "sglang.launch_server"),
        ("vllm", "serve"),
        ("llama-server",),
        ("ollama", "serve"),
    ):
        settings_of(Launch((*program, *words), env={}))


def judged(text: str) -> None:
    """A whole answer on a log that went wrong."""
    lines = [LogLine(line, 10**18 + n * 10**8) for n, line in enumerate(text.split("\n"))]
    kind = registry.KNOWN[0]
    asked = Launch(("python", "-m", "sglang.launch_server", "--pp-size", "8", "--disable-cuda-graph"), env={})
    events = [event for line in lines for event in kind.parse(line)]
    server = with_settings(kind, Server(kind.kind, "a", "0.5.10", launch=asked), events)
    evidence = ServerEvidence(
        server,
        facts_of(kind, server, events, None),
        events,
        log_read=True,
        now_ns=10**18 + len(lines) * 10**8,
        live=True,
    )
    assess(evidence, RULES, (), 60.0, one_shot=False)


def rule(text: str) -> None:
    folder = Path(os.environ["HOME"]) / "rules"
    folder.mkdir(exist_ok=True)
    (folder / "one.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    read_catalogue([folder])


def in_file(name: str, read: Callable[[str], object]) -> Callable[[str], object]:
    def parse(text: str) -> object:
        file = Path(os.environ["HOME"]) / name
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        return read(str(file))

    return parse


def model(text: str) -> None:
    value = json.loads(text)
    if isinstance(value, dict):
        model_config(value)


def as_bytes(parse: Callable[[bytes], object]) -> Callable[[str], object]:
    return lambda text: parse(text.encode("utf-8", "surrogatepass"))


def frames(data: bytes) -> None:
    list(read_frames(io.BytesIO(MAGIC + data), "x"))


def tensors(data: bytes) -> None:
    read_header(io.BytesIO(data))


RULES = rules_in_force()
LINES = seeds.server_lines()
STORY = "\n".join(LINES[:60])

TARGETS = (
    Target("log line", log_line, LINES),
    Target("whole log", judged, (STORY,)),
    Target("launch", launch, (*seeds.LAUNCHES, *seeds.UNITS, *seeds.DOCUMENTS)),
    Target("argv", argv, seeds.LAUNCHES),
    Target("unit file", lambda text: unit_launch(text, "a.service"), seeds.UNITS),
    Target(
        "systemctl show", lambda text: state_from_show(text, "a.service"), ("Id=a\nMainPID=1\nExecStart={ path=/a ; }",)
    ),
    Target("yaml", lambda text: read_documents(text, "x"), (*seeds.DOCUMENTS, *seeds.RULES[:3])),
    Target("environment file", lambda text: list(environment_words(text, "x")), seeds.ENVIRONMENT_FILES),
    Target("nvidia-smi", lambda text: telemetry_from_text(text, "x"), seeds.SMI),
    Target("nvidia-smi topo", links_of, seeds.SMI),
    Target("metrics", lambda text: [reading_from_text(k, text, 0) for k in ("sglang", "vllm", "other")], seeds.METRICS),
    Target(
        "container log", as_bytes(lambda data: unwrapped(data, "x")), ('{"log":"a\\n","time":"2026-01-01T00:00:00Z"}',)
    ),
    Target("journalctl record", as_bytes(_entry), ('{"__REALTIME_TIMESTAMP":"1","__CURSOR":"c","MESSAGE":[104]}',)),
    Target("rule file", rule, seeds.RULES),
    Target("configuration", in_file("c.toml", lambda path: load(path, {})), ('[watch]\nrate = 5\nwindow = "30s"\n',)),
    Target(
        "web configuration", in_file("w.yml", read_web_config), ("tls_server_config: {cert_file: a, key_file: b}\n",)
    ),
    Target("model configuration", model, seeds.MODELS, (ValueError, RecursionError)),
    Target("safetensors", as_bytes(tensors), (seeds.TENSORS,), (MalformedHeader,)),
    Target("feed", feed_from_json, ('{"version":1,"feed":{"snapshot":{"time_ns":1,"answer":"quiet"}}}',)),
    Target("state", as_bytes(decoded), ("bubblewatch-state 1 abc\n{}\n",), (ValueError,)),
    Target("recording", as_bytes(frames), ("\x10\0\0\0\0\0\0\0{}",)),
    Target("any message", lambda text: [safe_lines(text), redact_text(text)], LINES),
)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_text_makes_a_parser_fail_in_a_way_of_its_own(target: Target) -> None:
    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    @given(mutations(target.seeds))
    def run(text: str) -> None:
        try:
            target.parse(text)
        except (BubblewatchError, *target.errors) as error:
            said = str(error)
        else:
            said = "nothing"
        assert said

    run()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_every_seed_is_read(target: Target) -> None:
    """A parser that refuses everything would pass the other test."""
    read = 0
    for seed in target.seeds:
        try:
            target.parse(seed)
            read += 1
        except (BubblewatchError, *target.errors):
            continue
    assert read > 0 or target.name in {"state", "web configuration"}


def test_what_was_found_once_stays_mended() -> None:
    """A unit's text as the command itself; file names that are none; a count that is none."""
    given_as_command = launch_text.read_launch("[Service]\nExecStart=/usr/bin/python3 -m sglang.launch_server --tp 8\n")
    assert "--tp" in given_as_command.argv
    for name in ("/no\0where", "/" + "A" * 5000):
        text = f"[Service]\nEnvironmentFile={name}\nExecStart=/usr/bin/vllm serve m\n"
        assert any("was not read" in note for note in unit_launch(text, "a.service").notes)
    assert state_from_show("Id=a\nMainPID=1a\nNRestarts=²", "a").main_pid is None


REQUESTS = (
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n",
    "GET /api/v1/snapshot HTTP/1.1\r\nHost: [::1]:9736\r\nConnection: close\r\n\r\n",
    "POST /rules/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    (
        "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ),
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "GET http://evil.example/ HTTP/1.0\r\nAuthorization: Basic %%%\r\n\r\n",
)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerHandle]:
    hub = Hub(SystemClock())
    documents = Documents(of_snapshot=lambda _: "{}", of_error=lambda what, _: json.dumps(what))
    app = Gate(application(hub, Exposition(hub, "0"), documents), WebConfig(), (), ())
    with serve(app, port=0) as running:
        yield running


def test_no_request_brings_the_server_down(server: ServerHandle) -> None:
    def exchange(data: bytes, *, patience_s: float = 0.2, half_close: bool = True) -> bytes:
        with socket.create_connection((server.host, server.port), timeout=20) as client:
            client.settimeout(patience_s)
            try:
                client.sendall(data)
                if half_close:  # a mutated request may never end: this ends it
                    client.shutdown(socket.SHUT_WR)
                return client.recv(65536)
            except OSError:
                return b""

    @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
    @given(mutations(REQUESTS))
    def run(text: str) -> None:
        answer = exchange(text.encode("utf-8", "surrogatepass"))
        assert b"Traceback" not in answer
        assert not answer.startswith(b"HTTP/1.1 500")

    run()
    refused = exchange(REQUESTS[3].encode(), patience_s=20, half_close=False)
    assert refused.startswith(b"HTTP/1.1 403"), "no web sockets here"
    asked = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    healthy = exchange(asked, patience_s=20, half_close=False)
    assert healthy.startswith(b"HTTP/1.1 200")
