"""From a CSV of SMILES to a trained and tested model, with nothing but the command line."""

import json

import numpy as np
import pytest

from maggnn.data.own_file import load_own
from maggnn.data.registry import check, load
from maggnn.errors import InputError

CONFIG = """
[data]
name = "mine.npz"

[encoder]
conv = "gine"
num_layers = 2
hidden = 16
random_walk = 4

[predictor]
pooling = "sum"

[agent]
num_tuples = 2
tuple_order = 1
num_moves = 1

[replay]
warmup = 64

[training]
paradigm = "simul"
predictor_steps = 150
agent_steps = 150
batch_size = 32
agent_batch_size = 4
walkers = 16
learning_rate = 1e-2
validate_every = 50

[runtime]
device = "cpu"
"""


@pytest.fixture
def maggnn(call_command, tmp_path):
    """What a command says in a folder of its own, as one object."""

    def run(*arguments):
        return json.loads(call_command("maggnn", *arguments, "--json", cwd=tmp_path).output().splitlines()[-1])

    return run


def write_table(path):
    """Chains of carbon with some oxygen, a broken row: the target is 10 + 3 (number of oxygens)."""
    rng = np.random.default_rng(0)
    rows = ["smiles,y"]
    for _ in range(150):
        chain = "".join(rng.choice(["C", "O"], p=[0.7, 0.3], size=rng.integers(3, 9)))
        rows.append(f"{chain},{10 + 3 * chain.count('O')}.5")
    path.write_text("\n".join([*rows, "C(,1.5"]) + "\n")


def test_a_table_of_smiles_becomes_a_model_that_predicts(maggnn, tmp_path):
    write_table(tmp_path / "mine.csv")
    (tmp_path / "mine.toml").write_text(CONFIG)
    packed = maggnn("data", "pack", "mine.csv", "--smiles", "smiles", "--target", "y", "-o", "mine.npz")
    assert (packed["kept"], packed["errors"], packed["task"]) == (150, 1, "regression")
    trained = maggnn("train", "mine.toml", "-o", "run")
    assert trained["metric"] == "mae" and 12 <= trained["graphs"] <= 18  # repeated molecules stay in one part
    assert trained["mae"]["mag-gnn, last state"][-1] < 1.5  # in the target's units; guessing the mean gives about 3
    again = maggnn("evaluate", "run")
    assert again["mae"] == trained["mae"]


def arrays(**changes):
    return {
        "num_nodes": np.array([2, 1, 2]),
        "num_edges": np.array([1, 0, 1]),
        "edge_index": np.array([[0, 0], [1, 1]]),
        "y": np.array([0.5, 1.0, 2.0], dtype=np.float32),
        "train": np.array([0]),
        "val": np.array([1]),
        "test": np.array([2]),
    } | changes


def save(path, values):
    np.savez(path, **{name: value for name, value in values.items() if value is not None})
    return path


def test_numbers_and_classes_of_ones_own(tmp_path):
    numbers = load(str(save(tmp_path / "numbers.npz", arrays())))
    assert (numbers.task, numbers.metric, numbers.num_outputs) == ("regression", "mae", 1)
    two = load(str(save(tmp_path / "two.npz", arrays(y=np.array([0, 1, 1])))))
    assert (two.task, two.metric, two.num_outputs) == ("classification", "auroc", 2)
    with pytest.raises(InputError, match="train has only one class, 0"):
        two.split(0, 0)
    parts = {"train": np.array([0]), "val": np.array([], dtype=np.int64), "test": np.array([1, 2])}
    both = load(str(save(tmp_path / "both.npz", arrays(y=np.array([0, 1, 0]), **parts))))
    assert both.metric == "auroc"
    three = load(str(save(tmp_path / "three.npz", arrays(y=np.array([0, 1, 2])))))
    assert (three.metric, three.num_outputs) == ("accuracy", 3)
    assert all(holds for _, holds in check(str(tmp_path / "three.npz")))


def test_graphs_in_two_parts_are_warned_of(tmp_path):
    path = save(tmp_path / "leak.npz", arrays(test=np.array([2, 0])))
    with pytest.warns(UserWarning, match="1 graphs are in train and in val or test, such as 0"):
        load_own(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": None}, "no array y"),
        ({"val": None}, "no array 'val'"),
        ({"train": np.array([], dtype=np.int64)}, "train is empty"),
        ({"test": np.array([3])}, "test must contain graph ids from 0 to 2"),
        ({"test": np.array([0.5])}, "test must contain graph ids"),
        ({"y": np.array([[0, 1], [1, 0], [1, 1]])}, "2 columns of classes"),
        ({"y": np.array([0.5, np.nan, 1.0], dtype=np.float32)}, "NaN"),
    ],
)
def test_mistakes_of_ones_own_files_are_named(tmp_path, changes, words):
    path = save(tmp_path / "bad.npz", arrays(**changes))
    with pytest.raises(InputError, match=words):
        load_own(path)
