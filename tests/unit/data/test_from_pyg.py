"""PyG datasets as data sets: targets, splits, training and estimators."""

import warnings

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

import maggnn
from maggnn import Config, MagClassifier
from maggnn.data.from_pyg import dataset_from_pyg
from maggnn.data.splits import Split
from maggnn.errors import InputError


def path(size, y):
    edges = torch.stack([torch.arange(size - 1), torch.arange(1, size)])
    return Data(edge_index=torch.cat([edges, edges.flip(0)], dim=1), y=y, num_nodes=size)


def graphs(numbers=False):
    return [path(2 + n % 5, torch.tensor([n % 5 / 2 if numbers else n % 2])) for n in range(30)]


class Paths(InMemoryDataset):
    def __init__(self, items, transform=None):
        super().__init__(None, transform)
        self.data, self.slices = self.collate(items)


@pytest.mark.parametrize("form", [list, Paths])
def test_targets_and_parts(form):
    dataset = dataset_from_pyg(form(graphs()))
    assert (dataset.task, dataset.num_outputs, dataset.metric) == ("classification", 2, "accuracy")
    split = dataset.splits(0)[0]
    assert [len(part) for part in (split.train, split.val, split.test)] == [24, 3, 3]
    assert torch.cat([split.train, split.val, split.test]).sort().values.tolist() == list(range(30))
    numbers = dataset_from_pyg(form(graphs(numbers=True)))
    assert (numbers.task, numbers.metric, numbers.y.shape) == ("regression", "mae", (30, 1))


@pytest.mark.parametrize("make", [dataset_from_pyg, maggnn.MagGNN.for_data])
def test_floats_that_look_like_classes_are_numbers_with_a_warning(make):
    """MoleculeNet of PyG has its classes as floats."""
    floats = [path(2 + n % 5, torch.tensor([[float(n % 2), 1.0]])) for n in range(30)]
    with pytest.warns(UserWarning, match="only the floats 0 and 1, which are taken as numbers: give task='multilabel'"):
        assert make(floats).task == "regression"
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="y has only")
        assert make(floats, task="multilabel").task == "multilabel"
        assert make(floats, task="regression").task == "regression"
        assert make(graphs()).task == "classification" and make(graphs(numbers=True)).task == "regression"


def test_a_split_of_ones_own():
    own = Split(torch.arange(20), torch.arange(20, 25), torch.arange(25, 30))
    assert dataset_from_pyg(graphs(), own).splits(5)[0] is own


def test_train_takes_a_pyg_dataset():
    config = Config().replaced(
        encoder={"num_layers": 2, "hidden": 8},
        agent={"tuple_order": 1, "num_moves": 1},
        replay={"warmup": 4},
        training={"predictor_steps": 3, "agent_steps": 2, "batch_size": 4, "agent_batch_size": 4, "walkers": 4},
    )
    trained = maggnn.train(config, dataset=Paths(graphs()), quiet=True)
    assert trained.dataset.name == "Paths" and len(trained.split.test) == 3


def test_an_estimator_takes_a_pyg_dataset():
    dataset = Paths(graphs())
    fitted = MagClassifier(steps=3).fit(dataset, [int(data.y) for data in dataset])
    assert fitted.predict(dataset[:4]).shape == (4,)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (graphs()[:5], "too few for a random split"),
        (graphs()[0], "one Data or Batch is not a data set"),
        ([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2)] * 12, "no y"),
    ],
)
def test_what_is_no_data_set_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        dataset_from_pyg(given).splits(0)


QUICK = Config().replaced(
    encoder={"num_layers": 2, "hidden": 8},
    agent={"tuple_order": 1, "num_moves": 1},
    replay={"warmup": 4},
    training={"predictor_steps": 3, "agent_steps": 2, "batch_size": 4, "agent_batch_size": 4, "walkers": 4},
)


@pytest.mark.parametrize("kind", [torch.long, torch.float32])
def test_several_two_class_targets(kind, tmp_path):
    several = [path(2 + n % 5, torch.tensor([[n % 2, n % 3 == 0, 1]], dtype=kind)) for n in range(30)]
    dataset = dataset_from_pyg(several, task="multilabel")
    assert (dataset.num_outputs, dataset.metric, dataset.y.shape) == (3, "auroc", (30, 3))
    assert maggnn.MagGNN.for_data(several, task="multilabel").num_outputs == 3
    maggnn.train(QUICK, str(tmp_path / "run"), dataset=dataset, quiet=True)
    assert (tmp_path / "run" / "model.safetensors").is_file()
    with pytest.raises(InputError, match="must be 0 or 1"):
        dataset_from_pyg([path(3, torch.tensor([[2, 1]]))] * 10, task="multilabel")


