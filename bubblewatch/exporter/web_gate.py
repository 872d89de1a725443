"""Who may ask: the Host header against DNS rebinding, users and tokens; the only user of bcrypt."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import bcrypt
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from bubblewatch.exporter.web_config import WebConfig

ANY_HOST = "*"

LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain"})

REMEMBERED = 256
"""Accepted passwords that are remembered as keyed digests: a bcrypt check costs 50 ms and more, a scrape has one."""

MOST_WAITING = 8
"""Password checks that may wait; beyond that the answer is 503, so that guessing cannot fill the memory or the CPU."""

LONGEST_PASSWORD = 72
"""Bytes that bcrypt looks at; bcrypt 5 refuses longer ones."""

_NOBODY = b"$2b$10$xLrF3i4iE7SDBX3YeWMp0efNPqPqdpcQQM23T.PE8qpaX8lWb7c5C"
"""Hash of a text that nobody knows, at cost 10. Unknown users are compared with it, so that the time of an answer does
not tell which names exist."""


def host_name(header: str) -> str:
    """The name in a Host header, without port and brackets, in lower case."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].lower().rstrip(".")


class Gate:
    """Lets requests through to `app` or answers them itself. Runs on one event loop.

    While nobody has to log in, a Host header must name this machine: an address, localhost, `own_names` or one of
    `hosts`. A page on another site can make a browser ask a name of its own that it lets point here; it cannot make it
    send our names, nor a password.
    """

    def __init__(self, app: ASGIApp, web: WebConfig, own_names: Collection[str], hosts: Collection[str]) -> None:
        self._app = app
        self._web = web
        self._names = LOCAL_NAMES | {name.lower() for name in (*own_names, *hosts) if name}
        self._passwords = _Passwords(web)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close"})  # before it was accepted: the server answers 403
            return
        refusal = await self._refusal(Headers(scope=scope), is_local=scope.get("client") is None)
        await (refusal or self._app)(scope, receive, send)

    async def _refusal(self, headers: Headers, *, is_local: bool) -> Response | None:
        if self._web.users or self._web.tokens:
            return await self._unauthorised(headers.get("authorization", ""))
        if is_local or self._web.asks_who or self._is_ours(headers.get("host")):
            return None
        return PlainTextResponse(
            "this name is not one of this machine's: add it to serve.hosts in the configuration\n", 421
        )

    def _is_ours(self, header: str | None) -> bool:
        if header is None or ANY_HOST in self._names:  # a browser always sends one
            return True
        name = host_name(header)
        if name in self._names:
            return True
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True

    async def _unauthorised(self, header: str) -> Response | None:
        scheme, _, given = header.partition(" ")
        if scheme.lower() == "bearer":
            if any(hmac.compare_digest(given.strip().encode(), token.encode()) for token in self._web.tokens):
                return None
        elif scheme.lower() == "basic" and self._web.users:
            answer = await self._passwords.check(given.strip())
            if answer is None:
                return PlainTextResponse("too many log-ins at once\n", 503, headers={"Retry-After": "5"})
            if answer:
                return None
        challenge = 'Basic realm="bubblewatch", charset="UTF-8"' if self._web.users else 'Bearer realm="bubblewatch"'
        return PlainTextResponse("say who you are\n", 401, headers={"WWW-Authenticate": challenge})


class _Passwords:
    """Checks passwords on one thread of its own, so that bcrypt never holds up the loop."""

    def __init__(self, web: WebConfig) -> None:
        self._users = web.users
        self._key = secrets.token_bytes(32)
        self._accepted: OrderedDict[bytes, None] = OrderedDict()
        self._waiting = 0
        self._thread = ThreadPoolExecutor(1, "bubblewatch-passwords") if web.users else None

    async def check(self, given: str) -> bool | None:
        """Whether `given` (base64 of name:password) is right; None when too many others wait."""
        digest = hashlib.blake2b(given.encode(), key=self._key).digest()
        if digest in self._accepted:
            self._accepted.move_to_end(digest)
            return True
        if self._waiting >= MOST_WAITING:
            return None
        self._waiting += 1
        try:
            right = await asyncio.get_running_loop().run_in_executor(self._thread, self._is_right, given)
        finally:
            self._waiting -= 1
        if right:
            self._accepted[digest] = None
            if len(self._accepted) > REMEMBERED:
                self._accepted.popitem(last=False)
        return right

    def _is_right(self, given: str) -> bool:
        try:
            name, colon, password = base64.b64decode(given, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        known = self._users.get(name)
        word = password.encode()
        matches = len(word) <= LONGEST_PASSWORD and bcrypt.checkpw(word, known or _NOBODY)
        return matches and known is not None and bool(colon)
