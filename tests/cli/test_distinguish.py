"""`maggnn distinguish` as people run it: all kinds of files, verdicts, pictures, and one-line errors."""

import json

import networkx as nx
import numpy as np
import pytest
import torch

from maggnn.data import DATASETS, Dataset, DatasetEntry
from maggnn.data.synthetic.expressivity import shrikhande_rook, sr25
from maggnn.graphs.conversions import pack_networkx, to_graph6, to_pyg

HEXAGON, TRIANGLES = nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))


@pytest.fixture
def maggnn(call_command, tmp_path):
    """Run the command in an empty folder."""

    def run(*arguments):
        return call_command("maggnn", "distinguish", *arguments, cwd=tmp_path)

    run.folder = tmp_path
    return run


def facts(maggnn, *arguments):
    return json.loads(maggnn(*arguments, "--json").output().splitlines()[-1])


def edge_list(graph):
    return "".join(f"{u} {v}\n" for u, v in graph.edges)


def save_pair(folder, ending):
    """A hexagon and two triangles in one file of each kind that holds several graphs."""
    path, packed = folder / f"pair{ending}", pack_networkx([HEXAGON, TRIANGLES])
    if ending == ".g6":
        path.write_text("\n".join(to_graph6(packed)) + "\n")
    elif ending in (".smi", ".txt"):
        path.write_text("C1CCCCC1 cyclohexane\n\nC1CC1.C1CC1 two rings\n")
    elif ending == ".csv":
        path.write_text("id,SMILES\n1,C1CCCCC1\n2,C1CC1.C1CC1\n")
    elif ending == ".pt":
        torch.save(to_pyg(packed), path)
    else:
        edges = np.concatenate([np.array(graph.edges).T for graph in (HEXAGON, TRIANGLES)], axis=1)
        np.savez(path, num_nodes=[6, 6], num_edges=[6, 6], edge_index=edges)
    return path


@pytest.mark.parametrize("ending", [".g6", ".smi", ".txt", ".csv", ".npz", ".pt"])
def test_two_graphs_of_a_file(maggnn, ending):
    found = facts(maggnn, save_pair(maggnn.folder, ending))
    assert found["kind"] == "pair" and found["differ"] and found["order"] == 1
    assert found["witness"] == [0] and found["share"] == 1.0


def test_two_edge_lists_with_a_picture(maggnn):
    (maggnn.folder / "one.edges").write_text("# a hexagon\n" + edge_list(HEXAGON))
    (maggnn.folder / "two.edges").write_text(edge_list(TRIANGLES))
    code, out, _ = maggnn("one.edges", "two.edges", "-o", "pictures/pair.png")
    assert code == 0
    cannot, differ, picture = out.splitlines()
    assert cannot.startswith("order 0: message passing without marks cannot")
    assert differ.startswith("order 1: they differ; marks on nodes (0) of the first graph")
    assert (maggnn.folder / picture).read_bytes().startswith(b"\x89PNG")


def test_what_two_marks_tell_and_one_cannot(maggnn):
    code, out, _ = maggnn("shrikhande_rook", "-o", "pair.png")
    assert code == 0 and (maggnn.folder / "pair.png").stat().st_size > 10_000
    assert "order 1: no tuples of 1 mark can distinguish them (equal multisets of 16 marked copies)" in out
    assert "order 2: they differ; marks on nodes (0, 1) of the first graph" in out and "75.0%" in out
    _, out, _ = maggnn("shrikhande_rook", "--order", "1")
    assert out.splitlines()[-1] == "not distinguished by up to 1 mark; a larger --order may"


def test_isomorphic_graphs(maggnn):
    (maggnn.folder / "one.edges").write_text("a b\nb c\nc d\n")
    (maggnn.folder / "two.edges").write_text("c a\nd b\na d\n")
    code, out, _ = maggnn("one.edges", "two.edges", "-o", "same.png")
    assert code == 0 and "isomorphic" in out and (maggnn.folder / "same.png").exists()


def test_a_byte_order_mark_belongs_to_no_name(maggnn):
    (maggnn.folder / "one.edges").write_text("a b\nb c\nc a\n", encoding="utf-8-sig")
    (maggnn.folder / "two.edges").write_text("a b\nb c\nc a\n")
    assert facts(maggnn, "one.edges", "two.edges")["isomorphic"]
    (maggnn.folder / "pair.g6").write_text("Bw\nBw\n", encoding="utf-8-sig")
    assert facts(maggnn, "pair.g6")["isomorphic"]


def test_a_node_without_edges(maggnn):
    (maggnn.folder / "one.edges").write_text("a b\nc\n")
    (maggnn.folder / "two.edges").write_text("a b\nb c\n")
    assert facts(maggnn, "one.edges", "two.edges")["order"] == 0


