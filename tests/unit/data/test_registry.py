"""Every row of the table loads, is what it says and splits by its protocol."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import torch

from builders import assert_facts_hold
from maggnn.data import registry
from maggnn.data.registry import DATASETS, all_datasets, check, dataset_entry, load
from maggnn.data.synthetic.expressivity import sequence_class, super_sequences
from maggnn.errors import InputError


@pytest.mark.parametrize("name", DATASETS)
def test_generated_sets_are_what_they_say(name):
    assert_facts_hold(name, DATASETS[name])


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


@pytest.mark.parametrize(("wrong", "nearest"), [("cls", "csl"), ("SR25", "sr25"), ("supergraph", "supergraph")])
def test_unknown_name_gets_the_nearest(wrong, nearest):
    with pytest.raises(InputError, match=rf"no data set '{wrong}' \(.*\): did you mean '{nearest}"):
        load(wrong)


def test_importing_the_data_sets_stays_light():
    heavy = "{'torch_geometric', 'networkx'} & set(sys.modules)"
    code = f"import sys, maggnn.data, maggnn.graphs.conversions; already = {heavy}; sys.exit(bool(already))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- sets of other distributions ------------------------------------------------------------------------

PLUGIN = """\
from maggnn.data import Dataset, DatasetEntry
from maggnn.data.synthetic.expressivity import csl8_pair
from maggnn.data.synthetic.sets import all_graphs_protocol


def load():
    return Dataset("pair", csl8_pair(), "classification", 2, all_graphs_protocol)


DATASETS = {"pair": DatasetEntry("two graphs", 2, "generated", load)}
AGAIN = {"csl": DATASETS["pair"]}
NO_TABLE = ["pair"]
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A distribution with one module of data sets; called with what its entry point names, it is installed."""
    (tmp_path / "further_sets.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda value: _install(tmp_path, value)
    sys.modules.pop("further_sets", None)


def _install(folder, value: str) -> None:
    """As pip writes it: metadata beside the module, found through the path alone."""
    metadata = folder / "further_sets-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: further-sets\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{registry.GROUP}]\nmine = {value}\n")


def test_a_distribution_brings_sets(installed):
    assert "pair" not in all_datasets()
    installed("further_sets:DATASETS")
    assert "further_sets" not in sys.modules and load("sr25").name == "sr25"
    assert "further_sets" not in sys.modules, "imported only where a name is not known to the package"
    assert_facts_hold("pair", dataset_entry("pair"))
    assert "pair" in all_datasets() and "pair" not in DATASETS


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("no_such_module:DATASETS", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("further_sets:NOTHING", "AttributeError: module 'further_sets' has no attribute 'NOTHING'"),
        ("further_sets:NO_TABLE", "it must name a dictionary from names to maggnn.data.DatasetEntry"),
    ],
)
def test_a_broken_entry_point_is_one_line(installed, value, reason):
    installed(value)
    for ask in (lambda: load("pair"), all_datasets):
        with pytest.raises(InputError) as caught:
            ask()
        assert str(caught.value) == f"the data sets of the entry point mine ({value}) cannot be used: {reason}"
    assert load("sr25").name == "sr25"


def test_a_name_is_given_once(installed):
    installed("further_sets:AGAIN")
    with pytest.raises(InputError, match=r"mine \(further_sets:AGAIN\) names a second data set 'csl'"):
        all_datasets()
    assert load("csl").num_outputs == 10


@pytest.mark.parametrize("name", ["zinc", "sr26", "qm9_u0", "cycle6_nodes", "links_unmarked", "exp", "brec"])
def test_sets_of_the_paper_say_what_to_install(name, monkeypatch):
    absent = EntryPoint(registry.PAPER.name, "no_such_module.datasets:DATASETS", registry.GROUP)
    monkeypatch.setattr(registry, "PAPER", absent)
    monkeypatch.setattr(registry, "entry_points", lambda group: [])
    with pytest.raises(InputError) as caught:
        load(name)
    assert str(caught.value) == f"the data set {name!r} comes with maggnn-paper: pip install maggnn-paper"
    assert all_datasets() == DATASETS and registry.known_entry("zinq") is None
