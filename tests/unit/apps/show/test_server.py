"""The answers that the page asks for, and who gets none."""

import errno
import json
import math
import os
import shutil
import threading
from pathlib import Path

import httpx
import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

from damage import without_answers
from maggnn import MagClassifier
from maggnn.apps.explain.explanation import explain_subject
from maggnn.apps.explain.graph import read_subject
from maggnn.apps.fit import fitted as fitted_models
from maggnn.apps.fit.training_rows import TEST_FILE, training_rows, write_training_rows
from maggnn.apps.show import shelf as shelves
from maggnn.apps.show.runs import Run, find_runs
from maggnn.apps.show.server import make_app
from maggnn.apps.show.shelf import Shelf
from maggnn.errors import InputError
from maggnn.model.saving import load_model


@pytest.fixture(scope="module")
def client(runs):
    with TestClient(make_app(runs), base_url="http://127.0.0.1:8000") as client:
        yield client


def good(reply: httpx.Response):
    assert reply.status_code == 200, reply.text
    return reply.json()


def test_runs_and_what_is_said_of_them(client, runs):
    found = good(client.get("/api/runs"))
    assert {run["name"]: run["stage"] for run in found["runs"]} == {"marks": "finished", "mine": "finished"}
    facts = good(client.get("/api/run", params={"run": "marks"}))
    assert (facts["data"], facts["m"], facts["k"], facts["t"], facts["steps"]) == ("shrikhande_rook", 1, 2, 2, [6, 6])
    assert good(client.get("/api/run", params={"run": "mine"}))["kind"] == "fit"


def test_stages(runs, tmp_path):
    (tmp_path / "going").mkdir()
    (tmp_path / "going" / "metrics.jsonl").write_text("")
    run = find_runs(tmp_path)["going"]
    assert run.stage() == "training" and not run.model_version
    shutil.copy(runs / "marks" / "model.safetensors", tmp_path / "going")
    assert run.stage() == "finished"


