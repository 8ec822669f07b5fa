"""Pretraining: properties of molecules, the weights that compute them, and the comparison with random weights."""

import numpy as np
import pytest
import torch

from maggnn.data.own_file import load_own
from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn.model.pretrained import pretrained_predictor
from maggnn.training.run import train
from maggnn_paper.bench.practice_sets import PracticeSet
from maggnn_paper.pretraining import fine_tuning, properties, weights

SOURCE = "zinc12k_smiles.txt.xz"
needs_data = pytest.mark.skipif(
    not (data_root() / SOURCE).is_file(), reason="no packed data under the data root (MAGGNN_DATA)"
)


def test_properties_are_those_of_rdkit_and_none_of_an_unreadable_molecule():
    (ethanol, values), (unreadable, none), (single, _) = properties.properties_of(["OCC", "C(", "C"])
    assert ethanol == "CCO" and unreadable == "" and none.size == 0 and single == ""
    assert len(values) > 200 and np.isfinite(values).mean() > 0.9
    assert 46.0 < values[list(_names()).index("MolWt")] < 46.2


def _names():
    from rdkit.Chem import Descriptors

    return (name for name, _ in Descriptors.descList)


def test_values_are_cut_and_filled_and_useless_properties_left_out():
    generator = np.random.default_rng(0)
    usual = generator.normal(size=5_000)
    usual[0], usual[1] = 1e5, np.nan
    columns = np.stack([usual, np.full(5_000, 3.0), 1e9 * generator.normal(size=5_000)], axis=1)
    bounded = properties._bounded(columns)
    assert bounded.shape == (5_000, 1) and bounded.dtype == np.float32
    assert np.abs(bounded).max() < 5 and bounded[1, 0] == pytest.approx(np.nanmean(bounded), abs=1e-3)


DRAWN, PRACTICE, VALIDATED = 150, 20, 30


def practice(count: int):
    """Yield molecules that pretraining would draw too."""
    for number, text in enumerate(properties._drawn({SOURCE: DRAWN})[:count]):
        yield text, number


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A packed set of molecules of ZINC, without those of a practice table."""
    path = tmp_path_factory.mktemp("properties") / "properties.npz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(properties, "SETS", {"drawn": PracticeSet("drawn", "regression", PRACTICE, practice)})
        patch.setattr(properties, "VALIDATED", VALIDATED)
        properties.pack_properties(path, 1, {SOURCE: DRAWN})
    return path


@pytest.mark.dataset
@needs_data
def test_molecules_of_practice_tables_are_left_out(packed):
    dataset = load_own(packed)
    split = dataset.split(0, 0)
    assert len(dataset.graphs) == DRAWN - PRACTICE
    assert (len(split.train), len(split.val), len(split.test)) == (DRAWN - PRACTICE - VALIDATED, VALIDATED, 0)
    assert dataset.y.shape[1] > 50 and torch.isfinite(dataset.y).all()


@pytest.mark.dataset
@needs_data
def test_weights_are_trained_saved_and_start_other_networks(packed, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "PACKED", str(packed))
    (row,) = weights.reproduce(tmp_path / "run", 1, tmp_path / "predictors", epochs=10)
    assert row.metric == "mae" and 0 < row.mean < 5 and "validation split" in row.note
    given = pretrained_predictor(str(tmp_path / "predictors" / "molecules.safetensors"))
    assert not [name for name in given.weights if name.startswith(weights.HEAD)]
    path = str(tmp_path / "predictors" / "molecules.safetensors")
    config = given.config.replaced(training={"initial_weights": path, "predictor_steps": 2, "validate_every": 0})
    trained = train(config, quiet=True, dataset=load_own(packed))
    assert trained.model.num_outputs == load_own(packed).num_outputs


def chains(count: int):
    for number in range(count):
        yield "C" * (1 + number // 3) + "ONF"[number % 3] + "C", round(0.1 * number, 2)


@pytest.mark.slow
def test_out_of_fold_scores_have_all_parts():
    one = PracticeSet("chains", "regression", 40, chains)
    scores = fine_tuning.out_of_fold(one, 0, {"training": {"predictor_steps": 3}}, 1)
    assert set(scores) == {"networks", "network+descriptors", "blend"} and scores["blend"]["mae"] > 0


def test_an_unknown_practice_set_is_one_line(tmp_path):
    with pytest.raises(InputError, match="no practice set 'qed'"):
        fine_tuning.reproduce(tmp_path, datasets=["qed"])
