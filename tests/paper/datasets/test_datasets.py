"""The sets of the paper's tables: each loads, is what it says, splits by its protocol, and is found by `maggnn`."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from builders import assert_facts_hold
from maggnn.data import registry
from maggnn.data.registry import load
from maggnn.errors import InputError
from maggnn_paper.datasets.registry import DATASETS

PROJECT = tomllib.loads((Path(__file__).parents[3] / "paper" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
GENERATED = [name for name, entry in DATASETS.items() if entry.origin == "generated"]
PACKED = [name for name, entry in DATASETS.items() if entry.origin == "data root"]
# The largest file and eleven of QM9's twelve single targets, which share one file, are left to `-m slow`.
SLOW = (
    "zinc_full",
    *(f"cycle{n}_{what}" for n in (4, 5, 6) for what in ("nodes", "edges")),
    *(name for name in PACKED if name.startswith("qm9_") and name != "qm9_u0"),
)


@pytest.mark.parametrize("name", GENERATED)
def test_generated_sets_are_what_they_say(name):
    assert_facts_hold(name, DATASETS[name])


@pytest.mark.dataset
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in PACKED]
)
def test_packed_sets_are_what_they_say(packed_data, name):
    assert_facts_hold(name, DATASETS[name])


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


def test_absent_packed_set_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"exp\.npz.*MAGGNN_DATA"):
        load("exp")


def test_the_package_finds_them():
    assert DATASETS.items() <= registry.all_datasets().items() and not DATASETS.keys() & registry.DATASETS.keys()


def test_the_package_knows_their_names():
    """To say what to install; and it takes no other name for one of theirs."""
    assert all(registry.PAPER_NAMES.fullmatch(name) for name in DATASETS)
    assert not any(registry.PAPER_NAMES.fullmatch(name) for name in [*registry.DATASETS, "zinc_half", "sr27", "cycle7"])
    with pytest.raises(InputError, match=r"no data set 'qm9_nothing'.*did you mean 'qm9"):
        load("qm9_nothing")


def test_the_entry_point_is_the_one_that_the_package_knows():
    declared = PROJECT["entry-points"][registry.GROUP]
    assert declared == {registry.PAPER.name: registry.PAPER.value} and PROJECT["name"] == registry.PAPER.name


def test_molecules_are_told_by_their_features():
    features = {name: entry.features for name, entry in DATASETS.items() if entry.features}
    assert {name for name in features if not name.startswith("qm9_")} == {"zinc", "zinc_full", "molhiv", "qm9"}
    assert features["zinc"] == features["zinc_full"] == "zinc" and features["molhiv"] == "ogb"
    assert len(DATASETS["qm9"].target_names) == 12 and DATASETS["qm9_mu"].target_names == ("mu",)


def test_a_new_process_finds_them_without_metadata():
    """As the workers of `maggnn-paper reproduce` do, and machines that have the sources on their path alone."""
    code = """if True:
        from importlib import metadata
        metadata.entry_points = lambda **_: []
        from maggnn.data.registry import load
        print(load("links").name)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "links\n", done.stderr
