"""`maggnn serve`: the answers of `maggnn predict`, in batches, within limits, and none lost when the server ends."""

import asyncio
import io
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install 'maggnn[serve]'")

import pyarrow  # noqa: E402
from fastapi.testclient import TestClient  # noqa: E402

from maggnn.apps.fit.ensemble import fit_blend  # noqa: E402
from maggnn.apps.fit.featurised_chunks import featurised_chunk  # noqa: E402
from maggnn.apps.fit.fitted import Facts, FittedModel  # noqa: E402
from maggnn.apps.fit.folds import single_fold  # noqa: E402
from maggnn.apps.fit.own_settings import own_config  # noqa: E402
from maggnn.apps.fit.own_table import read_own_table  # noqa: E402
from maggnn.apps.serve.batching import Batcher, FullError  # noqa: E402
from maggnn.apps.serve.messages import ARROW, JSON  # noqa: E402
from maggnn.apps.serve.server import make_app  # noqa: E402
from maggnn.data.sources import graphs_of  # noqa: E402

HOST = "http://127.0.0.1"


def molecules(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choice("CCCO") for _ in range(rng.randint(3, 8))) for _ in range(count)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of one step: what is served matters here, not how good it is."""
    folder = tmp_path_factory.mktemp("serve")
    table = folder / "mine.csv"
    table.write_text("\n".join(["smiles,y", *(f"{one},{one.count('O')}.5" for one in molecules(40))]) + "\n")
    dataset = read_own_table(table, "smiles", ["y"], "regression", "random", seed=0, workers=1).dataset
    facts = Facts("smiles", "regression", features="mol", smiles_column="smiles", targets=("y",))
    fitted = fit_blend(dataset, facts, own_config(dataset, predictor_steps=1), single_fold(dataset.split(0, 0), 40))[0]
    fitted.save(folder / "model")
    return folder


@pytest.fixture(scope="module")
def fitted(folder: Path) -> FittedModel:
    return FittedModel.load(folder / "model")


@pytest.fixture(scope="module")
def client(fitted: FittedModel) -> Iterator[TestClient]:
    with TestClient(make_app(fitted, most_rows=300, most_atoms=20), base_url=HOST) as client:
        yield client


def expected(fitted: FittedModel, smiles: list[str]) -> np.ndarray:
    found = featurised_chunk(smiles, "mol")
    assert found.arrays is not None
    return fitted.answer(graphs_of(found.arrays), found.descriptors).values.numpy()[:, 0]


def stream(**columns: list[Any]) -> bytes:
    return streamed(pyarrow.table(columns))


def streamed(table: pyarrow.Table, compression: str | None = None) -> bytes:
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(
        sink, table.schema, options=pyarrow.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    return sink.getvalue()


def bombs() -> list[bytes]:
    """Streams of few bytes that expand to many: in the column of SMILES, in another one, and in its dictionary."""
    many = pyarrow.array(["C" * 10_000_000])
    columns = [{"smiles": many}, {"smiles": ["C"], "other": many}]
    columns.append({"smiles": ["C"], "other": many.dictionary_encode()})
    return [streamed(pyarrow.table(one), "zstd") for one in columns]


def ask(client: Any, body: bytes, kind: str = ARROW) -> Any:
    return client.post("/predict", content=body, headers={"content-type": kind})


@pytest.mark.parametrize("count", [1, 200])
def test_answers_are_those_of_the_model(client, fitted, count):
    smiles = [*molecules(count), "C("]
    said = client.post("/predict", json={"smiles": smiles}).json()
    assert np.allclose(said["predicted_y"][:-1], expected(fitted, smiles[:-1]), rtol=1e-5, atol=1e-5)
    assert said["predicted_y"][-1] is None and said["reason"][-1] == "not a SMILES string"
    answer = ask(client, stream(id=list(range(count + 1)), smiles=smiles))
    table = pyarrow.ipc.open_stream(answer.content).read_all()
    assert answer.headers["content-type"] == ARROW and table.column_names == list(said)
    assert np.array_equal(table.column("predicted_y").to_pylist()[:-1],
                          np.array(said["predicted_y"][:-1], dtype=np.float32))  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "status", "words"),
    [
        (b"{", JSON, 400, "not JSON"),
        (b'{"smiles": "CCO"}', JSON, 400, "smiles: "),
        (b'{"smile": ["CCO"]}', JSON, 400, "smiles: "),
        (b'{"smiles": []}', JSON, 400, "0 molecules: a request must have 1 to 300"),
        (b'{"smiles": ["C"], "coverage": 0.5}', JSON, 400, "coverage: Extra inputs are not permitted"),
        (b'{"smiles": [%s"C"]}' % (b'"C",' * 300), JSON, 400, "301 molecules"),
        (b"PAR1", ARROW, 400, "not an Arrow stream"),
        (stream(smile=["C"]), ARROW, 400, "did you mean 'smile'"),
        (stream(smiles=[1]), ARROW, 400, "has type int64, not text"),
        (stream(smiles=["C"] * 301), ARROW, 400, "1 to 300"),
        (stream(smiles=["C"] * 20)[:-90], ARROW, 400, "not an Arrow stream"),
        (streamed(pyarrow.table([["C"], ["N"]], names=["smiles"] * 2)), ARROW, 400, "'smiles' occurs more than once"),
        *((body, ARROW, 400, "without compression") for body in bombs()),
        (b"C", "text/plain", 415, "content type of requests"),
        (b" " * (1 << 20) + b"{}", JSON, 413, "at most"),
    ],
)
def test_mistakes_are_one_line(client, body, kind, status, words):
    answer = ask(client, body, kind)
    assert answer.status_code == status and words in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


def test_large_molecules_get_a_reason(client):
    said = client.post("/predict", json={"smiles": ["C" * 20, "C" * 21]}).json()
    assert said["predicted_y"][0] is not None and said["predicted_y"][1] is None
    assert said["reason"] == ["", "21 atoms: more than 20"]


def test_columns_that_are_not_asked_for_may_have_any_type(client):
    """Also those with dictionaries, which are messages of their own in a stream."""
    table = pyarrow.table({"smiles": ["CCO"], "kind": pyarrow.array(["x"]).dictionary_encode(), "n": [1]})
    assert ask(client, streamed(table)).status_code == 200


def test_a_failure_is_one_line_of_json(fitted, monkeypatch):
    def fails(*_: Any) -> None:
        raise RuntimeError("secret")

    with TestClient(make_app(fitted), base_url=HOST, raise_server_exceptions=False) as client:
        monkeypatch.setattr("maggnn.apps.serve.batching.answers_for", fails)
        answer = client.post("/predict", json={"smiles": ["CCO"]})
    assert answer.status_code == 500
    assert answer.json() == {"error": "the server failed (RuntimeError): its log says more"}


def test_a_parser_that_dies_is_replaced(fitted):
    """The system may kill a process when memory is short; the server would otherwise refuse all large requests."""

    async def ask_twice() -> list[Any]:
        async with Batcher(fitted) as batcher:
            answers = []
            for _ in range(2):
                for process in list(batcher._parsers._processes.values()):
                    process.kill()
                answers.append(await batcher.answer(molecules(100)))
            return answers

    for columns in asyncio.run(ask_twice()):
        assert np.allclose(columns[0], expected(fitted, molecules(100)), rtol=1e-5, atol=1e-5)


def test_who_may_ask(client, fitted):
    assert client.get("/health", headers={"host": "evil.com"}).status_code == 403
    assert client.get("/health", headers={"origin": "http://evil.com"}).status_code == 403
    app = make_app(fitted, names=("models.internal",))
    assert TestClient(app, base_url="http://models.internal").get("/health").status_code == 503  # not started


def test_health_facts_and_metrics(client):
    assert client.get("/health").json() == {"status": "ready"}
    facts = client.get("/model").json()
    assert facts["columns"] == ["predicted_y", "reason"] and facts["limits"]["rows"] == 300

    def counted(name: str) -> float:
        lines = client.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))

    names = ("maggnn_molecules_total", "maggnn_molecules_without_total", 'maggnn_requests_total{status="200"}')
    before = [counted(name) for name in names]
    client.post("/predict", json={"smiles": ["CCO", "C(", "CC"]})
    assert [counted(name) for name in names] == [before[0] + 3, before[1] + 1, before[2] + 1]
    assert counted("maggnn_molecules_waiting") == 0


def test_questions_that_wait_share_batches_and_each_gets_its_own_answer(fitted):
    asked = [molecules(1 + number % 7, number) for number in range(60)]

    async def ask_all() -> tuple[list[Any], int]:
        async with Batcher(fitted, most_rows=64) as batcher:
            before = batcher.seen.batches
            answers = await asyncio.gather(*(batcher.answer(smiles) for smiles in asked))
            assert batcher.seen.waiting == 0
            return answers, batcher.seen.batches - before

    answers, batches = asyncio.run(ask_all())
    assert batches <= 6  # 240 molecules, at most 64 at a time, the first alone
    for smiles, columns in zip(asked, answers, strict=True):
        assert np.allclose(columns[0], expected(fitted, smiles), rtol=1e-5, atol=1e-5)


def test_a_queue_that_is_full_refuses_and_ending_answers_what_waits(fitted):
    async def fill() -> tuple[list[Any], int]:
        async with Batcher(fitted, most_rows=8, most_waiting=40) as batcher:
            tasks = [asyncio.create_task(batcher.answer(molecules(8, number))) for number in range(8)]
            await asyncio.sleep(0)
        # The block has ended: everything that was accepted has an answer.
        assert all(task.done() for task in tasks)
        refused = [isinstance(task.exception(), FullError) for task in tasks]
        return [task.result() for task, no in zip(tasks, refused, strict=True) if not no], sum(refused)

    answers, refused = asyncio.run(fill())
    assert refused == 3 and all(len(columns[0]) == 8 for columns in answers)


def test_nothing_is_lost_when_a_server_is_ended_and_started_again(folder, fitted, start_command):
    """SIGTERM while clients ask: what was accepted is answered, and the next server answers the rest."""
    with start_command("maggnn", "serve", "model", "--port", "0", cwd=folder) as first:
        address = first.stdout.readline().split()[0]
        port = address.rstrip("/").rsplit(":", 1)[1]
        told: dict[int, Any] = {}
        ends = threading.Event()

        def client(begin: int) -> None:
            with httpx.Client(timeout=60) as session:
                number = begin
                while not ends.is_set():
                    try:
                        answer = session.post(f"{address}predict", json={"smiles": molecules(3, number)})
                    except httpx.TransportError:  # refused or closed before it was accepted: asked again
                        time.sleep(0.05)
                        continue
                    assert answer.status_code == 200
                    told[number] = answer.json()["predicted_y"]
                    number += 4

        clients = [threading.Thread(target=client, args=(begin,)) for begin in range(4)]
        for thread in clients:
            thread.start()
        _wait(lambda: len(told) > 8)
        first.send_signal(signal.SIGTERM)
        first.wait(60)
    with start_command("maggnn", "serve", "model", "--port", port, cwd=folder) as second:
        second.stdout.readline()
        count = len(told)
        _wait(lambda: len(told) > count + 8)
        ends.set()
        for thread in clients:
            thread.join()
        second.send_signal(signal.SIGTERM)
        assert second.wait(60) in (0, -signal.SIGTERM) and not second.stderr.read()
    for begin in range(4):
        numbers = sorted(number for number in told if number % 4 == begin)
        assert numbers == list(range(begin, begin + 4 * len(numbers), 4))  # every question once, in order
    for number, values in told.items():
        assert np.allclose(values, expected(fitted, molecules(3, number)), rtol=1e-5, atol=1e-5)


def _wait(reached: Any) -> None:
    end = time.monotonic() + 90
    while not reached() and time.monotonic() < end:
        time.sleep(0.02)
    assert reached()


def test_mistakes_of_the_command(folder, call_command):
    assert "no such model folder" in call_command("maggnn", "serve", "none", "--port", "0", cwd=folder).mistake()
