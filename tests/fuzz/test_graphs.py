"""Graphs of every kind given to fitted models from Python: the right answer, or one line that names the graph.

Whether a graph is sound is said by how it was made (`Made.sound`), never by the code that is tested.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch_geometric.data import Data

from hostile import answer_or_line, few_and_many, fuzz, is_one_line
from maggnn import MagClassifier, MagRegressor
from maggnn.errors import InputError

KINDS = ("bare", "floats", "categories")


@dataclass(frozen=True)
class Made:
    """A graph for a model of graphs of its kind.

    Attributes:
        sound: whether the model has to answer; None where it may do either, as with numbers near the end of float32.
    """

    graph: Any
    kind: str
    sound: bool | None


def ring(size: int, kind: str) -> Data:
    """A graph as the models are fitted to."""
    ahead = torch.stack([torch.arange(size), (torch.arange(size) + 1) % size])
    edges = torch.cat([ahead, ahead.flip(0)], dim=1)
    number, edge = torch.arange(2 * size).reshape(size, 2), torch.arange(2 * size)[:, None]
    x = {"bare": None, "floats": number / size - 1, "categories": number % 3}[kind]
    attr = {"bare": None, "floats": edge / size, "categories": edge % 2}[kind]
    return Data(x=x, edge_index=edges, edge_attr=attr, num_nodes=size)


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    """A model for each kind of features."""
    sizes = range(3, 11)
    numbers = {kind: MagRegressor(steps=3).fit([ring(size, kind) for size in sizes], [*sizes]) for kind in KINDS}
    words = MagClassifier(steps=3).fit([ring(size, "floats") for size in sizes], ["odd", "even"] * 4)
    return numbers | {"words": words}


ODD_EDGES = {
    "none": (lambda edges, nodes: edges, True),
    "int32": (lambda edges, nodes: edges.int(), True),
    "whole floats": (lambda edges, nodes: edges.float(), True),
    "twice": (lambda edges, nodes: torch.cat([edges, edges], dim=1), True),
    "fractions": (lambda edges, nodes: torch.cat([edges, torch.full((2, 1), 0.5)], dim=1), False),
    "out of range": (lambda edges, nodes: torch.cat([edges, torch.full((2, 1), nodes)], dim=1), False),
    "negative": (lambda edges, nodes: torch.cat([edges, torch.full((2, 1), -1)], dim=1), False),
    "three rows": (lambda edges, nodes: torch.cat([edges, edges[:1]]), False),
    "one row": (lambda edges, nodes: edges[0], False),
    "array": (lambda edges, nodes: edges.numpy(), False),
    "truth": (lambda edges, nodes: torch.zeros_like(edges, dtype=torch.bool), False),
}
"""How the edges [2, E] of a graph are changed, and whether it is sound then."""

ODD_FEATURES = {
    "none": (lambda x: x, True),
    "double": (lambda x: x.double() if x.is_floating_point() else x.int(), True),
    "nan": (lambda x: x.float().fill_(float("nan")), False),
    "infinite": (lambda x: x.float().fill_(-float("inf")), False),
    "beyond float32": (lambda x: x.double().fill_(1e300), False),
    "more columns": (lambda x: torch.cat([x, x], dim=1), False),
    "more rows": (lambda x: torch.cat([x, x[:1]]), False),
    "one column": (lambda x: x[:, 0], False),
    "no columns": (lambda x: x[:, :0], False),
    "complex": (lambda x: x.to(torch.complex64), False),
    "array": (lambda x: x.numpy(), False),
    "list": (lambda x: x.tolist(), False),
    "sparse": (lambda x: x.to_sparse(), False),
    "large": (lambda x: x.float().fill_(1e38), None),
}
"""The same for features [rows, columns]."""


def both(*verdicts: bool | None) -> bool | None:
    """Sound if all are; unknown if one is and none is unsound."""
    return False if False in verdicts else None if None in verdicts else True


@st.composite
def pyg_graphs(draw: Any) -> Made:
    kind = draw(st.sampled_from(KINDS))
    nodes = draw(st.integers(0, 6))
    ends = st.integers(0, max(nodes - 1, 0))  # loops and edges that are there twice or one way only among them
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=8)) if nodes else []
    edges = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    columns = {"bare": None, "floats": torch.float32, "categories": torch.long}[kind]
    edit, edges_sound = ODD_EDGES[draw(st.sampled_from(["none"] * 8 + [*ODD_EDGES]))]
    edges = edit(edges, nodes)
    count = edges.shape[-1] if len(edges.shape) == 2 else len(pairs)
    graph, verdicts = Data(edge_index=edges, num_nodes=nodes), [nodes > 0, edges_sound]
    for name, rows, width in (("x", nodes, 2), ("edge_attr", count, 1)):
        how, sound = ODD_FEATURES[draw(st.sampled_from(["none"] * 8 + [*ODD_FEATURES]))]
        if columns is not None and rows:  # of nothing there is nothing to damage
            graph[name] = how(torch.ones(rows, width, dtype=columns))
            fractions = kind == "categories" and sound is not True
            verdicts.append(False if fractions else sound)
        elif columns is not None and name == "x":
            graph[name] = torch.ones(rows, width, dtype=columns)
    if draw(st.integers(0, 9)) == 0:
        graph.y = "a label that nobody reads"
    return Made(graph, kind, both(*verdicts))


def asked(model: Any, graphs: list[Any]) -> Any:
    return answer_or_line(lambda: model.predict(graphs))


def check_pyg(models: dict[str, Any], made: Made) -> None:
    model = models[made.kind]
    alone = asked(model, [made.graph])
    if isinstance(alone, InputError):
        assert is_one_line(alone) and not made.sound, alone
        return
    assert made.sound is not False and np.isfinite(alone).all()
    among = model.predict([ring(5, made.kind), made.graph, ring(4, made.kind)])
    assert among[1] == pytest.approx(alone[0], rel=1e-3, abs=1e-3)
    assert among[0] == pytest.approx(model.predict([ring(5, made.kind)])[0], rel=1e-4, abs=1e-4)
    if made.kind == "floats":
        chances = models["words"].predict_proba([made.graph])
        assert chances.sum() == pytest.approx(1) and (chances >= 0).all()


@pytest.mark.filterwarnings("ignore:.*not in the training data")
@few_and_many(120, 1200)
def test_pyg_graphs(models, examples):
    fuzz(pyg_graphs(), partial(check_pyg, models), examples)


VALUES = {
    "none": ([0.5, 1.0], True),
    "ints": ([1, 2], True),
    "nan": ([float("nan"), 1.0], False),
    "words": ("carbon", False),
    "nothing": (None, False),
    "more": ([1.0, 2.0, 3.0], False),
    "empty": ([], False),
    "array": (np.ones(2), True),
    "huge": ([2**70, 1], False),
}


@st.composite
def networkx_graphs(draw: Any) -> Made:
    """NetworkX graphs of any class, for the models of bare graphs and of floats."""
    kind = draw(st.sampled_from(["bare", "floats"]))
    make = draw(st.sampled_from([nx.Graph, nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph]))
    names = draw(
        st.lists(st.one_of(st.integers(), st.text(max_size=2), st.tuples(st.integers())), max_size=6, unique=True)
    )
    graph = make()
    graph.add_nodes_from(names)
    if names:
        graph.add_edges_from(draw(st.lists(st.tuples(*[st.sampled_from(names)] * 2), max_size=8)))
    verdicts: list[bool | None] = [bool(names)]
    if kind == "floats":
        value, sound = VALUES[draw(st.sampled_from(["none"] * 6 + [*VALUES]))]
        for node in graph:
            graph.nodes[node]["x"] = value
        for values in [attributes for *_, attributes in graph.edges(data=True)]:
            values["edge_attr"] = 0.5
        verdicts.append(sound)
        if len(names) > 1 and draw(st.integers(0, 5)) == 0:
            del graph.nodes[names[0]]["x"]
            verdicts.append(False)
    return Made(graph, kind, both(*verdicts))


def check_networkx(models: dict[str, Any], made: Made) -> None:
    alone = asked(models[made.kind], [made.graph])
    if isinstance(alone, InputError):
        assert is_one_line(alone) and not made.sound, alone
        return
    assert made.sound and np.isfinite(alone).all()
    assert models[made.kind].predict([made.graph, made.graph]) == pytest.approx([alone[0]] * 2, rel=1e-3, abs=1e-3)


@few_and_many(80, 800)
def test_networkx_graphs(models, examples):
    fuzz(networkx_graphs(), partial(check_networkx, models), examples)


def check_fit(made: list[Made]) -> None:
    """Fitting refuses what predicting refuses."""
    graphs = [ring(size, made[0].kind) for size in range(3, 9)] + [each.graph for each in made]
    sound = both(*(each.sound for each in made), all(each.kind == made[0].kind for each in made))
    found = answer_or_line(lambda: MagRegressor(steps=1).fit(graphs, [*range(len(graphs))]))
    if isinstance(found, InputError):
        assert is_one_line(found) and not sound, found
    else:
        assert sound is not False and np.isfinite(found.predict(graphs[:6])).all()


@pytest.mark.filterwarnings("ignore:.*not in the training data")
@few_and_many(12, 120)
def test_fitting_to_graphs(examples):
    fuzz(st.lists(pyg_graphs(), min_size=1, max_size=2), check_fit, examples)


def check_any_y(values: list[Any]) -> None:
    """Whatever y holds: a model of it, or one line."""
    graphs = [ring(3 + size % 6, "bare") for size in range(len(values))]
    for estimator in (MagClassifier(steps=1), MagRegressor(steps=1)):
        found = answer_or_line(lambda estimator=estimator: estimator.fit(graphs, values))
        assert not isinstance(found, InputError) or is_one_line(found)


@pytest.mark.filterwarnings("ignore")
@few_and_many(15, 150)
def test_any_targets(examples):
    numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)
    item = st.one_of(st.none(), st.booleans(), st.integers(), numbers, st.floats(), st.text(max_size=3), st.just([1.0]))
    plain = st.lists(numbers, min_size=4, max_size=8)
    fuzz(st.one_of(plain, st.lists(item, max_size=8)), check_any_y, examples)
