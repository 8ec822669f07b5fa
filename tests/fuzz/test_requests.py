"""Requests of every kind to the real server of `maggnn show`: an answer that is right, or 4xx with one line."""

import contextlib
import json
import math
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
from hypothesis import strategies as st

from hostile import GOOD, few_and_many, fuzz

READ = ["/api/runs", "/api/run", "/api/metrics", "/api/gallery", "/api/graph", "/", "/page.js"]
ASKED = ["/api/start", "/api/place", "/api/walk", "/api/molecule"]
ODD = [
    None, True, -1, 0, 1, 2, 16, 10**6, 10**30, 0.5, "", "marks", "mine", "../marks", "marks\x00", "x" * 2000, "CCO",
    "C(", [], [[]], [[0, 1]], [[0, 16]], [[-1, 0]], [[0]], [[0, 1], [0, 1]], [[0, "1"]], [[1e300, 0]], {}, {"a": 1},
    "agent", "random moves", "NaN", "\ud800",
]  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory, small_runs, start_command) -> Iterator[str]:
    """A server as people start it, for two strongly regular graphs and for molecules of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    small_runs.trained(folder / "marks")
    small_runs.fitted(folder / "mine", small_runs.table(tmp_path_factory.mktemp("table")))
    process = start_command("maggnn", "show", folder, "--port", "0", cwd=folder)
    yield process.stdout.readline().split()[0]
    process.terminate()
    _, err = process.communicate(timeout=20)
    assert "Traceback" not in err and "Exception" not in err, err


@dataclass(frozen=True)
class Question:
    path: str
    body: dict[str, Any]


@st.composite
def questions(draw: Any) -> Question:
    """A sound question of each kind, up to two of its entries changed, left out or added."""
    path = draw(st.sampled_from(ASKED))
    marks = [draw(st.lists(st.integers(0, 15), min_size=2, max_size=2))]
    body: dict[str, Any] = {"run": "marks", "graph": draw(st.integers(0, 1))}
    body |= {
        "/api/start": {"seed": draw(st.integers(0, 99)), "at_random": draw(st.booleans())},
        "/api/place": {"tuples": marks},
        "/api/walk": {"tuples": marks, "moves": draw(st.integers(1, 3)), "policy": "agent"},
        "/api/molecule": {"run": "mine", "smiles": draw(st.sampled_from([*GOOD[:12], "C(", "", "CCO CCN"]))},
    }[path]
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        name = draw(st.sampled_from([*body, "other"]))
        body[name] = draw(st.sampled_from(ODD))
    return Question(path, body)


def said(reply: httpx.Response) -> Any:
    """The contract: 2xx with numbers that are numbers, or 4xx with one line."""
    assert 200 <= reply.status_code < 300 or 400 <= reply.status_code < 500, (reply.status_code, reply.text)
    if reply.status_code < 300:
        return reply.json()
    line = reply.json()["error"]
    assert line and "\n" not in line and len(line) < 3000
    return None


def check_question(client: httpx.Client, question: Question) -> None:
    content = json.dumps(question.body).encode()
    headers = {"content-type": "application/json"}
    found = said(client.post(question.path, content=content, headers=headers))
    if found is None:
        return
    if question.path == "/api/molecule":
        assert question.body["smiles"].strip() not in ("", "C(", "CCO CCN")
        drawn = said(client.get("/api/graph", params={"run": question.body["run"], "graph": found["graph"]}))
        assert drawn["title"] == question.body["smiles"].strip()[:60]
        return
    assert found == said(client.post(question.path, content=content, headers=headers))  # and once more the same
    for step in found.get("steps", [found]):
        assert all(math.isfinite(value) for value in step["answer"])
    if question.path == "/api/place":
        assert found["tuples"] == question.body["tuples"] and found["moved"] == []
    if question.path == "/api/walk":
        assert len(found["steps"]) == question.body.get("moves", 1)


@few_and_many(150, 1500)
def test_questions(address, examples):
    with httpx.Client(base_url=address) as client:
        fuzz(questions(), partial(check_question, client), examples)


def check_reading(client: httpx.Client, asked: tuple[str, dict[str, str]]) -> None:
    path, query = asked
    reply = client.get(path, params=query)
    if reply.status_code == 200 and not path.startswith("/api"):
        return
    found = said(reply)
    sound = query.get("run") in ("marks", "mine")
    if path == "/api/runs":
        assert [run["name"] for run in found["runs"]] == ["marks", "mine"]
    elif path == "/api/run" and sound:
        assert found["name"] == query["run"]
    elif path.startswith("/api") and not sound:
        assert found is None


@few_and_many(80, 800)
def test_reading(address, examples):
    text = st.one_of(
        st.sampled_from(["marks", "mine", "0", "1", "2", "-1", "..", "marks/", "%2e%2e", "99999999999999"]),
        st.text(max_size=5),
    )
    query = st.dictionaries(st.sampled_from(["run", "graph", "place", "x"]), text.filter(is_text))
    paths = st.one_of(st.sampled_from(READ), st.text("ab/.%?#", max_size=6).map("/{}".format))
    with httpx.Client(base_url=address) as client:
        fuzz(st.tuples(paths, query), partial(check_reading, client), examples)


def is_text(value: str) -> bool:
    """Whether a client can send it."""
    return not re.search("[\ud800-\udfff]", value)


LINES = [
    b"GET / HTTP/1.1", b"GET /api/runs HTTP/1.1", b"POST /api/place HTTP/1.1", b"PUT / HTTP/1.1", b"GET", b"\x00", b"",
    b"\xff\xfe", b"GET /" + b"a" * 70_000 + b" HTTP/1.1", b"GET http://evil.com/ HTTP/1.1", b"OPTIONS * HTTP/1.1",
    b"GET / HTTP/9.9", b"CONNECT a:1 HTTP/1.1",
]  # fmt: skip
HEADERS = [
    b"Host: 127.0.0.1", b"Host: localhost", b"Host: evil.com", b"Host: [::1]", b"Host", b"Content-Length: 2",
    b"Content-Type: application/json", b"Content-Length: -2", b"Content-Length: 99999999999", b"Content-Length: 2, 2",
    b"Origin: null", b"\xff: \xff", b"Transfer-Encoding: chunked", b"Connection: upgrade", b"Upgrade: websocket",
    b"Expect: 100-continue", b"X: " + b"y" * 70_000, b"Sec-Fetch-Site: cross-site", b" folded", b"Cookie: \x01",
]  # fmt: skip
BODIES = [
    b"", b"{}", b"[]", b"{", b"null", b"\xff\xff", b'{"run": "marks"}', b"2\r\n{}\r\n0\r\n\r\n", b"[" * 30_000,
    b'{"run":' + b"9" * 5000 + b"}",
]  # fmt: skip


def check_raw(address: str, request: tuple[bytes, list[bytes], bytes]) -> None:
    """Bytes that no client would send: a status of 2xx or 4xx and one line, or the connection is closed."""
    line, headers, body = request
    url = httpx.URL(address)
    with socket.create_connection((url.host, url.port or 80), timeout=20) as connection:
        with contextlib.suppress(OSError):  # it may hang up before all is said
            connection.sendall(b"\r\n".join([line, *headers, b"", body]))
            connection.shutdown(socket.SHUT_WR)
        reply = b"".join(iter(lambda: _received(connection), b""))
    statuses = re.findall(rb"HTTP/1\.1 (\d{3})", reply)
    assert all(status[:1] in b"124" for status in statuses), reply[:500]
    assert b"Traceback" not in reply


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except OSError:  # it had bytes left that it did not want
        return b""


@few_and_many(120, 1200)
def test_raw_bytes(address, examples):
    request = st.tuples(st.sampled_from(LINES), st.lists(st.sampled_from(HEADERS), max_size=5), st.sampled_from(BODIES))
    fuzz(request, partial(check_raw, address), examples)
    assert len(httpx.get(f"{address}api/runs").json()["runs"]) == 2  # and it still answers
