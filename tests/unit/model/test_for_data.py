"""A model for PyG data: what `MagGNN.for_data` reads off, and the two forms in which a model takes graphs."""

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset
from torch_geometric.loader import DataLoader

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN

pytestmark = pytest.mark.filterwarnings("ignore::maggnn.errors.UntrainedAgentWarning")
SIZES = (5, 1, 7)
SMALL = {"agent": AgentConfig(num_tuples=2, tuple_order=1, num_moves=1)}


def ring(size: int, y=None, floats=False, edge_columns=1) -> Data:
    node = torch.arange(size)
    edges = torch.stack([node, (node + 1) % size])
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    x = torch.randn(size, 3) if floats else torch.stack([node % 4, node % 2], dim=1)
    attr = torch.arange(2 * size) % 3
    attr = attr[:, None].repeat(1, edge_columns) if edge_columns else attr  # PyG's ZINC has edge_attr of one dimension
    return Data(x=x, edge_index=edges, edge_attr=attr, y=y, num_nodes=size)


class Rings(InMemoryDataset):
    """A PyG dataset that needs no files."""

    def __init__(self, graphs, transform=None):
        super().__init__(None, transform)
        self.data, self.slices = self.collate(graphs)


def classes():
    return [ring(size, torch.tensor([label])) for label, size in enumerate(SIZES)]


@pytest.mark.parametrize("form", [lambda graphs: graphs, Rings, Batch.from_data_list, tuple])
def test_categories_classes_and_edges_are_read_off(form):
    model = MagGNN.for_data(form(classes()), **SMALL)
    assert model.node_features == FeatureSpec(categories=(4, 2))
    assert model.edge_features == FeatureSpec(categories=(3,))
    assert (model.num_outputs, model.task, model.predictor.level) == (3, "classification", "graph")
    batch = next(iter(DataLoader(classes(), batch_size=3)))
    assert model(batch).shape == (3, 3)


def test_a_subset_and_a_transform_are_seen_as_a_loader_hands_them_out():
    def floats(data):
        data.x = data.x.float()
        return data

    model = MagGNN.for_data(Rings(classes(), floats)[:2], **SMALL)
    assert model.node_features == FeatureSpec(width=2) and model.num_outputs == 2


@pytest.mark.parametrize("edge_columns", [0, 1, 2])
def test_edge_features_of_one_dimension_are_one_column(edge_columns):
    graphs = [ring(size, torch.tensor([0.5]), floats=True, edge_columns=edge_columns) for size in SIZES]
    model = MagGNN.for_data(graphs, **SMALL).eval()
    assert model.node_features == FeatureSpec(width=3)
    assert model.edge_features == FeatureSpec(categories=(3,) * max(1, edge_columns))
    assert (model.num_outputs, model.task) == (1, "regression")
    together = model(Batch.from_data_list(graphs), generator=torch.Generator().manual_seed(0))
    assert together.shape == (3, 1) and model(graphs[0]).shape == (1, 1)


@pytest.mark.parametrize("single", [True, False])
def test_one_target_a_node_is_node_level(single):
    graphs = [ring(size, torch.arange(size) % 2) for size in SIZES]
    model = MagGNN.for_data(graphs[0] if single else graphs, **SMALL)
    assert model.predictor.level == "node" and model.num_outputs == 2
    assert model(Batch.from_data_list(graphs)).shape == (sum(SIZES), 2)


def test_what_is_given_counts_more_than_what_is_read_off():
    numbers = [ring(size, torch.rand(1, 4)) for size in SIZES]
    assert MagGNN.for_data(numbers, **SMALL).num_outputs == 4
    model = MagGNN.for_data(classes(), num_outputs=9, level="node", encoder=EncoderConfig("gine", hidden=8), **SMALL)
    assert (model.num_outputs, model.predictor.level) == (9, "node")
    assert model.predictor.encoder.config.hidden == 8


