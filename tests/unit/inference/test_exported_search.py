"""The module that is exported answers as the model does, whatever its settings; tracing is tested in tests/cli."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.rings import edge_rings, with_rings
from maggnn.graphs.structure import centrality, distances_and_walks, with_structure
from maggnn.inference.export.search import ExportedSearch, SeenCategories, batch_of_inputs
from maggnn.model.agent import TIE, kept_answers, q_rows
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Norm
from maggnn.model.state import Move, State

ATOMS, BONDS = FeatureSpec(categories=(4, 3)), FeatureSpec(categories=(3, 2))
GRAPHS = [
    nx.cycle_graph(6), nx.path_graph(5), nx.empty_graph(1), nx.empty_graph(3), nx.ladder_graph(4),
    nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(14)), nx.star_graph(5), nx.petersen_graph(),
]  # fmt: skip


def packed_graphs(seed: int = 0) -> PackedGraphs:
    packed = pack_networkx(GRAPHS)
    generator = torch.Generator().manual_seed(seed)
    nodes, edges = len(packed.in_degree), len(packed.by_source)
    x = torch.stack([torch.randint(count, (nodes,), generator=generator) for count in ATOMS.categories], dim=1)
    bonds = torch.stack([torch.randint(count, (edges,), generator=generator) for count in BONDS.categories], dim=1)
    return replace(packed, x=x, edge_attr=bonds, roots=torch.zeros(len(packed), 1, dtype=torch.long))


def batch(packed: PackedGraphs) -> GraphBatch:
    return packed[torch.arange(len(packed))]


def lively(model: MagGNN) -> MagGNN:
    """Norms with statistics of some training, so that they are no identity."""
    for module in model.modules():
        if isinstance(module, Norm) and isinstance(module.norm, torch.nn.BatchNorm1d):
            module.norm.running_mean.normal_(std=0.1)
            module.norm.running_var.uniform_(0.5, 1.5)
    if model.targets is not None:
        model.targets.mean.fill_(3.0)
        model.targets.std.fill_(2.0)
    return model.eval()


def first(values: torch.Tensor) -> torch.Tensor:
    return (values >= values.amax(dim=-1, keepdim=True) - TIE).int().argmax(dim=-1)


@torch.no_grad()
def expected(model: MagGNN, graphs: GraphBatch, tuples: torch.Tensor) -> torch.Tensor:
    """The model's own search, with its kernels, where ties go to the first."""
    states = [State.start(graphs, tuples, model.history_width)]
    for _ in range(model.agent.num_moves):
        state = states[-1]
        q_table, history = model.scores(state)
        rows = q_rows(q_table, graphs)
        choice = first(rows)
        mover = first(rows.gather(-1, choice[..., None])[..., 0])
        tuple_id = torch.arange(tuples.shape[1])
        moved = {
            "simultaneous": torch.ones_like(choice, dtype=torch.bool),
            "in_turn": tuple_id == state.turn[:, None],
            "choose": tuple_id == mover[:, None],
        }[model.agent.actions]
        k = tuples.shape[2]
        states.append(state.after(Move(choice % k, choice // k, moved), history))
    answers = [model.predictor(graphs, state.tuples) for state in states]
    if model.agent.keep == "last":
        outputs = model.in_target_units(answers[-1], graphs)
    else:
        outputs = kept_answers(torch.stack(answers), model.agent.keep, graphs, model.predictor.level)
    return outputs.softmax(dim=-1) if model.task == "classification" else outputs


SETTINGS = {
    "gin": ({}, {}, {}, {}),
    "gine, central": ({"conv": "gine"}, {}, {"start": "central"}, {}),
    "rings, walks": ({"conv": "gine", "rings": True, "random_walk": 5}, {}, {}, {}),
    "distances": ({"distances": True, "random_walk": 3, "jk": "sum"}, {"pooling": "sum"}, {}, {}),
    "layer norm": ({"norm": "layer", "residual": True, "jk": "last"}, {}, {"actions": "choose"}, {}),
    "whitened": ({}, {"whiten": True, "read_marked": True}, {"actions": "in_turn"}, {}),
    "confident": ({}, {}, {"keep": "confident", "encoder": "shared"}, {"task": "classification"}),
    "nodes": ({}, {}, {"keep": "confident", "state": "predictor"}, {"task": "classification", "level": "node"}),
    "composition": ({}, {"composition": True}, {"history": "mean"}, {}),
    "roots": ({}, {"read_roots": True}, {"history": "lstm"}, {"num_roots": 1}),
    "cautious": ({}, {}, {"caution": 0.05, "num_moves": 3}, {}),
    "plain": ({}, {}, {"tuple_order": 0, "num_moves": 0}, {}),
    "no features": ({}, {}, {"start": "central"}, {"node_features": FeatureSpec(), "edge_features": FeatureSpec()}),
    "distance marks": ({"marking": "distance", "conv": "gine"}, {}, {"start": "central"}, {}),
    "directed marks": ({"marking": "directed", "conv": "gine"}, {}, {"start": "central"}, {}),
    "directed marks, no bonds": (
        {"marking": "directed", "conv": "gine"},
        {},
        {"start": "central"},
        {"edge_features": FeatureSpec()},
    ),
    "distance marks in every layer": (
        {"marking": "distance", "mark_every_layer": True, "conv": "gine"},
        {},
        {"start": "central"},
        {},
    ),
    "finest": ({"conv": "gine"}, {}, {"start": "finest"}, {}),
    "distance marks, no tables": ({"marking": "distance", "norm": "layer"}, {}, {}, {}),
}


def made(name: str) -> MagGNN:
    encoder, predictor, agent, others = SETTINGS[name]
    torch.manual_seed(0)
    chosen = {"node_features": ATOMS, "edge_features": BONDS, "task": "regression", "without_edges": True, **others}
    model = MagGNN(
        3,
        encoder=EncoderConfig(**{"hidden": 16, "num_layers": 2, **encoder}),
        predictor=PredictorConfig(**predictor),
        agent=AgentConfig(**{"num_tuples": 2, "tuple_order": 2, "num_moves": 2, **agent}),
        **chosen,
    )
    if model.targets is not None and model.targets.per_node is not None:
        model.targets.per_node.normal_()
    return lively(model)


def given_inputs(search: ExportedSearch, graphs: GraphBatch, tuples: torch.Tensor) -> dict[str, torch.Tensor]:
    known = {"tuples": tuples, "node_graph": graphs.node_graph}
    return {name: known[name] if name in known else getattr(graphs, name) for name in search.inputs}


def in_any_order(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The edges of each graph in another order."""
    graph = inputs["node_graph"][inputs["edge_index"][1]]
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(0))
    order = order[graph[order].argsort(stable=True)]
    changed = {"edge_index": inputs["edge_index"][:, order]}
    if "edge_attr" in inputs:
        changed["edge_attr"] = inputs["edge_attr"][order]
    return inputs | changed


@pytest.mark.parametrize("is_exporting", [False, True], ids=["kernels", "plain"])
@pytest.mark.parametrize("name", SETTINGS)
def test_answers_are_the_models(name, is_exporting, monkeypatch):
    """As the module runs by itself, and as it runs while it is traced."""
    model, graphs = made(name), batch(packed_graphs())
    tuples = model.starts(graphs, torch.Generator().manual_seed(1))
    search, wanted = ExportedSearch(model), expected(model, graphs, tuples)
    inputs = given_inputs(search, graphs, tuples)
    monkeypatch.setattr(torch.compiler, "is_exporting", lambda: is_exporting)
    for tensors in (inputs, in_any_order(inputs)):
        torch.testing.assert_close(search(**tensors), wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.floats(0, 0.6), st.integers(0, 10_000)), min_size=1, max_size=4
    )
)  # fmt: skip
def test_structure_and_rings_are_those_of_the_set(sizes):
    packed = pack_networkx([nx.gnp_random_graph(n, p, seed) for n, p, seed in sizes])
    stored = batch(with_rings(with_structure(packed, 6)))
    found = batch_of_inputs(stored.edge_index, stored.node_graph, stored.num_nodes)
    torch.testing.assert_close(distances_and_walks(found, 6), distances_and_walks(stored, 6))
    assert torch.equal(edge_rings(found), edge_rings(stored))
    assert torch.equal(centrality(found), centrality(stored))


def test_categories_that_training_never_saw_become_the_commonest():
    readable = SeenCategories((4, 3), ((2, 0), (1,)))
    values = torch.tensor([[0, 1], [1, 0], [2, 2], [3, 1], [99, -1]])
    assert readable(values).tolist() == [[0, 1], [2, 1], [2, 1], [2, 1], [2, 1]]


def test_what_has_no_plain_form_is_refused():
    from maggnn.config import BaselineConfig
    from maggnn.model.named_encoders import make_encoder

    config = Config()
    baseline = make_encoder(BaselineConfig("ngnn"), config.encoder, FeatureSpec(), FeatureSpec())
    plain = AgentConfig(tuple_order=0, num_moves=0)
    with pytest.raises(InputError, match=r"baseline \(NGNN\) cannot be exported"):
        ExportedSearch(MagGNN(2, agent=plain, g_p=baseline))
    with pytest.raises(InputError, match=r"conv = GCNConv cannot be exported"):
        ExportedSearch(MagGNN(2, encoder=EncoderConfig(conv="GCNConv")))
