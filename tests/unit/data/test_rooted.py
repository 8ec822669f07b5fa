"""Rooted graphs: one for each node or pair, the root told apart, targets and splits carried over."""

import pytest
import torch

from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
from maggnn.data.synthetic.rooted import graphs_of_roots, rooted_at_nodes, rooted_at_pairs
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model import saving as checkpoint
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN

SIZES = (3, 1, 4)


def paths(level="node", x=None):
    edges = [torch.stack([torch.arange(n - 1), torch.arange(1, n)]) for n in SIZES]
    rows = sum(SIZES) if level == "node" else len(SIZES)
    return PackedGraphs.build(
        torch.tensor(SIZES),
        torch.tensor(SIZES) - 1,
        torch.cat(edges, 1),
        x=x,
        y=torch.arange(rows).float().reshape(-1, 1),
        level=level,
        undirected_once=True,
    )


def test_one_graph_for_each_node():
    rooted = rooted_at_nodes(paths(x=torch.full((8, 1), 2)))
    assert len(rooted) == 8 and rooted.level == "graph"
    assert rooted.num_nodes.tolist() == [3, 3, 3, 1, 4, 4, 4, 4]
    assert rooted.roots[:, 0].tolist() == [0, 1, 2, 0, 0, 1, 2, 3] and rooted.y[:, 0].tolist() == list(range(8))
    batch = rooted[torch.tensor([6, 1])]
    assert batch.x.tolist() == [[2, 0], [2, 0], [2, 1], [2, 0], [2, 0], [2, 1], [2, 0]]
    assert batch.roots.tolist() == [[2], [1]]


def test_roots_of_graphs_make_a_split():
    assert graphs_of_roots(paths(), torch.tensor([2, 0])).tolist() == [4, 5, 6, 7, 0, 1, 2]


def test_pairs_have_two_roots_in_their_order():
    pairs = torch.tensor([[2, 0], [1, 3]])
    rooted = rooted_at_pairs(paths(), torch.tensor([0, 2]), pairs, torch.tensor([0, 1]))
    assert rooted.x.tolist() == [[0, 1], [0, 0], [1, 0], [0, 0], [1, 0], [0, 0], [0, 1]]
    assert torch.equal(rooted.roots, pairs)


def test_mistakes_are_named():
    with pytest.raises(InputError, match="belong to graphs"):
        rooted_at_nodes(paths("graph"))
    with pytest.raises(InputError, match="pair 1, \\(0, 3\\), has a node outside"):
        rooted_at_pairs(paths(), torch.tensor([2, 0]), torch.tensor([[0, 3], [0, 3]]), torch.zeros(2))
    with pytest.raises(InputError, match="give one of each"):
        rooted_at_pairs(paths(), torch.tensor([2, 0]), torch.tensor([[0, 3]]), torch.zeros(2))
    with pytest.raises(InputError, match="needs rooted graphs"):
        MagGNN(1, predictor=PredictorConfig(read_roots=True))


def make_model(graphs, read_roots):
    torch.manual_seed(0)
    return MagGNN(
        1,
        node_features=FeatureSpec.of(graphs.x),
        encoder=EncoderConfig(num_layers=4, hidden=12, residual=True),
        predictor=PredictorConfig(read_roots=read_roots, read_marked=True),
        agent=AgentConfig(num_tuples=2, tuple_order=1, num_moves=1),
        task="regression",
        num_roots=graphs.roots.shape[1],
    ).eval()


def test_roots_are_read_where_asked(tmp_path):
    graphs = rooted_at_nodes(paths())
    batch = graphs[torch.tensor([4, 5])]
    model = make_model(graphs, read_roots=True)
    assert model.predictor.width == 12 * 3  # pooled, the marked node, the root
    tuples = torch.zeros(2, 2, 1, dtype=torch.long)
    h = model.predictor.encoder(batch, tuples)
    embeddings = model.predictor.embed(batch, tuples)
    assert torch.equal(embeddings[0, :, 24:], h[0]) and torch.equal(embeddings[1, :, 24:], h[4 + 1])
    config = Config(
        encoder=EncoderConfig(num_layers=4, hidden=12, residual=True),
        predictor=model.predictor.config,
        agent=model.agent,
    )
    checkpoint.save_model(tmp_path / "model.safetensors", model, config)
    again, _ = checkpoint.load_model(tmp_path / "model.safetensors")
    with torch.no_grad():
        seeded = [torch.Generator().manual_seed(0) for _ in range(2)]
        assert torch.equal(
            again(batch, tuples=tuples, generator=seeded[0]), model(batch, tuples=tuples, generator=seeded[1])
        )
    with pytest.raises(InputError, match=r"made for graphs with 1 root"):
        model(paths("graph", x=torch.zeros(8, 1, dtype=torch.long))[torch.tensor([0])])


def test_each_root_answers_for_itself():
    """The end and the middle of a path: a graph-level answer that depends on which node is asked about."""
    graphs = rooted_at_nodes(paths())
    model = make_model(graphs, read_roots=True)
    with torch.no_grad():
        tuples = torch.zeros(2, 1, 1, dtype=torch.long)
        end, middle = model.predictor.embed(graphs[torch.tensor([4, 5])], tuples)[:, 0]
    assert not torch.equal(end[24:], middle[24:])


@pytest.mark.parametrize("graph", [torch.tensor([0, 3]), torch.tensor([-1, 0]), torch.tensor([0.0, 0.5])])
def test_pairs_of_no_graph_are_refused(graph):
    pairs, y = torch.tensor([[0, 1], [0, 0]]), torch.zeros(2)
    with pytest.raises(InputError, match=r"graph must contain numbers of graphs, from 0 to 2|graph contains numbers"):
        rooted_at_pairs(paths(), graph, pairs, y)
    exact = rooted_at_pairs(paths(), torch.tensor([0, 1]), pairs, y)
    other = rooted_at_pairs(paths(), torch.tensor([0.0, 1.0]), pairs.int(), y)
    assert torch.equal(exact.roots, other.roots) and torch.equal(exact.x, other.x)
