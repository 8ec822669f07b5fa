"""Access control: only a browser that shows this page may send requests. Other web pages could reach a local server.

A host name that resolves to this machine (DNS rebinding) appears in the Host header, and a request from another page in
Origin or Sec-Fetch-Site. Requests are small, so large ones are rejected before they are read, and so are those without
a length, since the length of a chunked body is known only at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from h11 import LocalProtocolError

MOST_BODY = 64 * 1024

BODY_WITHIN_S = 20.0
"""The seconds within which the body of a request must arrive."""

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[0-9a-z_.-]+)(:[0-9]{1,5})?", re.ASCII)
"""A name or an address and a port, in lower case; no user, no path, nothing else that a URL may contain."""

ONCE = ("host", "origin", "content-length", "content-type", "sec-fetch-site")
"""Headers that two programs could interpret differently if they occurred twice."""

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Response headers: no external resources are loaded, and no other page may frame or embed this one."""


class Guard:
    """An ASGI application around another one.

    Args:
        host: the address that the server listens on. If it is every address, requests may use any numeric address, but
            no name.
        most_body: the largest number of bytes of a request.
        kinds: the content types of requests.
        names: additional hosts that requests may use, such as the name of a service.
    """

    def __init__(
        self,
        inner: Application,
        host: str,
        most_body: int = MOST_BODY,
        kinds: Sequence[str] = ("application/json",),
        names: Sequence[str] = (),
    ) -> None:
        self.inner, self.host = inner, host.strip("[]").lower()
        self.most_body, self.kinds, self.names = most_body, kinds, [name.strip("[]").lower() for name in names]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.inner(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _unless_closed(send)
        pairs = [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"]]
        refusal = _twice([name for name, _ in pairs]) or self._refusal(scope["method"], dict(pairs))
        if refusal is not None:
            await _refuse(send, *refusal)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(HEADERS)]
            await send(message)

        await self.inner(scope, _bounded(receive, self.most_body), send_with_headers)

    def _refusal(self, method: str, headers: dict[str, str]) -> tuple[int, str] | None:
        if not self._is_ours(headers.get("host", "")):
            return 403, "this is not the address of the server: use the one that it printed when it started"
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{headers['host']}".lower():
            return 403, "requests from other pages are not allowed"
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "requests from other pages are not allowed"
        if "transfer-encoding" in headers:
            return 411, "a request needs a content length: chunked bodies are not accepted"
        if method == "POST":
            return self._body_refusal(headers)
        return None if method in ("GET", "HEAD") else (405, f"{method} is not allowed")

    def _is_ours(self, host: str) -> bool:
        found = HOST.fullmatch(host.lower())
        if found is None:
            return False
        name = found[1].strip("[]")
        if name in ("localhost", "127.0.0.1", "::1", self.host, *self.names):
            return True
        return self.host in ("0.0.0.0", "::") and _is_address(name)

    def _body_refusal(self, headers: dict[str, str]) -> tuple[int, str] | None:
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            return 411, "a request needs a content length"
        if len(length) > 12 or int(length) > self.most_body:
            return 413, f"a request of {length[:12]} bytes: at most {self.most_body} are allowed"
        if headers.get("content-type", "").partition(";")[0].strip().lower() not in self.kinds:
            return 415, f"the content type of requests must be {' or '.join(self.kinds)}"
        return None


def _twice(names: list[str]) -> tuple[int, str] | None:
    twice = [name for name in ONCE if names.count(name) > 1]
    return (400, f"the header {twice[0]} occurs twice") if twice else None


def _bounded(receive: Receive, most: int) -> Receive:
    """Limit the bytes that are read to the largest request, whatever the headers say, and the time until all arrived.

    A client that stops in the middle of a body would otherwise hold its connection, and delay the end of the server.
    """
    read = 0
    until: float | None = asyncio.get_running_loop().time() + BODY_WITHIN_S

    async def receive_bounded() -> MutableMapping[str, Any]:
        nonlocal read, until
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}
        if not message.get("more_body", False):
            until = None  # the body has arrived: waiting for the client to disconnect has no time limit
        read += len(message.get("body", b""))
        return message if read <= most else {"type": "http.disconnect"}

    return receive_bounded


def _unless_closed(send: Send) -> Send:
    """Drop responses to a closed connection, which is the case after bytes that are not HTTP."""

    async def send_if_open(message: MutableMapping[str, Any]) -> None:
        with contextlib.suppress(LocalProtocolError):
            await send(message)

    return send_if_open


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def _refuse(send: Send, status: int, reason: str) -> None:
    body = json.dumps({"error": reason}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), "connection": "close", **HEADERS}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(headers)})
    await send({"type": "http.response.body", "body": body})
