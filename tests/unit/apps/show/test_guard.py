"""What a page from elsewhere, or a program that bends HTTP, can try at the server of `maggnn show`."""

import asyncio
import socket
import threading
import time

import pytest
import uvicorn

from maggnn.apps.show.guard import MOST_BODY, Guard
from maggnn.apps.show.server import listening, make_app

JSON = [("host", "127.0.0.1:8000"), ("content-type", "application/json")]


def asked(headers, body=(), method="GET", kind="http"):
    """The status that the guard answers with, and how many bytes the application behind it could read."""
    sent, read = [], 0
    chunks = list(body)

    async def inner(scope, receive, send):
        nonlocal read
        while (message := await receive())["type"] == "http.request":
            read += len(message["body"])
            if not message["more_body"]:
                break
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive():
        return {"type": "http.request", "body": chunks.pop(0) if chunks else b"", "more_body": bool(chunks)}

    async def send(message):
        sent.append(message)

    scope = {"type": kind, "method": method, "headers": [(name.encode(), value.encode()) for name, value in headers]}
    asyncio.run(Guard(inner, "127.0.0.1")(scope, receive, send))
    return sent[0].get("status", sent[0]["type"]), read


HOSTS = [
    "evil.com@localhost", "evil.com@127.0.0.1:8000", "localhost@evil.com", "localhost/evil.com", "localhost?x", "",
    "localhost#x", "localhost:8000:9", "localhost:", "localhost:x", "localhost:123456", "local host", "localhost,evil",
    "localhost\\evil.com", "[::1", "::1", "[::1]@evil.com", "localhost.", "ｌocalhost", "127.1", "0x7f.1",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS)
def test_odd_hosts_are_refused(host):
    assert asked([("host", host)])[0] == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:65535"])
def test_hosts_of_our_own(host):
    assert asked([("host", host)])[0] == 200


@pytest.mark.parametrize(
    "origin",
    ["http://evil.com@127.0.0.1:8000", "https://127.0.0.1:8000", "http://127.0.0.1:8000/", "//127.0.0.1:8000", "null",
     "", "http://127.0.0.1", "file://127.0.0.1:8000", "http://127.0.0.1:8000 http://evil.com", "http://["],
)  # fmt: skip
def test_odd_origins_are_refused(origin):
    assert asked([("host", "127.0.0.1:8000"), ("origin", origin)])[0] == 403


def test_headers_that_are_there_twice():
    for name, value in (("host", "evil.com"), ("content-length", "3"), ("origin", "http://evil.com")):
        both = [(name, value), (name, "127.0.0.1:8000")]
        assert asked([*(pair for pair in JSON if pair[0] != name), *both], method="POST")[0] in (400, 403)
    assert asked([("Host", "evil.com"), ("host", "localhost")])[0] == 400


def test_websockets_are_refused():
    assert asked(JSON, kind="websocket")[0] == "websocket.close"


@pytest.mark.parametrize("length", ["²", "-1", "+5", "1_0", "", "9" * 5000, str(MOST_BODY + 1)])
def test_odd_lengths_are_refused(length):
    assert asked([*JSON, ("content-length", length)], method="POST")[0] in (411, 413)


def test_chunks_beside_a_length_are_refused():
    headers = [*JSON, ("content-length", "2"), ("transfer-encoding", "chunked")]
    assert asked(headers, [b"x" * MOST_BODY] * 20, "POST") == (411, 0)
    assert asked(headers, [b"x" * MOST_BODY] * 20, "GET") == (411, 0)


def test_a_body_is_never_read_beyond_the_limit():
    """Whatever the server in front let pass."""
    status, read = asked([*JSON, ("content-length", "2")], [b"x" * 1000] * 1000, "POST")
    assert status == 200 and read <= MOST_BODY
    assert asked([*JSON, ("content-length", "4")], [b"ab", b"cd"], "POST") == (200, 4)


def test_a_body_that_stops_half_way_is_given_up(monkeypatch):
    monkeypatch.setattr("maggnn.apps.show.guard.BODY_WITHIN_S", 0.05)
    seen = []

    async def stops() -> dict[str, object]:
        if not seen:
            return {"type": "http.request", "body": b"{", "more_body": True}
        await asyncio.sleep(5)
        raise AssertionError

    async def reads(scope, receive, send) -> None:
        while not seen or seen[-1] == "http.request":
            seen.append((await receive())["type"])

    async def ignores(message) -> None:
        pass

    headers = [(name.encode(), value.encode()) for name, value in [*JSON, ("content-length", "2")]]
    scope = {"type": "http", "method": "POST", "headers": headers}

    async def ask() -> None:
        async with asyncio.timeout(3):
            await Guard(reads, "127.0.0.1")(scope, stops, ignores)

    asyncio.run(ask())
    assert seen == ["http.request", "http.disconnect"]


def test_a_real_server_ends_such_a_connection(runs):
    """At most what fits in its buffers is read of a body in chunks."""
    listener = listening("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(make_app(runs), log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        status, sent = _stubborn(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
    assert b" 411 " in status or b" 400 " in status
    assert sent < 50 * 2**20


def _stubborn(port: int) -> tuple[bytes, int]:
    """Send 200 MB in chunks as long as somebody takes them: the status line, and the bytes that were taken."""
    head = (
        f"POST /api/place HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(head.encode())
        status = connection.recv(200).splitlines()[0] if _waited() else b""
        sent = 0
        try:
            for _ in range(200):
                connection.sendall(b"100000\r\n" + b" " * 2**20 + b"\r\n")
                sent += 2**20
        except OSError:
            pass
    return status, sent


def _waited() -> bool:
    time.sleep(0.2)
    return True