def test_files_line_by_line(maggnn):
    graphs = to_graph6(sr25())
    (maggnn.folder / "first.g6").write_text("\n".join(graphs[:3]))
    (maggnn.folder / "second.g6").write_text("\n".join([graphs[3], graphs[1], graphs[4]]))
    found = facts(maggnn, "first.g6", "second.g6")
    assert found["kind"] == "pairs" and [pair["differ"] for pair in found["pairs"]] == [True, False, True]
    assert found["counts"]["all"] == {"pairs": 3, "k = 0": 0, "k = 1": 0, "k = 2": 2, "by one tuple": 2}
    _, out, _ = maggnn("first.g6", "second.g6")
    assert out.splitlines()[2].split()[:2] == ["1", "isomorphic"]


def test_a_set_of_graphs(maggnn):
    found = facts(maggnn, "sr25")
    assert found["kind"] == "set" and [level["classes"] for level in found["levels"]] == [1, 1, 15]
    assert found["tuple_order"] == 2 and found["together"] == []
    _, out, _ = maggnn("sr25", "--order", "1")
    assert "together: graphs 0 1 2" in out and "try a larger order" in out
    _, out, _ = maggnn("csl")
    assert "suggestion: m = 1, k = 1, t = 0" in out


def test_a_set_of_pairs_is_compared_by_category(maggnn, monkeypatch):
    graphs = pack_networkx([HEXAGON, TRIANGLES, HEXAGON, HEXAGON, *[HEXAGON, TRIANGLES] * 2], y=[0, 1] * 4)
    categories = {"category_names": np.array(["mixed", "told"]), "pair_category": np.array([0, 0, 1, 1])}
    pairs = Dataset("pairs", graphs, "classification", 2, lambda *_: [], extra=categories)
    monkeypatch.setitem(DATASETS, "pairs", DatasetEntry("pairs of rings", 8, "generated", lambda: pairs))
    table = {row.split()[0]: row.split()[1:] for row in maggnn("pairs", "--order", "1").output().splitlines()}
    assert table["mixed"] == ["2", "0", "1", "1"] and table["told"] == ["2", "0", "2", "2"] and table["all"][0] == "4"
    assert "pairs: 8, k = 0: 0" in maggnn("pairs", "pairs", "--order", "0").output()


@pytest.mark.slow
@pytest.mark.dataset
def test_brec_by_category(maggnn, packed_data):
    code, out, _ = maggnn("brec", "--order", "1")
    table = {row.split()[0]: row.split()[1:] for row in out.splitlines()}
    assert code == 0 and table["cfi"] == ["100", "0", "41", "41"] and table["all"] == ["400", "0", "251", "251"]


BAD_FILES = {
    "cut.g6": "D",
    "empty.g6": "",
    "bad.smi": "CCO\nC1CC\n",
    "none.csv": "id,name\n1,water\n",
    "long.edges": "a b c\n",
    "commas.edges": "a,b\nb,c\n",
    "semicolons.edges": "a; b\n",
    "empty.edges": "# nothing\n",
    "text.npz": "no archive",
    "text.pt": "no archive",
    "graph.xyz": "",
}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cut.g6", "cut.g6: line 1 is not graph6"),
        ("empty.g6", "no graphs"),
        ("bad.smi", "molecule 2 (C1CC)"),
        ("none.csv", "no column 'smiles'"),
        ("long.edges", "line 1 has 3 names"),
        ("commas.edges", "line 1 has ',': names are separated by blanks"),
        ("semicolons.edges", "line 1 has ';': names are separated by blanks"),
        ("empty.edges", "has no nodes"),
        ("text.npz", "cannot be read"),
        ("text.pt", "cannot be read safely"),
        ("graph.xyz", "the suffix of the name"),
        ("missing.g6", "no file missing.g6"),
        ("sr52", "did you mean"),
    ],
)
def test_bad_files(maggnn, name, words):
    if name in BAD_FILES:
        (maggnn.folder / name).write_text(BAD_FILES[name])
    assert words in maggnn(name).mistake()


def test_a_pickle_runs_nothing(maggnn):
    class Trap:
        def __reduce__(self):
            return print, ("caught",)

    torch.save([Trap()], maggnn.folder / "trap.pt")
    torch.save({"weights": torch.ones(2)}, maggnn.folder / "weights.pt")
    assert "cannot be read safely" in maggnn("trap.pt").mistake()
    assert "contains no PyG graphs" in maggnn("weights.pt").mistake()


