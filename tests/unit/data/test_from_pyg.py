"""PyG datasets as data sets: targets, splits, training and estimators."""

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