def test_metrics_are_those_of_the_log(client, runs):
    found = good(client.get("/api/metrics", params={"run": "marks"}))
    logged = [json.loads(line) for line in (runs / "marks" / "metrics.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in found["lines"]] == [entry["step"] for entry in logged]
    assert {"predictor/loss", "agent/reward", "agent/epsilon"} <= set().union(*found["lines"])
    assert good(client.get("/api/metrics", params={"run": "marks", "place": found["place"]}))["lines"] == []
    assert good(client.get("/api/metrics", params={"run": "mine"}))["lines"] == []


def test_the_metric_after_moves(client):
    found = good(client.get("/api/moves", params={"run": "marks"}))
    assert found["metric"] == "accuracy" and found["graphs"] == 2
    agent, control = found["policies"]["agent"], found["policies"]["random moves"]
    assert len(agent) == len(control) == 3 and agent[0] == control[0]
    assert "test split" in client.get("/api/moves", params={"run": "mine"}).json()["error"]


def test_marks_placed_by_hand_are_answered_by_the_model(client, runs):
    picture = good(client.get("/api/graph", params={"run": "marks", "graph": 1}))
    assert len(picture["positions"]) == 16 and len(picture["edges"]) == 48 and picture["target"] == [1]
    step = good(client.post("/api/place", json={"run": "marks", "graph": 1, "tuples": [[3, 11]]}))
    model, config = load_model(runs / "marks" / "model.safetensors")
    from maggnn.data import registry

    graphs = registry.load(config.data.name).graphs[torch.tensor([1])]
    with torch.no_grad():
        answer = model.predictor(graphs, torch.tensor([[[3, 11]]])).softmax(dim=-1)[0]
    assert step["answer"] == pytest.approx(answer.tolist(), rel=1e-5)
    assert step["score"] == pytest.approx(math.log(float(answer[1])), rel=1e-4)
    assert len(step["q_table"]) == 16


def test_walks(client):
    start = good(client.post("/api/start", json={"run": "marks", "graph": 0, "seed": 5, "at_random": True}))
    again = good(client.post("/api/start", json={"run": "marks", "graph": 0, "seed": 5, "at_random": True}))
    assert start == again and start["moved"] == []
    question = {"run": "marks", "graph": 0, "tuples": start["tuples"], "moves": 3}
    steps = good(client.post("/api/walk", json=question))["steps"]
    assert len(steps) == 3
    before = start["tuples"]
    for step in steps:  # one mark a move
        ((tuple_, slot, node),) = step["moved"]
        before = [list(slots) for slots in before]
        before[tuple_][slot] = node
        assert step["tuples"] == before
    control = good(client.post("/api/walk", json={**question, "policy": "random moves", "seed": 3}))["steps"]
    assert control != steps


def test_a_plain_gnn_has_an_answer_and_nothing_to_move(tmp_path, small_runs):
    small_runs.trained(tmp_path / "plain", small_runs.tiny_config(steps=2, tuple_order=0, num_moves=0))
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    facts = good(client.get("/api/gallery", params={"run": "plain"}))
    assert facts["k"] == 0 and not facts["moves"]
    step = good(client.post("/api/start", json={"run": "plain", "graph": 0}))
    assert len(step["answer"]) == 2 and step["q_table"] is None
    for path in ("place", "walk"):
        reply = client.post(f"/api/{path}", json={"run": "plain", "graph": 0, "tuples": [[]]})
        assert "has no marks" in reply.json()["error"]
    assert "no moves" in client.get("/api/moves", params={"run": "plain"}).json()["error"]


def written(picture):
    """The elements in the order of the SMILES; nodes are in canonical order."""
    return [picture["labels"][picture["numbers"].index(number)] for number in range(len(picture["labels"]))]


def test_molecules(client):
    added = good(client.post("/api/molecule", json={"run": "mine", "smiles": " CCO "}))["graph"]
    picture = good(client.get("/api/graph", params={"run": "mine", "graph": added}))
    assert written(picture) == ["C", "C", "O"] and picture["target"] is None
    step = good(client.post("/api/start", json={"run": "mine", "graph": added}))
    assert len(step["answer"]) == 1 and step["score"] is None
    unseen = good(client.post("/api/molecule", json={"run": "mine", "smiles": "CC[Si](F)Cl"}))["graph"]
    picture = good(client.get("/api/graph", params={"run": "mine", "graph": unseen}))
    assert written(picture) == ["C", "C", "Si", "F", "Cl"] and "not in the training data" in picture["note"]
    triple = good(client.post("/api/molecule", json={"run": "mine", "smiles": "CC#CBr"}))["graph"]
    picture = good(client.get("/api/graph", params={"run": "mine", "graph": triple}))
    numbers = picture["numbers"]
    bonds = sorted([*sorted((numbers[u], numbers[v])), order] for u, v, order in picture["edges"])
    assert written(picture) == ["C", "C", "C", "Br"] and bonds == [[0, 1, 1], [1, 2, 3], [2, 3, 1]]
    single = good(client.post("/api/molecule", json={"run": "mine", "smiles": "O"}))["graph"]
    assert good(client.post("/api/start", json={"run": "mine", "graph": single}))["tuples"] == [[0, 0]]
    for smiles in ("C(", "", "C" * 1500):
        reply = client.post("/api/molecule", json={"run": "mine", "smiles": smiles})
        assert reply.status_code in (400, 422) and "\n" not in reply.json()["error"]
    assert "only for a model" in client.post("/api/molecule", json={"run": "marks", "smiles": "C"}).json()["error"]


def test_the_answer_for_a_molecule_is_the_fitted_model_s(client, runs):
    from maggnn.apps.fit.featurised_chunks import featurised_chunk
    from maggnn.data.sources import graphs_of

    number = good(client.post("/api/molecule", json={"run": "mine", "smiles": "CC(C)O"}))["graph"]
    start = good(client.post("/api/start", json={"run": "mine", "graph": number}))
    step = good(client.post("/api/walk", json={"run": "mine", "graph": number, "tuples": start["tuples"]}))["steps"][0]
    arrays = featurised_chunk(["CC(C)O"], "ogb").arrays
    expected = fitted_models.FittedModel.load(runs / "mine").predict(graphs_of(arrays))[0].tolist()
    assert step["answer"] == pytest.approx(expected, rel=1e-3, abs=1e-4)  # ties aside, the model's own walk


def test_an_answer_that_is_no_number_is_not_shown(runs, tmp_path):
    shutil.copytree(runs / "mine", tmp_path / "mine")
    without_answers(tmp_path / "mine")
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    number = good(client.post("/api/molecule", json={"run": "mine", "smiles": "CCO"}))["graph"]
    question = {"run": "mine", "graph": number}
    for path, more in (("start", {}), ("place", {"tuples": [[0, 1]]}), ("walk", {"tuples": [[0, 1]]})):
        reply = client.post(f"/api/{path}", json=question | more)
        assert reply.status_code == 400 and "not a finite number" in reply.json()["error"]


def test_molecules_from_a_file_come_with_their_targets(runs, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text("smiles,oxygens\nCCO,1.5\nC(,1\nCCC,unknown\nCCCC,2.5,shifted\n")
    with TestClient(make_app(runs, path), base_url="http://localhost") as client:
        facts = good(client.get("/api/gallery", params={"run": "mine"}))
        assert facts["titles"] == ["CCO", "CCC"] and facts["left_out"] == 2
        first = good(client.get("/api/graph", params={"run": "mine", "graph": 0}))
        second = good(client.get("/api/graph", params={"run": "mine", "graph": 1}))
        assert first["target"] == [1.5] and second["target"] is None
        assert good(client.post("/api/start", json={"run": "mine", "graph": 0}))["score"] <= 0


def test_a_fitted_model_shows_molecules_of_its_test_split(runs, tmp_path):
    shutil.copytree(runs / "mine", tmp_path / "mine")
    rows = training_rows(["CCO", "CCC", "OCCO"], ["oxygens"], np.array([[1.5], [np.nan], [2.5]]), (), np.arange(3), 2)
    write_training_rows(tmp_path / "mine", rows, TEST_FILE)
    with TestClient(make_app(tmp_path), base_url="http://localhost") as client:
        facts = good(client.get("/api/gallery", params={"run": "mine"}))
        assert facts["titles"] == ["CCO", "OCCO"] and facts["left_out"] == 0  # two rows, spread over the table
        first = good(client.get("/api/graph", params={"run": "mine", "graph": 0}))
        assert first["target"] == [1.5] and first["note"] == "A molecule of the test split."
        assert good(client.post("/api/start", json={"run": "mine", "graph": 1}))["score"] <= 0
    (tmp_path / "mine" / TEST_FILE).rename(tmp_path / "elsewhere.csv")
    (tmp_path / "mine" / TEST_FILE).symlink_to(tmp_path / "elsewhere.csv")
    with TestClient(make_app(tmp_path), base_url="http://localhost") as client:
        assert good(client.get("/api/gallery", params={"run": "mine"}))["titles"] == []
    (tmp_path / "mine" / TEST_FILE).unlink()
    (tmp_path / "mine" / TEST_FILE).write_text("smiles,oxygens\nC\n")
    with TestClient(make_app(tmp_path), base_url="http://localhost") as client:
        assert "test_molecules.csv: damaged" in client.get("/api/gallery", params={"run": "mine"}).json()["error"]


def test_what_is_said_of_a_model_is_what_explain_says(client, runs):
    mine = good(client.get("/api/gallery", params={"run": "mine"}))
    told = read_subject(runs / "mine", "CCO")
    assert mine["notes"] == list(told.notes) and "cycles6" in mine["notes"][0] and mine["names"] == ["oxygens"]
    assert mine["score_unit"] == "in units of the target's spread" and mine["most_moves"] == 64
    marks = good(client.get("/api/gallery", params={"run": "marks"}))
    assert marks["score_unit"] == "" and marks["notes"] == []
    assert marks["names"] == list(read_subject(runs / "marks", "0").classes)


def test_names_of_numbers_and_classes_are_those_of_explain(tmp_path, small_runs, monkeypatch):
    data = small_runs.large_graphs(tmp_path / "unnamed.npz", 20)
    small_runs.trained(tmp_path / "runs" / "unnamed", small_runs.tiny_config(str(data), steps=2))
    client = TestClient(make_app(tmp_path / "runs"), base_url="http://127.0.0.1")
    names = good(client.get("/api/gallery", params={"run": "unnamed"}))["names"]
    assert names == ["0", "1"] == list(read_subject(tmp_path / "runs" / "unnamed", "0").outputs)


def test_scores_are_those_of_explain(tmp_path):
    words = ["with", "without", "without", "with", "with", "without", "with", "with"]
    smiles = ["CCO", "CCCC", "c1ccccc1", "CCOC", "OCCO", "CCCCC", "CO", "CC(C)O"]
    fitted = MagClassifier(steps=2).fit(smiles, words).fitted_
    config = fitted.config.replaced(training={"reward": "error"})
    fitted_models.FittedModel(fitted.model, config, fitted.facts).save(tmp_path / "model")
    table = tmp_path / "some.csv"
    table.write_text(f"smiles,{fitted.facts.targets[0]}\nCCO,with\n")
    client = TestClient(make_app(tmp_path / "model", table), base_url="http://127.0.0.1")
    start = good(client.post("/api/start", json={"run": "model", "graph": 0}))
    explained = explain_subject(read_subject(tmp_path / "model", "CCO", ["with"]), num_moves=0).agent.steps[0]
    assert start["tuples"] == explained.tuples and start["score"] == pytest.approx(explained.score, rel=1e-5)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "the request is not JSON: Expecting property name"),
        (b"", "the request: "),
        (b"[1]", "the request: "),
        (b"3", "the request: "),
        (b"\xff\xfe{", "There was an error parsing the body"),
    ],
)
def test_a_question_that_is_none_gets_one_line(client, body, words):
    reply = client.post("/api/place", content=body, headers={"content-type": "application/json"})
    assert reply.status_code in (400, 422) and "\n" not in reply.text
    assert reply.json()["error"].startswith(words), reply.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"tuples": [[0]]},
        {"tuples": [[0, 99]]},
        {"tuples": [[-1, 0]]},
        {"tuples": [[0, 1], [2]]},
        {"tuples": []},
        {"tuples": [[0, "x"]]},
        {"tuples": [[0] * 17]},
        {"graph": 99},
        {"graph": -1},
        {"run": "../.."},
        {"run": "mine/../marks"},
        {"moves": 10_000},
        {"policy": "cheat"},
    ],
)
def test_wrong_questions_get_one_line(client, wrong):
    reply = client.post("/api/walk", json={"run": "marks", "graph": 0, "tuples": [[0, 1]], **wrong})
    assert reply.status_code in (400, 422)
    assert reply.json()["error"] and "\n" not in reply.json()["error"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "localhost:9000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"host": "evil.example:8000"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "192.168.0.7:8000"}, 403),
        ({"host": "["}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({"content-length": "9999999"}, 413),
    ],
)
def test_only_the_page_itself_may_ask(client, headers, status):
    body = json.dumps({"run": "marks", "graph": 0, "tuples": [[0, 1]]})
    reply = client.post("/api/place", content=body, headers={"content-type": "application/json", **headers})
    assert reply.status_code == status
    if status == 403 and "origin" not in headers:
        assert client.get("/api/runs", headers=headers).status_code == 403


