"""`maggnn explain` as people run it: what it prints and writes, and one line for each mistake."""

import json
import shutil
from functools import partial

import networkx as nx
import numpy as np
import pytest

from damage import without_answers
from maggnn import MagClassifier, MagRegressor
from maggnn import config as configs
from maggnn.training.run import train

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "OCCO", "CC(C)O", "NCCO"]
DEMO = "demo_shrikhande_rook"
FEW = ["training.predictor_steps=3", "training.agent_steps=3", "training.starts_per_graph=4"]
PLAIN = ["agent.tuple_order=0", "agent.num_moves=0", "training.agent_steps=0", "training.predictor_steps=3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Models from SMILES and from graphs, runs with and without marks, and files that are mistakes."""
    folder = tmp_path_factory.mktemp("explain")
    oxygens = [smiles.count("O") for smiles in SMILES]
    MagRegressor(steps=2).fit(SMILES, [[count, -count] for count in oxygens]).fitted_.save(folder / "numbers")
    MagClassifier(steps=2).fit(SMILES, ["yes" if count else "no" for count in oxygens]).fitted_.save(folder / "words")
    rings = [make(size) for size in range(4, 8) for make in (nx.cycle_graph, nx.path_graph)]
    MagClassifier(steps=2).fit(rings, ["ring", "chain"] * 4).fitted_.save(folder / "rings")
    train(configs.load(DEMO).with_settings(FEW), folder / "run", quiet=True)
    train(configs.load(DEMO).with_settings(PLAIN), folder / "plain", quiet=True)
    (folder / "empty").mkdir()
    shutil.copytree(folder / "words", folder / "cut")
    whole = (folder / "cut" / "model.safetensors").read_bytes()
    (folder / "cut" / "model.safetensors").write_bytes(whole[:-50])
    (folder / "molecules.smi").write_text("CCO\n")
    (folder / "text").write_text("not a folder")
    edges = np.stack([np.arange(1200), np.arange(1, 1201)])
    np.savez(folder / "long.npz", num_nodes=[1201], num_edges=[1200], edge_index=edges)
    return folder


@pytest.fixture
def maggnn(call_command, folder):
    """Run the command in that folder."""
    return partial(call_command, "maggnn", "explain", cwd=folder)


def test_a_page_by_default(maggnn, folder):
    code, out, err = maggnn("words", "OCCc1ccccc1")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].split() == ["moves", "marks", "answer", "expected", "gain", "random", "moves", "answer"]
    assert lines[1].startswith("0") and lines[2].startswith("1") and "p(" in lines[1] and "(C" in lines[1]
    assert lines[-1] == "explain.html"
    assert (folder / "explain.html").read_text().startswith("<!DOCTYPE html>")


def test_several_files_and_json(maggnn, folder):
    arguments = ("numbers", "CC(=O)OC", "--target", "2", "--target", "-2", "--moves", "2", "--json")
    code, out, err = maggnn(*arguments, "-o", "a.svg", "-o", "a.png", "-o", "a.html")
    assert code == 0, err
    facts = json.loads(out)
    assert facts["out"] == ["a.svg", "a.png", "a.html"] and all((folder / name).stat().st_size for name in facts["out"])
    assert facts["target"] == [2.0, -2.0] and facts["outputs"] == ["y0", "y1"]
    assert [len(step["answer"]) for step in facts["agent"]["steps"]] == [2, 2, 2]
    assert all(step["score"] <= 0 for step in facts["agent"]["steps"])
    assert facts["agent"]["policy"] == "agent" and facts["random"][0]["policy"] == "random moves"


def test_a_molecule_of_a_fitted_model_has_its_property_explained(maggnn, folder):
    _, out, err = maggnn("numbers", "CC(=O)OC", "-o", "a.html")
    assert "atoms that contribute most" in out and "masking" in out, err
    text = (folder / "a.html").read_text()
    assert "contribution to y0" in text and "Where the marks moved" in text and "no known_molecules.csv" in text
    facts = json.loads(maggnn("numbers", "CC(=O)OC", "-o", "a.svg", "--json").out)
    assert facts["property"]["atoms"] == ["C", "C", "O", "O", "C"]
    assert [len(entry["values"]) for entry in facts["property"]["contributions"]] == [5, 5]


def test_several_molecules_and_a_table_share_a_page(maggnn, folder):
    code, out, err = maggnn("words", "CCO", "c1ccccc1C", "-o", "two.html")
    assert code == 0 and (folder / "two.html").read_text().count("<article>") == 2, err
    assert out.splitlines()[-1] == "two.html" and "moves" not in out.splitlines()[0]
    (folder / "few.csv").write_text("id,molecule\n1,CCO\n2,C1CC(\n3,CCN\n")
    facts = json.loads(maggnn("words", "few.csv", "--smiles", "molecule", "-o", "few.html", "--json").output())
    assert [one["smiles"] for one in facts["molecules"]] == ["CCO", "CCN"] and facts["left_out"][0][0] == "C1CC("
    assert "C1CC(" in (folder / "few.html").read_text()


def test_one_atom_has_a_prediction_and_marks_that_cannot_move(maggnn, folder):
    """It is a molecule that `maggnn predict` answers, and it does not keep others from being explained."""
    for name in ("one.html", "one.svg", "one.png"):
        out = maggnn("numbers", "[Na+]", "-o", name).output()
        assert "cannot move" in out and "single atom is 0" in out and (folder / name).stat().st_size
    facts = json.loads(maggnn("numbers", "C", "CCO", "[H+]", "-o", "some.html", "--json").output())
    assert [one["smiles"] for one in facts["molecules"]] == ["C", "CCO", "[H+]"] and not facts["left_out"]
    assert (folder / "some.html").read_text().count("cannot move") == 2
    assert "cannot move" in maggnn("rings", "@", "-o", "node.html").output()  # graph6 of one node