def test_what_does_not_fit_together(maggnn):
    (maggnn.folder / "one.edges").write_text(edge_list(HEXAGON))
    (maggnn.folder / "one.smi").write_text("C1CCCCC1\n")
    (maggnn.folder / "two.g6").write_text("\n".join(to_graph6(shrikhande_rook())))
    for arguments, words in {
        ("one.edges",): "has one graph",
        ("one.edges", "two.g6"): "1 and 2 graphs",
        ("one.edges", "one.smi"): "x has 0 and 9 columns",
        ("sr25", "-o", "all.png"): "a picture shows two graphs",
    }.items():
        assert words in maggnn(*arguments).mistake(), arguments


# ---- proofs with the tuples of an agent -----------------------------------------------------------------


@pytest.mark.parametrize("agent", ["greedy", "sr25"])
def test_a_proof_that_graphs_differ(maggnn, agent):
    _, out, _ = maggnn("shrikhande_rook", "--agent", agent)
    differ, proof = out.splitlines()
    assert differ.startswith("order 2: they differ; marks on nodes (") and "no counterpart in the" in differ
    assert proof.startswith("proof: ") and "candidates tried" in proof
    found = facts(maggnn, "shrikhande_rook", "--agent", agent)
    assert found["kind"] == "proof" and found["verdict"] == "differ" and len(found["witness"]) == 2


def test_proofs_without_marks_and_of_isomorphism(maggnn):
    (maggnn.folder / "one.edges").write_text("a b\nb c\nc d\nd a\n")
    (maggnn.folder / "two.edges").write_text("c a\nd b\na d\nb c\n")
    (maggnn.folder / "star.edges").write_text("c a\nc b\nc d\nc c\n")
    found = facts(maggnn, "one.edges", "two.edges", "--agent", "greedy", "--order", "3")
    assert found["verdict"] == "isomorphic" and sorted(found["mapping"]) == [0, 1, 2, 3]
    assert "they are isomorphic" in maggnn("one.edges", "two.edges", "--agent", "greedy", "--order", "3").output()
    assert "order 0: they differ" in maggnn("one.edges", "star.edges", "--agent", "greedy").output()


def test_no_proof_is_undecided(maggnn):
    code, out, _ = maggnn("shrikhande_rook", "--agent", "greedy", "--order", "1")
    assert code == 0 and out.startswith("not distinguished by up to 1 mark; a larger --order may")
    assert facts(maggnn, "shrikhande_rook", "--agent", "greedy", "--order", "1")["verdict"] == "undecided"


def test_proofs_line_by_line(maggnn):
    graphs = to_graph6(sr25())
    (maggnn.folder / "first.g6").write_text("\n".join(graphs[:3]))
    (maggnn.folder / "second.g6").write_text("\n".join([graphs[3], graphs[1], graphs[4]]))
    found = facts(maggnn, "first.g6", "second.g6", "--agent", "greedy", "--order", "9")
    assert found["counts"] == {"differ": 2, "isomorphic": 1, "undecided": 0}
    rows = maggnn("first.g6", "second.g6", "--agent", "greedy").output().splitlines()
    assert rows[1].split()[:3] == ["0", "differ", "2"] and rows[-1].startswith("pairs: 3, differ: 2")


def test_large_graphs_are_compared_by_proof(maggnn):
    for name, seed in (("one", 0), ("two", 1)):
        (maggnn.folder / f"{name}.edges").write_text(edge_list(nx.random_regular_graph(3, 2100, seed=seed)))
    found = facts(maggnn, "one.edges", "two.edges", "--agent", "greedy")
    assert found["verdict"] == "differ" and found["order"] == 1 and found["candidates"] == 2100


def test_too_many_tuples_suggest_a_proof(maggnn):
    code, _, err = maggnn(save_pair(maggnn.folder, ".g6"), "--order", "20")  # the first mark ends it
    assert code == 0 and "6 nodes have 3,656,158,440,062,976 tuples of order 20" in err and "--agent greedy" in err
    assert "--agent" not in maggnn("shrikhande_rook").err


def test_what_a_proof_needs(maggnn):
    for arguments, words in {
        ("sr25", "--agent", "greedy"): "--agent compares two graphs",
        ("shrikhande_rook", "--agent", "greedy", "-o", "pair.png"): "leave out --out or --agent",
        ("shrikhande_rook", "--agent", "greed"): "no agent 'greed'",
        ("shrikhande_rook", "--agent", "sr25", "--order", "1"): "moves tuples of order 2",
    }.items():
        assert words in maggnn(*arguments).mistake(), arguments


def test_a_picture_is_a_png_file(maggnn):
    (maggnn.folder / "file").touch()
    for out, words in {"pair.svg": "pair.svg: the picture is a .png file", "file/pair.png": "file/pair.png"}.items():
        assert words in maggnn("shrikhande_rook", "-o", out).mistake()
        assert not (maggnn.folder / out).exists()