def test_open_to_others_means_plain_addresses_alone(runs):
    client = TestClient(make_app(runs, host="0.0.0.0"), base_url="http://192.168.0.7:8000")
    assert client.get("/api/runs").status_code == 200
    assert client.get("/api/runs", headers={"host": "evil.example"}).status_code == 403


def test_chunks_without_a_length_and_other_methods_are_refused(client):
    assert client.post("/api/place", content=iter([b"{}"])).status_code == 411
    assert client.delete("/api/runs").status_code == 405


@pytest.mark.parametrize("path", ["/page.py", "/../server.py", "/%2e%2e/server.py", "/docs", "/openapi.json", "/page/"])
def test_nothing_else_is_served(client, path):
    assert client.get(path).status_code == 404


def test_the_page_loads_nothing_from_elsewhere(client):
    page = client.get("/")
    assert page.headers["content-security-policy"].startswith("default-src 'none'")
    for name in ("", "page.css", "page.js", "asking.js", "curves.js", "picture.js", "playing.js", "answers.js"):
        text = client.get(f"/{name}").text
        assert text and not [word for word in ("https://", "//cdn") if word in text]


def test_folders_that_cannot_be_shown(tmp_path, runs):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    for folder, words in (
        (tmp_path / "absent", "no such folder"),
        (tmp_path / "file", "a file"),
        (tmp_path / "empty", "contains no run"),
    ):
        with pytest.raises(InputError, match=words):
            make_app(folder)
    (tmp_path / "damaged").mkdir()
    whole = (runs / "marks" / "model.safetensors").read_bytes()
    (tmp_path / "damaged" / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="truncated or damaged"):
        make_app(tmp_path / "damaged")
    with pytest.raises(InputError, match="--molecules is for"):
        make_app(runs / "marks", tmp_path / "file")
    with pytest.raises(InputError, match="no such file"):
        make_app(runs / "mine", tmp_path / "absent.smi")