def test_graphs_without_features_or_targets():
    bare = [Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=2)] * 2
    model = MagGNN.for_data(bare, num_outputs=2, **SMALL)
    assert model.node_features.empty and model.edge_features.empty
    assert model(Batch.from_data_list(bare)).shape == (2, 2)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (lambda: [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)], "no y from which the number of outputs"),
        (lambda: [ring(4, torch.tensor([-1]))], "integers from 0 up"),
        (lambda: Data(x=torch.tensor([[0], [10**6]]), edge_index=torch.tensor([[0], [1]]), y=0), "too many for categ"),
        (lambda: HeteroData(), "to_homogeneous"),
        (lambda: [1, 2], "item 0 of data is of type int"),
        (lambda: iter([]), "for a loader, give its dataset"),
    ],
)
def test_what_cannot_be_read_off_is_refused(data, message):
    with pytest.raises(InputError, match=message):
        MagGNN.for_data(data(), **SMALL)


def test_a_convolution_that_does_not_read_edges_is_refused():
    with pytest.raises(InputError, match="does not read them"):
        MagGNN.for_data(classes(), encoder=EncoderConfig("gin"), **SMALL)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_columns_are_answered_as_the_batch_that_holds_them(level):
    batch = Batch.from_data_list(classes())
    model = MagGNN.for_data(classes(), level=level, **SMALL).eval()
    whole, columns = (
        model(*given, generator=torch.Generator().manual_seed(1))
        for given in ((batch,), (batch.x, batch.edge_index, batch.batch, batch.edge_attr))
    )
    assert torch.equal(whole, columns)
    one = classes()[0]
    assert model(one.x, one.edge_index, edge_attr=one.edge_attr).shape[0] == (1 if level == "graph" else 5)


def test_columns_of_graphs_without_node_features():
    model = MagGNN(2, **SMALL).eval()
    edges = torch.tensor([[0, 1], [1, 0]])
    assert model(None, edges, torch.tensor([0, 0, 0, 1])).shape == (2, 2)  # nodes without edges count too
    with pytest.raises(InputError, match="number of nodes is unknown"):
        model(None, edges)


def test_mixed_forms_are_refused():
    model, batch = MagGNN.for_data(classes(), **SMALL), Batch.from_data_list(classes())
    with pytest.raises(InputError, match="give tuples by name"):
        model(batch, torch.zeros(3, 2, 1).long())
    with pytest.raises(InputError, match="edge_index is missing"):
        model(batch.x)
    for wrong in (classes(), "CCO"):
        with pytest.raises(InputError, match=f"of type {type(wrong).__name__}: give a PyG Batch or Data"):
            model(wrong)
    with pytest.raises(InputError, match="not sorted"):
        model(batch.x, batch.edge_index, batch.batch.flip(0), batch.edge_attr)


def test_the_graphs_of_columns_are_a_tensor():
    model, edges = MagGNN(2, **SMALL).eval(), torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="batch is of type list: give a tensor"):
        model(torch.ones(4, 1), edges, [0, 0, 1, 1])  # it would be read as one graph


@pytest.mark.parametrize("y", [torch.tensor([[float("nan")]]), torch.zeros(8), "toxic", {"a": 1}])
def test_an_answer_needs_no_targets(y):
    model = MagGNN.for_data(classes(), **SMALL).eval()
    graph = classes()[0]
    expected = model(graph, generator=torch.Generator().manual_seed(0))
    graph.y = y
    assert torch.equal(model(graph, generator=torch.Generator().manual_seed(0)), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "regresion"}, "unknown task 'regresion': did you mean 'regression'"),
        ({"level": "edge"}, "unknown level 'edge'"),
        ({"num_outputs": 0}, "num_outputs is 0, must be at least 1"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(InputError, match=message):
        MagGNN(**({"num_outputs": 2} | SMALL | arguments))


def test_a_specification_has_categories_or_numbers():
    with pytest.raises(InputError, match="either categories or width"):
        FeatureSpec((2,), 3)
    with pytest.raises(InputError, match="at least one category"):
        FeatureSpec((3, 0))