def test_a_dummy_atom_has_one_name(maggnn):
    out = maggnn("numbers", "*CC", "-o", "dummy.html").output()
    assert "*0" in out and "?0" not in out


def test_a_run_by_number_and_by_its_file(maggnn):
    code, out, err = maggnn("run", "0", "-o", "run.html")
    assert code == 0 and "score" in out, err
    assert maggnn("run/model.safetensors", "0", "-o", "run.html")[1] == out


def test_an_unseen_element_and_the_unit_of_scores(maggnn):
    code, out, err = maggnn("numbers", "BrCCBr", "--target", "0", "--target", "0", "--moves", "0", "--json")
    assert code == 0 and sorted(json.loads(out)["graph"]["labels"]) == ["Br", "Br", "C", "C"], err
    _, out, _ = maggnn("numbers", "BrCCBr", "--target", "0", "--target", "0")
    assert "Scores are in units of each target's spread." in out.splitlines()


def test_a_file_that_is_there_is_replaced_and_help_says_so(maggnn, folder):
    (folder / "old.svg").write_text("old")
    assert maggnn("words", "CCO", "-o", "old.svg")[0] == 0 and (folder / "old.svg").read_text().startswith("<svg")
    assert "replaces an existing file" in " ".join(maggnn("--help")[1].replace("│", " ").split())


@pytest.mark.parametrize("name", ["numbers", "words"])
def test_an_answer_that_is_no_number_is_not_shown(maggnn, folder, name, tmp_path):
    shutil.copytree(folder / name, tmp_path / "wild")
    without_answers(tmp_path / "wild")
    line = maggnn(tmp_path / "wild", "CCO", "-o", "wild.html").mistake()
    assert line == "maggnn: no prediction for this graph: the model's answer is not a finite number"
    assert not (folder / "wild.html").exists()


def test_seeds(maggnn):
    first, again, other = (maggnn("run", "0", "-o", "seed.svg", "--seed", seed)[1] for seed in "112")
    assert first == again != other


MISTAKES = {
    "no such folder": (("absent", "CCO"), ["absent", "no such model folder"]),
    "no model in it": (("empty", "CCO"), ["empty/model.safetensors", "no such file"]),
    "not a model": (("text", "CCO"), ["text", "damaged"]),
    "truncated": (("cut", "CCO"), ["cut/model.safetensors", "truncated"]),
    "not SMILES": (("words", "C1CC("), ["'C1CC('", "not a SMILES string"]),
    "impossible atom": (("words", "C(C)(C)(C)(C)C"), ["valence"]),
    "empty SMILES": (("words", ""), ["no atoms"]),
    "without marks": (("plain", "0"), ["plain", "(k = 0) has no marks to explain"]),
    "unknown ending": (("words", "CCO", "-o", "it.pdf"), ["it.pdf", ".html, .svg, .png"]),
    "no ending": (("words", "CCO", "-o", "it"), ["it:", ".html"]),
    "unwritable": (("words", "CCO", "-o", "text/it.html"), ["text/it.html", "cannot be written"]),
    "a folder in the way": (("words", "CCO", "-o", "folder.svg"), ["folder.svg", "cannot be written"]),
    "unknown class": (("words", "CCO", "--target", "maybe"), ["'maybe'", "no, yes"]),
    "two classes": (("words", "CCO", "--target", "no", "--target", "yes"), ["2 times", "one class"]),
    "one of two targets": (("numbers", "CCO", "--target", "1"), ["1 times", "2 targets (y0, y1)"]),
    "not a number": (("numbers", "CCO", "--target", "1", "--target", "many"), ["'many'", "not a number"]),
    "NaN": (("numbers", "CCO", "--target", "nan", "--target", "1"), ["'nan'", "not a number"]),
    "no such graph": (("run", "2"), ["graph 2", "graphs 0 to 1"]),
    "not graph6": (("run", "what is this?"), ["'what is this?'", "neither graph6 nor a file"]),
    "SMILES for graphs": (("rings", "c1ccccc1O"), ["neither graph6 nor a file"]),
    "a number for graphs": (("rings", "3"), ["graph 3", "does not keep them"]),
    "features": (("run", "molecules.smi"), ["node features of no columns", "9 integer columns"]),
    "features of fitted": (("rings", "molecules.smi"), ["node features of no columns", "9 integer columns"]),
    "no such file": (("run", "absent.g6"), ["no file absent.g6"]),
    "too large": (("run", "long.npz"), ["long.npz", "1201 nodes"]),
    "moves": (("words", "CCO", "--moves", "-1"), ["--moves"]),
    "too many moves": (("words", "CCO", "--moves", "65"), ["65 moves", "at most 64"]),
    "no graph": (("words",), ["graph"]),
    "a picture of several": (("words", "CCO", "CCN", "-o", "it.png"), ["it.png", "a page"]),
    "targets of several": (("words", "CCO", "CCN", "--target", "yes"), ["--target", "one molecule"]),
    "one of several is wrong": (("words", "CCO", "C1CC("), ["'C1CC('", "not a SMILES string"]),
    "several graphs of a run": (("run", "0", "1"), ["run", "give one graph"]),
    "no such table": (("words", "absent.csv", "--smiles", "smiles"), ["absent.csv", "no such file"]),
}


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_get_one_line(maggnn, folder, arguments, expected):
    (folder / "folder.svg").mkdir(exist_ok=True)
    line = maggnn(*arguments).mistake()
    assert all(part in line for part in expected), line
    assert not list(folder.glob(".*.tmp")) and not list(folder.glob("it*"))
