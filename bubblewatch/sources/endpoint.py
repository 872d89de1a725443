"""A server's own passive pages over HTTP: metrics and version. Only file that binds httpx, which it imports when asked.

Never asked: pages that make the server work. SGLang answers /health with a generated token when it is idle (0.5.1 and
newer), and TensorRT-LLM's /metrics hands each record to one reader only.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from bubblewatch.model.clock import NS, Clock, SystemClock
from bubblewatch.model.errors import AccessDenied, NotSupported, SourceError, SourceLost, UsageError
from bubblewatch.model.findings import Health, SourceHealth
from bubblewatch.model.protocols import EndpointReading
from bubblewatch.model.redact import redact_text
from bubblewatch.sources.exposition import reading_from_text

if TYPE_CHECKING:
    import httpx

TIMEOUT_S = 2.0
"""For each of connecting, sending and waiting; a loaded server's page took tens of milliseconds in public reports."""

MAX_BODY_BYTES = 8 * 1024 * 1024
"""A metrics page of a server with eight ranks has some hundred kilobytes."""

_VERSION_PAGE = {"vllm": "/version"}
"""Passive pages that name the version. SGLang's /server_info asks every scheduler, so it is left alone."""

_ENABLE = {
    "sglang": "restart the server with --enable-metrics",
    "vllm": "restart the server without --disable-log-stats",
    "llamacpp": "restart the server with --metrics",
}
"""Kind of server -> what turns its metrics page on."""

_VERSION = re.compile(r"\d[\w.+!-]{0,60}")


class ServerMetrics:
    """Metrics of one server at `url` (`http://127.0.0.1:30000`), an EndpointSource.

    Only loopback addresses are asked unless `allow_remote`; raises UsageError for another one. Each reading opens a
    connection and closes it, so that it is not counted as a client's. `fetch` gets a page as `fetch_page` does. Not
    thread-safe.
    """

    def __init__(
        self,
        url: str,
        kind: str,
        clock: Clock | None = None,
        *,
        allow_remote: bool = False,
        fetch: Callable[[str], str] | None = None,
    ) -> None:
        self._base = _checked(url, allow_remote=allow_remote)
        self._kind = kind
        self._clock = clock or SystemClock()
        self._fetch = fetch or (lambda page: fetch_page(page, self._clock))
        self._version: str | None = None
        self._version_asked = False
        self._read_count = 0
        self._health = SourceHealth("endpoint", Health.ABSENT, "not asked yet")

    def read(self) -> EndpointReading | None:
        """What the metrics page says now; None when nothing could be had, and then `health` tells why."""
        url = f"{self._base}/metrics"
        try:
            text = self._fetch(url)
        except SourceError as error:
            self._health = self._why(error)
            return None
        reading = reading_from_text(self._kind, text, self._clock.wall_ns(), url)
        if reading is None or not reading.counters:
            self._health = SourceHealth("endpoint", Health.OFF, f"{url} has no series of {self._kind}", self._mend())
            return None
        self._read_count += 1
        self._health = SourceHealth("endpoint", Health.OK, url, "", self._read_count)
        return replace(reading, version=self._ask_version())

    def health(self) -> SourceHealth:
        """How the last reading went."""
        return self._health

    def _ask_version(self) -> str | None:
        """The version, asked once and remembered; None when this kind has no passive page for it."""
        page = _VERSION_PAGE.get(self._kind)
        if page is None or self._version_asked:
            return self._version
        self._version_asked = True
        try:
            answer = json.loads(self._fetch(self._base + page))
        except (SourceError, ValueError):
            return None
        version = answer.get("version") if isinstance(answer, dict) else None
        if isinstance(version, str) and _VERSION.fullmatch(version):
            self._version = version
        return self._version

    def _why(self, error: SourceError) -> SourceHealth:
        if isinstance(error, NotSupported):
            return SourceHealth("endpoint", Health.OFF, f"metrics are off: {error.what}", self._mend())
        if isinstance(error, AccessDenied):
            return SourceHealth("endpoint", Health.DENIED, error.what, error.hint or "")
        state = Health.LOST if self._read_count else Health.ABSENT
        return SourceHealth("endpoint", state, error.what, "", self._read_count)

    def _mend(self) -> str:
        return _ENABLE.get(self._kind, "")


def fetch_page(url: str, clock: Clock) -> str:
    """Body of the page at `url` as text. No proxy, no redirect, no cookie, nothing kept open.

    Raises NotSupported where the server has no such page, AccessDenied where it wants a key, SourceLost where nobody
    answers in time, and SourceError for any other answer or a body over MAX_BODY_BYTES.
    """
    import httpx  # noqa: PLC0415 - takes 0.1 s, which no start without an endpoint should pay

    try:
        with (
            httpx.Client(trust_env=False, timeout=TIMEOUT_S, follow_redirects=False) as client,
            client.stream("GET", url, headers={"Connection": "close", "Accept": "*/*"}) as response,
        ):
            _check_status(response.status_code, url)
            return _limited_body(response, url, clock)
    except httpx.ConnectError as error:
        raise SourceLost(f"nobody answers at {url}") from error
    except httpx.TimeoutException as error:
        raise SourceLost(f"{url} did not answer within {TIMEOUT_S:g} s") from error
    except httpx.HTTPError as error:
        raise SourceError(f"{url} did not answer as HTTP: {redact_text(str(error))[:120]}") from error


def _check_status(status: int, url: str) -> None:
    if status in {404, 405, 501}:
        raise NotSupported(f"{url} answers {status}")
    if status in {401, 403}:
        raise AccessDenied(f"{url} answers {status}: it wants the server's API key, which is not asked for")
    if status != 200:
        raise SourceError(f"{url} answers {status}")


def _limited_body(response: httpx.Response, url: str, clock: Clock) -> str:
    """The body, unless it is too large or drips in so slowly that no single wait is too long."""
    deadline_ns = clock.monotonic_ns() + round(2 * TIMEOUT_S * NS)
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if clock.monotonic_ns() > deadline_ns:
            raise SourceLost(f"{url} sends its body too slowly")
        if len(body) > MAX_BODY_BYTES:
            raise SourceError(f"{url} is larger than {MAX_BODY_BYTES // 1024**2} MiB")
    return body.decode("utf-8", "replace")


def _checked(url: str, *, allow_remote: bool) -> str:
    """`url` without a trailing slash; UsageError unless it is plain HTTP(S) to this machine, or remote is allowed."""
    found = re.fullmatch(r"https?://(?P<host>\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d{1,5})?/?", url)
    if found is None:
        raise UsageError(f"not an address of a server: {redact_text(url)}", "expected such as http://127.0.0.1:30000")
    if not allow_remote and not _is_loopback(found["host"].strip("[]")):
        raise UsageError(f"{url} is not on this machine", "only the server's loopback address is asked by itself")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