def test_a_run_and_a_folder_in_it_may_have_one_name(tmp_path, runs):
    root = tmp_path / "runs"
    shutil.copytree(runs / "marks", root / "runs" / "runs")
    assert list(find_runs(root)) == ["runs/runs"]
    shutil.copy(runs / "marks" / "model.safetensors", root)
    shutil.copy(runs / "marks" / "model.safetensors", root / "runs")
    found = find_runs(root)
    assert {name: run.folder for name, run in found.items()} == {
        ".": root, "runs": root / "runs", "runs/runs": root / "runs" / "runs"
    }  # fmt: skip
    assert all(name == run.name for name, run in found.items())
    assert list(find_runs(root / "runs" / "runs")) == ["runs"]


def test_links_do_not_lead_outside(tmp_path, runs):
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "metrics.jsonl").write_text("")
    (tmp_path / "outside").symlink_to(runs / "marks")
    assert list(find_runs(tmp_path)) == ["inside"]


def test_names_that_are_not_utf_8_are_shown_with_escapes(tmp_path):
    folder = tmp_path / "lat\udcff1"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text('{"phase": 0, "step": 0, "\\ud800": 1.0}\n')
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    (run,) = good(client.get("/api/runs"))["runs"]
    assert run["name"] == "lat\\udcff1"
    assert good(client.get("/api/run", params={"run": run["name"]}))["logged"]
    found = good(client.get("/api/metrics", params={"run": run["name"]}))
    assert found["lines"] == [{"phase": 0, "step": 0, "\\ud800": 1.0}]


