"""The pages that the daemon serves, as one ASGI application. It only reads: GET and HEAD, no state, no scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bubblewatch.exporter.collector import Exposition
from bubblewatch.exporter.stream import Streams
from bubblewatch.model.findings import Snapshot
from bubblewatch.runtime.hub import STALE_S, Hub

SECURITY_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
)
"""Sent with every answer: nothing here is to be framed, cached, guessed at or read by other sites."""

INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>bubblewatch</title></head><body>
<h1>bubblewatch</h1>
<ul>
<li><a href="/metrics">/metrics</a> for Prometheus</li>
<li><a href="/api/v1/snapshot">/api/v1/snapshot</a> the findings and signals as JSON</li>
<li><a href="/api/v1/stream">/api/v1/stream</a> the same, again and again, as server-sent events</li>
<li><a href="/rules">/rules</a> what each finding means and what to do</li>
<li><a href="/-/healthy">/-/healthy</a> this process answers</li>
<li><a href="/-/ready">/-/ready</a> it has a fresh snapshot</li>
</ul>
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Documents:
    """How a snapshot and an error become JSON text; passed in, because reports are another room of the house.

    `of_rule` gives what the rule of this name or id means and how to act on it, as plain text, `rule_page` the same as
    HTML; None when there is none. `rule_index` is an HTML list of all rules.
    `feed` gives what a screen shows, as JSON; None when there is nothing fresh yet.
    """

    of_snapshot: Callable[[Snapshot], str]
    of_error: Callable[[str, str | None], str]
    of_rule: Callable[[str], str | None] = lambda _name: None
    rule_page: Callable[[str], str | None] = lambda _name: None
    rule_index: str = ""
    feed: Callable[[], bytes | None] = lambda: None


def application(hub: Hub, exposition: Exposition, documents: Documents) -> ASGIApp:
    """The application over `hub`. Its handlers never block on anything but the hub's short lock."""
    streams = Streams(hub, documents.of_snapshot)

    async def index(_: Request) -> Response:
        return HTMLResponse(INDEX)

    async def metrics(request: Request) -> Response:
        body, content_type = exposition.render(request.headers.get("accept", ""))
        return Response(body, headers={"Content-Type": content_type})

    async def healthy(_: Request) -> Response:
        return PlainTextResponse("healthy\n")

    async def ready(_: Request) -> Response:
        why = _why_not_ready(hub)
        return PlainTextResponse(f"{why}\n", 503) if why else PlainTextResponse("ready\n")

    async def snapshot(_: Request) -> Response:
        why = _why_not_ready(hub)
        latest = hub.latest()
        if why or latest is None:
            return _json(documents.of_error(why or "there is no snapshot", "try again in a moment"), 503)
        return _json(documents.of_snapshot(latest), 200)

    async def rule(request: Request) -> Response:
        name = request.path_params["name"]
        page = documents.rule_page(name) if "text/html" in request.headers.get("accept", "") else None
        if page is not None:
            return HTMLResponse(page)
        text = documents.of_rule(name)
        if text is None:
            return PlainTextResponse("no rule has this name; bubblewatch rules list shows them\n", 404)
        return PlainTextResponse(f"{text}\n")

    async def rule_index(_: Request) -> Response:
        return HTMLResponse(documents.rule_index)

    async def feed(_: Request) -> Response:
        page = documents.feed()
        if page is None:
            return _json(documents.of_error("there is no picture yet", "ask again in a second"), 503)
        return Response(page, media_type="application/json")

    async def stream(_: Request) -> Response:
        answer = streams.open()
        return answer or _json(documents.of_error("too many streams are open", "close one, or poll the snapshot"), 503)

    routes = (
        Route("/", index),
        Route("/rules", rule_index),
        Route("/rules/{name}", rule),
        Route("/metrics", metrics),
        Route("/-/healthy", healthy),
        Route("/-/ready", ready),
        Route("/api/v1/snapshot", snapshot),
        Route("/api/v1/feed", feed),
        Route("/api/v1/stream", stream, methods=["GET"]),
    )
    return _WithSecurityHeaders(Starlette(routes=routes))


def _why_not_ready(hub: Hub) -> str:
    """Empty when there is a fresh snapshot."""
    held = hub.latest_with_age()
    if held is None:
        return "no snapshot yet"
    _, age_s = held
    return f"the last snapshot is {age_s:.0f} s old" if age_s > STALE_S else ""


def _json(text: str, status: int) -> Response:
    return Response(text, status, media_type="application/json")


class _WithSecurityHeaders:
    """Adds the headers to whatever the application answers, errors too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS:
                    headers[name] = value
            await send(message)

        await self._app(scope, receive, send_with_headers)