def with_missing(known):
    """Thirty graphs with two targets, one of which is missing in every third graph."""
    values = [[known(n), float("nan") if n % 3 == 0 else known(n + 1)] for n in range(30)]
    return [path(2 + n % 5, torch.tensor([row])) for n, row in enumerate(values)]


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_missing_targets_are_left_out_with_a_warning(task, tmp_path):
    """As in MoleculeNet: a loss with a missing value would be NaN, and replacing it by a class would be wrong."""
    items = with_missing((lambda n: float(n % 2)) if task == "multilabel" else (lambda n: n / 7))
    with pytest.warns(UserWarning, match=r"10 of 60 values of y are missing \(NaN\); losses and scores leave them out"):
        dataset = dataset_from_pyg(items, task=task)
    assert int(dataset.y.isnan().sum()) == 10 and dataset.num_outputs == 2
    with pytest.warns(UserWarning, match="values of y are missing"):
        trained = maggnn.train(QUICK, str(tmp_path / "run"), dataset=dataset_from_pyg(items, task=task), quiet=True)
    assert all(bool(weights.isfinite().all()) for weights in trained.model.state_dict().values())
    assert maggnn.MagGNN.for_data(items, task=task).num_outputs == 2


def test_classes_cannot_be_missing_and_a_column_needs_a_value():
    with pytest.raises(InputError, match="y has NaN, which is no class"):
        dataset_from_pyg([path(3, torch.tensor([float("nan")]))] * 10, task="classification", num_outputs=2)
    nothing = [path(3, torch.tensor([[float(n), float("nan")]])) for n in range(10)]
    with pytest.warns(UserWarning, match="missing"), pytest.raises(InputError, match="column 1 of y has no value"):
        dataset_from_pyg(nothing)


def test_several_columns_of_integers_are_no_classes():
    several = [path(3, torch.tensor([[n % 2, 1, 0]])) for n in range(30)]  # they were read as classes of other graphs
    with pytest.raises(InputError, match=r"y has 3 columns of integers: give task='multilabel'"):
        dataset_from_pyg(several)
    with pytest.raises(InputError, match="y has 3 columns of integers"):
        maggnn.MagGNN.for_data(several)
    with pytest.raises(InputError, match="one class for each row, from 0 to 1"):
        dataset_from_pyg(several, num_outputs=2, task="classification")


def test_classes_beyond_the_outputs_are_refused():
    with pytest.raises(InputError, match="one class for each row, from 0 to 0"):
        dataset_from_pyg(graphs(), num_outputs=1)


def test_targets_that_float32_rounds_stay_exact():
    exact = [path(3, torch.tensor([1e9 + n], dtype=torch.float64)) for n in range(30)]
    assert dataset_from_pyg(exact).y.flatten().tolist() == [1e9 + n for n in range(30)]


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (torch.tensor([-1, 3]), "train of the split must contain graph ids from 0 to 29"),
        (torch.tensor([30]), "graph ids from 0 to 29"),
        (torch.arange(30) < 20, "train of the split must be a tensor of graph ids"),
        ([0, 1], "train of the split must be a tensor of graph ids"),
        (torch.arange(0), "train of the split is empty"),
    ],
)
def test_splits_are_checked(part, message):
    dataset = dataset_from_pyg(graphs(), Split(part, torch.arange(20, 25), torch.arange(25, 30)))
    with pytest.raises(InputError, match=message):
        maggnn.train(QUICK, dataset=dataset, quiet=True)


@pytest.mark.parametrize("change", ["targets", "graphs", "split", "features"])
def test_a_folder_with_a_run_on_other_data_is_refused(change, tmp_path):
    own = [Split(torch.arange(20), torch.arange(20, 20 + n), torch.arange(25, 30)) for n in (5, 4)]
    maggnn.train(QUICK, tmp_path, dataset=dataset_from_pyg(graphs(), own[0]), quiet=True)
    again = maggnn.train(QUICK, tmp_path, dataset=dataset_from_pyg(graphs(), own[0]), quiet=True)
    assert len(again.split.val) == 5
    other = graphs()
    if change == "targets":
        other[3].y = 1 - other[3].y
    if change == "graphs":
        other[3].edge_index = other[3].edge_index[:, 1:]
    if change == "features":
        for graph in other:
            graph.x = torch.ones(graph.num_nodes, 1)
    with pytest.raises(InputError, match="a run on other graphs, targets or splits; choose another folder"):
        maggnn.train(QUICK, tmp_path, dataset=dataset_from_pyg(other, own[change == "split"]), quiet=True)
