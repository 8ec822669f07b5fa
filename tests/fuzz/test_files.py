"""Files of graphs and folders of models as commands meet them: the right verdict, or one line and nothing changed."""

import io
import json
import shutil
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import strategies as st

from damage import FACTS, damaged
from hostile import few_and_many, fuzz
from maggnn import MagClassifier, MagRegressor
from maggnn.graphs.conversions import pack_networkx, to_graph6, to_pyg

SMILES = ["CCO", "CC", "OCCO", "c1ccccc1", "CCCC", "CO", "OCC(O)CO", "C1CCCCC1", "CCN", "CC=O"]
ROUNDS = 8
"""Of colour refinement: more than graphs of six nodes need."""


@st.composite
def small_graphs(draw: Any) -> nx.Graph:
    size = draw(st.integers(1, 6))
    pairs = [(u, v) for u in range(size) for v in range(u)]
    graph = nx.empty_graph(size)
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else [])
    return graph


def edge_list(graph: nx.Graph) -> str:
    return "".join(f"{node}\n" for node in graph) + "".join(f"{u} {v}\n" for u, v in graph.edges)


def check_pair(kept, folder: Path, pair: tuple[nx.Graph, nx.Graph]) -> None:
    """What NetworkX finds by colour refinement and by search for an isomorphism, the command finds too."""
    for name, graph in zip("ab", pair, strict=True):
        (folder / f"{name}.edges").write_text(edge_list(graph))
    ended = kept("distinguish", "a.edges", "b.edges", "--order", 1, "--json", cwd=folder)
    facts = json.loads(ended.output().splitlines()[-1])
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # about hashes of other versions
        first, second = (nx.weisfeiler_lehman_graph_hash(graph, iterations=ROUNDS) for graph in pair)
    assert (facts["differ"] and facts["order"] == 0) == (first != second or len(pair[0]) != len(pair[1]))
    assert not (facts["differ"] and nx.is_isomorphic(*pair))


@few_and_many(40, 400)
def test_what_distinguish_says_of_two_graphs(kept, tmp_path, examples):
    fuzz(st.tuples(small_graphs(), small_graphs()), partial(check_pair, kept, tmp_path), examples)


def whole_files() -> dict[str, bytes]:
    """A sound file of each kind."""
    graphs = [nx.cycle_graph(6), nx.path_graph(5)]
    packed = pack_networkx(graphs)
    arrays, tensors = io.BytesIO(), io.BytesIO()
    edges = np.concatenate([np.array(graph.edges).T for graph in graphs], axis=1)
    np.savez(arrays, num_nodes=[6, 5], num_edges=[6, 4], edge_index=edges)
    torch.save(to_pyg(packed), tensors)
    return {
        ".g6": "\n".join(to_graph6(packed)).encode(),
        ".smi": b"C1CCCCC1 cyclohexane\nCCO\n",
        ".csv": b"id,SMILES\n1,C1CCCCC1\n2,CCO\n",
        ".edges": b"# a path\na b\nb c\nd\n",
        ".npz": arrays.getvalue(),
        ".pt": tensors.getvalue(),
    }


WHOLE = whole_files()


@st.composite
def files(draw: Any) -> tuple[str, bytes]:
    """A file of some kind, some of its bytes changed, or the content of another kind, or no content at all."""
    ending = draw(st.sampled_from([*WHOLE]))
    content = WHOLE[draw(st.sampled_from([ending] * 6 + [*WHOLE]))]
    for _ in range(draw(st.integers(0, 3))):
        first = draw(st.integers(0, len(content)))
        content = content[:first] + draw(st.binary(max_size=4)) + content[first + draw(st.integers(0, 40)) :]
    return ending, draw(st.sampled_from([content] * 9 + [b""]))


def check_file(kept, folder: Path, file: tuple[str, bytes]) -> None:
    ending, content = file
    (folder / f"graphs{ending}").write_bytes(content)
    ended = kept("distinguish", f"graphs{ending}", "--order", 1, "--json", cwd=folder)
    if ended.code == 0:
        assert json.loads(ended.out.splitlines()[-1])["kind"] in ("pair", "set")


@few_and_many(80, 800)
def test_any_bytes_in_a_file_of_graphs(kept, tmp_path, examples):
    fuzz(files(), partial(check_file, kept, tmp_path), examples)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models of molecules."""
    root = tmp_path_factory.mktemp("models")
    MagClassifier(steps=2).fit(SMILES, ["a", "b"] * 5).fitted_.save(root / "classes")
    MagRegressor(steps=2).fit(SMILES, list(range(10))).fitted_.save(root / "numbers")
    return root


COMMANDS = {
    "predict": ("predict", "../model", "t.csv", "--smiles", "smiles", "-o", "out.csv", "--overwrite"),
    "evaluate": ("evaluate", "../model", "t.csv", "--smiles", "smiles", "--workers", "1"),
    "explain": ("explain", "../model", "CCO", "-o", "out.html"),
    "export": ("export", "../model", "-o", "out.pt2", "--overwrite"),
}


READABLE = (21, 44)
"""Damage that leaves a folder readable: weights in double precision, a setting that has a default."""


def check_folder(kept, models: Path, root: Path, number: int) -> bool:
    """A folder that one command refuses, all refuse; where it is read (which is returned), the answers are numbers."""
    name, other = ("classes", "numbers") if number % 2 else ("numbers", "classes")
    model, place = root / "model", root / "place"
    for folder in (model, place):
        shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(models / name, model)
    place.mkdir()
    (place / "t.csv").write_text("smiles,y\nCCO,a\nCCC,b\n" if name == "classes" else "smiles,y\nCCO,1.5\nCCC,2\n")
    for out in ("out.csv", "out.html", "out.pt2"):
        (place / out).write_text("what was there")
    how = damaged(model, models / other, number)
    codes = {command: kept(*COMMANDS[command], cwd=place).code for command in ("predict", "evaluate", "explain")}
    if codes["predict"] == 2:
        assert codes["evaluate"] == 2, (how, codes)
        if (model / FACTS).is_symlink() or (model / FACTS).exists():  # else it may be a training run's folder
            assert kept(*COMMANDS["export"], cwd=place).code == 2, how
        return False
    header, *rows = (place / "out.csv").read_text().splitlines()
    assert header.startswith("smiles,y,predicted_") and len(rows) == 2
    for row in rows:
        predicted, *_, reason = row.split(",")[2:]
        assert predicted or "not a finite number" in reason, (how, row)
    return True


@pytest.mark.filterwarnings("ignore")
@few_and_many(14, 280)
def test_damaged_folders_through_commands(kept, models, tmp_path, examples):
    """Hypothesis could not make them smaller, so they are simply counted."""
    read = [check_folder(kept, models, tmp_path, number) for number in (*READABLE, *range(1000, 1000 + examples))]
    assert any(read) and not all(read)