def test_a_log_that_is_a_pipe_a_device_or_a_folder_is_not_read(tmp_path, runs):
    for name in ("pipe", "device", "folder"):
        shutil.copytree(runs / "marks", tmp_path / name)
        (tmp_path / name / "metrics.jsonl").unlink()
    os.mkfifo(tmp_path / "pipe" / "metrics.jsonl")
    (tmp_path / "device" / "metrics.jsonl").symlink_to("/dev/zero")
    (tmp_path / "folder" / "metrics.jsonl").mkdir()
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    for run in good(client.get("/api/runs"))["runs"]:
        assert run["stage"] == "finished"
        found = good(client.get("/api/metrics", params={"run": run["name"]}))
        assert not found["lines"] and not found["more"]


def test_what_may_not_be_read_does_not_hide_other_runs(tmp_path, runs, monkeypatch):
    """Permissions do not stop the superuser, so they are simulated."""
    for name in ("closed", "mine"):
        shutil.copytree(runs / "mine", tmp_path / name)
    (tmp_path / "mine" / "README.md").write_text("# Card")
    stat, read = Path.stat, Path.read_bytes

    def checked_stat(path, **options):
        if path.parent.name == "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    def checked_read(path):
        if path.name == "README.md":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "stat", checked_stat)
    monkeypatch.setattr(Path, "read_bytes", checked_read)
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    assert [run["name"] for run in good(client.get("/api/runs"))["runs"]] == ["mine"]
    reply = client.get("/api/card", params={"run": "mine"})
    assert reply.status_code == 400 and "README.md: cannot be read (Permission denied)" in reply.json()["error"]


