"""Marks with the class sizes of stable colourings: they equal a plain refinement, and no numbering of nodes matters."""

from collections import Counter
from dataclasses import replace

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import all_of, random_molecules, seeded
from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.distances import FARTHEST
from maggnn.inference.export.search import ExportedSearch
from maggnn.inference.frozen import frozen
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import CLASS_SIZES, make_marking
from maggnn.model.refined.copies import refine
from maggnn.model.saving import load_model, save_model
from maggnn.model.tuples import sample_tuples

CONFIG = EncoderConfig(num_layers=2, hidden=8, marking="colours")


def plain_sizes(graph, marks):
    """The sizes of the classes of the stable colouring, by refinement with nested tuples."""
    colours = {node: tuple(marked == node for marked in marks) for node in graph}
    for _ in graph:
        colours = {node: (colours[node], tuple(sorted(colours[other] for other in graph[node]))) for node in graph}
        names = {colour: number for number, colour in enumerate(sorted(set(colours.values())))}
        colours = {node: names[colour] for node, colour in colours.items()}
    counts = Counter(colours.values())
    return [counts[colours[node]] for node in graph]


def expected(graph, nodes):
    """The columns of one marked copy, [V, columns]."""
    sizes = plain_sizes(graph, nodes)
    fineness = sum(1 / size for size in sizes) / len(sizes)
    kinds = [sum(size > limit for limit in CLASS_SIZES) for size in sizes]
    one_hot = torch.nn.functional.one_hot(torch.tensor(kinds), len(CLASS_SIZES) + 1)
    whole = torch.tensor([[fineness, max(sizes) == 1]]).expand(len(sizes), -1)
    return torch.cat([one_hot, whole], dim=1)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 22), min_size=1, max_size=3),
    density=st.floats(0, 1),
    order=st.integers(1, 3),
    seed=st.integers(0, 2**16),
)
def test_columns_are_those_of_a_plain_refinement(sizes, density, order, seed):
    drawn = [nx.gnp_random_graph(size, density, seed + size) for size in sizes]
    graphs = pack_networkx(drawn)[torch.arange(len(drawn))]
    tuples = sample_tuples(graphs, 2, order, seeded(seed))
    values = make_marking(CONFIG, order).values(graphs, tuples)
    distances = make_marking(EncoderConfig(hidden=8, marking="distance"), order).values(graphs, tuples)
    assert torch.equal(values[..., : order * (FARTHEST + 1)], distances)
    for number, graph in enumerate(drawn):
        own = values[graphs.node_graph == number][..., order * (FARTHEST + 1) :]
        for copy in range(2):
            torch.testing.assert_close(own[:, copy], expected(graph, tuples[number, copy].tolist()).float())


@pytest.mark.parametrize("graph", [nx.petersen_graph(), nx.path_graph(30), nx.disjoint_union(*[nx.cycle_graph(5)] * 2)])
def test_the_numbering_of_the_nodes_does_not_matter(graph):
    place = torch.randperm(len(graph), generator=seeded()).tolist()
    other = nx.empty_graph(len(graph))
    other.add_edges_from((place[one], place[two]) for one, two in graph.edges)
    both = pack_networkx([graph, other])[torch.arange(2)]
    tuples = torch.tensor([[3, 7], [4, 4]])
    values = make_marking(CONFIG, 2).values(both, torch.stack([tuples, torch.tensor(place)[tuples]]))
    first, second = values.split(len(graph))
    assert torch.equal(first, second[place])


def test_the_number_of_colours_is_that_of_refinement():
    graphs = pack_networkx([nx.paley_graph(13).to_undirected(), nx.path_graph(9), nx.cycle_graph(12)])
    batch = graphs[torch.arange(3)]
    tuples = sample_tuples(batch, 5, 2, seeded(1))
    values = make_marking(CONFIG, 2).values(batch, tuples)
    share = values[batch.first_node, :, 2 * (FARTHEST + 1) + len(CLASS_SIZES) + 1]  # [B, m]
    assert torch.equal((share * batch.num_nodes[:, None]).round().long(), refine(batch, tuples).num_colours)


def test_features_do_not_change_what_the_marks_say():
    """Agents see edges and marks alone, so they see the same in graphs with features."""
    graphs = all_of(random_molecules([5, 9, 12], 0.4, seeded(2)))
    assert graphs.x is not None and graphs.edge_attr is not None
    marking, tuples = make_marking(CONFIG, 2), sample_tuples(graphs, 3, 2, seeded())
    assert torch.equal(marking.values(graphs, tuples), marking.values(replace(graphs, x=None, edge_attr=None), tuples))


def test_a_model_learns_and_is_not_exported():
    graphs = pack_networkx([nx.petersen_graph(), nx.path_graph(6)])[torch.arange(2)]
    model = small_model()
    model.predictor(graphs, sample_tuples(graphs, 2, 2, seeded())).square().sum().backward()
    weight = model.predictor.encoder.mark_embedding.weight
    assert float(weight.grad[:, 2 * (FARTHEST + 1) :].abs().sum()) > 0
    assert not model.recordable, "refinement looks at values to know when it has finished"
    with pytest.raises(InputError, match="marking = colours cannot be exported"):
        ExportedSearch(model)


def test_a_saved_model_answers_alike(tmp_path):
    graphs, model = pack_networkx([nx.petersen_graph(), nx.path_graph(6)]), small_model().eval()
    save_model(tmp_path / "model.safetensors", model)
    loaded, config = load_model(tmp_path / "model.safetensors")
    assert config.encoder.marking == "colours"
    batch = loaded.precomputed(graphs)[torch.arange(2)]
    answers = [one.eval()(batch, generator=seeded(3)) for one in (model, loaded, frozen(model))]
    for other in answers[1:]:
        torch.testing.assert_close(other, answers[0], rtol=1e-4, atol=1e-5)


def small_model():
    torch.manual_seed(0)
    return MagGNN(2, encoder=CONFIG, agent=AgentConfig(num_tuples=2, tuple_order=2, num_moves=2))
