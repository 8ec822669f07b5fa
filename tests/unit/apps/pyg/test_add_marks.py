"""`AddMarks` puts the marks of a search into PyG graphs, one by one or in a batch, before or after loading."""

import pytest
import torch
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import Compose, Constant

from maggnn import AddMarks, AgentConfig, EncoderConfig, MagGNN
from maggnn.errors import InputError
from maggnn.graphs.conversions import batch_from_pyg
from maggnn.model.runtime import make_generator
from maggnn.model.saving import save_model


def ring(size, x=None):
    node = torch.arange(size)
    edges = torch.stack([node, (node + 1) % size])
    return Data(x=x, edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=torch.tensor([0]), num_nodes=size)


def make_model(x=None, **agent):
    torch.manual_seed(0)
    settings = AgentConfig(**({"num_tuples": 2, "tuple_order": 2, "num_moves": 2} | agent))
    encoder = EncoderConfig(num_layers=2, hidden=8)
    return MagGNN.for_data([ring(6, x)], 2, encoder=encoder, agent=settings)


def test_marks_are_those_of_the_search():
    model, data = make_model(), ring(6)
    state = model.eval().walk(batch_from_pyg(data), generator=make_generator(3))[-1]
    marked = AddMarks(model, seed=3)(data)
    assert marked.marks.shape == (6, 4) and marked.marks.sum() == 4
    assert torch.equal(marked.marks.argmax(dim=0), state.tuples.flatten())
    assert torch.equal(AddMarks(model, seed=3)(ring(6)).marks, marked.marks), "equal graphs have equal marks"
    assert "marks" not in data, "the graph that was given stays as it was"


def test_marks_can_be_appended_to_x_and_composed():
    x = torch.arange(6)[:, None] % 3
    data = AddMarks(make_model(x), attr_name=None)(ring(6, x))
    assert data.x.dtype == torch.float32 and torch.equal(data.x[:, :1], x.float()) and data.x.shape == (6, 5)
    assert AddMarks(make_model(), attr_name=None)(ring(6)).x.shape == (6, 4)
    both = Compose([AddMarks(make_model()), Constant()])(ring(6))
    assert both.x.shape == (6, 1) and both.marks.shape == (6, 4)


def test_numbers_in_x_stay_as_they_are_beside_marks():
    add = AddMarks.pretrained("cycles6", attr_name=None)
    exact = torch.full((6, 1), 1e9 + 0.5, dtype=torch.float64)
    assert torch.equal(add(ring(6, exact)).x[:, :1], exact)
    with pytest.raises(InputError, match="x holds whole numbers that float32 rounds: give attr_name"):
        add(ring(6, torch.full((6, 1), 2**25 + 1)))


def test_batches_and_files(tmp_path):
    save_model(tmp_path / "model.safetensors", make_model())
    add = AddMarks(tmp_path / "model.safetensors")
    batch = add(Batch.from_data_list([ring(5), ring(7)]))
    assert batch.marks.shape == (12, 4)
    assert [batch.marks[batch.batch == graph].sum() for graph in (0, 1)] == [4, 4]
    assert repr(add) == "AddMarks(m=2, k=2, t=2)"


def test_a_pretrained_agent_reads_edges_alone():
    add = AddMarks.pretrained("cycles6", num_tuples=2, num_moves=1)
    marked = add(ring(6, torch.randn(6, 3)))
    assert marked.marks.shape[1] == 2 * add.model.agent.tuple_order and marked.x.shape == (6, 3)
    full = ring(6, torch.randn(6, 3))
    full.edge_weight, full.graph_attr = torch.rand(12), torch.rand(1, 2)
    again = add(full)
    assert torch.equal(again.marks, marked.marks) and again.edge_weight.shape == (12,)
    pair = add(Batch.from_data_list([full, full]))
    assert pair.marks.shape == (12, marked.marks.shape[1]) and pair.x.shape == (12, 3)
    with pytest.raises(InputError):
        add(HeteroData())


def test_models_without_an_agent_and_other_features_are_refused():
    with pytest.raises(InputError, match="no agent"):
        AddMarks(make_model(tuple_order=0, num_moves=0))
    with pytest.raises(InputError, match="does not read"):
        AddMarks(make_model())(ring(6, torch.randn(6, 3)))


def test_targets_are_left_alone():
    data = ring(6)
    data.y = torch.tensor([[float("nan"), 1.0]])
    marked = AddMarks(make_model())(data)
    assert marked.marks.shape == (6, 4) and bool(marked.y[0, 0].isnan()) and marked.y[0, 1] == 1


@pytest.mark.parametrize("wrong", [[ring(6)], HeteroData(), "graph"])
def test_what_is_no_graph_is_refused(wrong):
    with pytest.raises(InputError, match=f"of type {type(wrong).__name__}: give a PyG Batch or Data"):
        AddMarks(make_model())(wrong)