def test_a_damaged_run_among_others_is_one_line(tmp_path, runs):
    shutil.copytree(runs / "marks", tmp_path / "whole")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"nothing")
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    assert "damaged" in client.get("/api/gallery", params={"run": "damaged"}).json()["error"]
    assert good(client.get("/api/gallery", params={"run": "whole"}))["titles"]


def test_a_model_is_loaded_once_and_few_are_kept(runs, monkeypatch):
    opened = []
    real = shelves.open_gallery
    monkeypatch.setattr(shelves, "open_gallery", lambda run, *rest: opened.append(run.name) or real(run, *rest))
    shelf = Shelf()
    names = [Run(f"run {number}", runs / "marks") for number in range(shelves.MOST_OPEN + 1)]
    threads = [threading.Thread(target=shelf.gallery, args=(names[0],)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert opened == ["run 0"]
    for run in names[1:]:
        shelf.gallery(run)
    assert len(shelf._open) == shelves.MOST_OPEN
    shelf.gallery(names[0])
    assert opened[-1] == "run 0"


def test_what_was_typed_in_stays_when_a_gallery_makes_room(runs):
    shelf, run = Shelf(), Run("mine", runs / "mine")
    shelf.add(run, "CCO")
    shelf._open.clear()
    assert shelf.gallery(run).facts()["titles"] == ["CCO"]


def test_the_card_of_a_fitted_model(runs, tmp_path):
    shutil.copytree(runs / "mine", tmp_path / "mine")
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    assert not good(client.get("/api/run", params={"run": "mine"}))["card"]
    assert "no card" in client.get("/api/card", params={"run": "mine"}).json()["error"]
    (tmp_path / "mine" / "README.md").write_text("# A card\n", encoding="utf-8")
    (tmp_path / "mine" / "test.png").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    assert good(client.get("/api/run", params={"run": "mine"}))["card"]
    assert good(client.get("/api/card", params={"run": "mine"})) == {"text": "# A card\n", "picture": True}
    picture = client.get("/api/card-picture", params={"run": "mine"})
    assert picture.headers["content-type"] == "image/png" and picture.content.endswith(b"rest")
    (tmp_path / "mine" / "test.png").write_bytes(b"<svg onload=alert()>")
    assert "no picture" in client.get("/api/card-picture", params={"run": "mine"}).json()["error"]


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege on Windows")
def test_a_card_that_leads_elsewhere_is_not_shown(runs, tmp_path):
    shutil.copytree(runs / "mine", tmp_path / "runs" / "mine")
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "runs" / "mine" / "README.md").symlink_to(tmp_path / "secret.txt")
    client = TestClient(make_app(tmp_path / "runs"), base_url="http://127.0.0.1")
    assert not good(client.get("/api/run", params={"run": "mine"}))["card"]
    assert "no card" in client.get("/api/card", params={"run": "mine"}).json()["error"]
