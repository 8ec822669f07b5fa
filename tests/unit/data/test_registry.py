"""Every row of the table loads, is what it says and splits by its protocol."""

import subprocess
import sys

import pytest
import torch

from maggnn.data.registry import DATASETS, check, dataset_entry, load
from maggnn.data.synthetic.expressivity import sequence_class, super_sequences
from maggnn.errors import InputError

GENERATED = [name for name, entry in DATASETS.items() if entry.origin == "generated"]
PACKED = [name for name, entry in DATASETS.items() if entry.origin == "data root"]
# The largest file and eleven of QM9's twelve single targets, which share one file, are left to `-m slow`.
SLOW = (
    "zinc_full",
    *(f"cycle{n}_{what}" for n in (4, 5, 6) for what in ("nodes", "edges")),
    *(name for name in PACKED if name.startswith("qm9_") and name != "qm9_u0"),
)


def assert_facts_hold(name):
    assert [fact for fact, holds in check(name) if not holds] == []
    dataset, entry = load(name), DATASETS[name]
    assert dataset.name == name
    assert len(dataset.graphs) == entry.num_graphs
    assert entry.description
    assert "\n" not in entry.description
    outputs = dataset.y.shape[1] if dataset.task == "regression" else int(dataset.y.max()) + 1
    assert outputs == dataset.num_outputs
    assert (dataset.metric == "mae") == (dataset.task == "regression") == dataset.y.is_floating_point()
    assert dataset.class_names is None or len(dataset.class_names) == dataset.num_outputs


@pytest.mark.parametrize("name", GENERATED)
def test_generated_sets_are_what_they_say(name):
    assert_facts_hold(name)


@pytest.mark.dataset
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PACKED]
)
def test_packed_sets_are_what_they_say(packed_data, name):
    assert_facts_hold(name)


@pytest.mark.parametrize("name", ["sr25", "shrikhande_rook", "csl8", "supergraph2"])
def test_tiny_sets_train_and_test_on_everything(name):
    (split,) = load(name).splits(seed=0)
    everything = list(range(DATASETS[name].num_graphs))
    assert split.train.tolist() == split.val.tolist() == split.test.tolist() == everything


def test_csl_has_ten_folds_that_depend_on_the_seed():
    first, again, other = (load("csl").splits(seed) for seed in (0, 0, 1))
    assert len(first) == 10
    assert all(torch.equal(a.test, b.test) for a, b in zip(first, again, strict=True))
    assert not all(torch.equal(a.test, b.test) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("n", [3, 4])
def test_super_graphs_hold_out_whole_classes(n):
    (split,) = load(f"supergraph{n}").splits(seed=0)
    classes = [sequence_class(sequence) for sequence in super_sequences(n)]
    train, test = ({classes[index] for index in ids.tolist()} for ids in (split.train, split.test))
    assert train
    assert test
    assert not train & test


def test_super_graphs_of_any_size_can_be_asked_for():
    assert "supergraph1" not in DATASETS
    assert dataset_entry("supergraph5").num_graphs == 504
    assert all(holds for _, holds in check("supergraph1"))


@pytest.mark.dataset
def test_exp_pairs_stay_together(packed_data):
    splits = load("exp").splits(seed=0)
    assert [len(split.test) for split in splits] == [120] * 10
    for split in splits:
        assert split.test.view(-1, 2).diff(dim=1).eq(1).all()
        assert split.test[::2].remainder(2).eq(0).all()


@pytest.mark.dataset
def test_brec_is_one_task_a_pair(packed_data):
    dataset = load("brec")
    splits = dataset.splits(seed=0)
    assert len(splits) == len(dataset.extra["pair_category"]) == 400
    assert dataset.y[splits[7].test].tolist() == [0, 1]


@pytest.mark.parametrize(("wrong", "nearest"), [("cls", "csl"), ("SR25", "sr25"), ("supergraph", "supergraph")])
def test_unknown_name_gets_the_nearest(wrong, nearest):
    with pytest.raises(InputError, match=f"no data set '{wrong}': did you mean '{nearest}"):
        load(wrong)


def test_absent_packed_set_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"exp\.npz.*MAGGNN_DATA"):
        load("exp")


def test_importing_the_data_sets_stays_light():
    heavy = "{'torch_geometric', 'networkx'} & set(sys.modules)"
    code = f"import sys, maggnn.data, maggnn.graphs.conversions; already = {heavy}; sys.exit(bool(already))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
