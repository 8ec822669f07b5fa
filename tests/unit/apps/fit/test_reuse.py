"""A fitted model used again: saved and loaded estimators, answers from Python, models of graphs, fine-tuning."""

import csv
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from rdkit import Chem
from sklearn.metrics import get_scorer

from maggnn import InputError, MagClassifier, MagRegressor
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.tables.earlier_model import EarlierModel
from maggnn.config import EncoderConfig
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.warm_start import initialise_from

SMILES = ["C" * (1 + number // 3) + "ONF"[number % 3] for number in range(36)]
VALUES = np.array([1.5 * text.count("O") + 0.1 * len(text) for text in SMILES])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A table, a folder of `MagRegressor` and one of `MagClassifier` on graphs."""
    folder = tmp_path_factory.mktemp("reuse")
    with (folder / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [["smiles", "y"], *([text, value] for text, value in zip(SMILES, VALUES, strict=True))]
        )
    MagRegressor(steps=5, ensemble=2, random_state=3).fit(SMILES, VALUES).save(folder / "numbers")
    graphs = [make(size) for size in range(4, 16) for make in (nx.cycle_graph, nx.path_graph)]
    MagClassifier(steps=20).fit(graphs, ["ring", "chain"] * 12).save(str(folder / "graphs"))
    return folder


def test_estimators_come_back_as_they_were(folder):
    model = MagRegressor.load(folder / "numbers")
    assert (model.steps, model.ensemble, model.random_state, model.seed_) == (5, 2, 3, 3)
    again = MagRegressor(**model.get_params()).fit(SMILES, VALUES)
    assert np.array_equal(model.predict(SMILES), again.predict(SMILES)) and model.predict(SMILES).shape == (36,)
    assert np.array_equal(model.predict(SMILES, return_std=True)[1], again.predict(SMILES, return_std=True)[1])
    rings = MagClassifier.load(folder / "graphs")
    assert rings.classes_.tolist() == ["chain", "ring"]
    assert set(rings.predict([nx.cycle_graph(9), nx.path_graph(9)])) <= {"chain", "ring"}
    with pytest.raises(InputError, match="contains a model for regression, not one for MagClassifier"):
        MagClassifier.load(folder / "numbers")


def test_columns_of_probabilities_have_the_order_that_scorers_take_for_granted(call_command, tmp_path):
    labels = np.array(["10" if "O" in text else "2" for text in SMILES])
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["smiles", "y"], *zip(SMILES, labels, strict=True)])
    fit = ("fit", "t.csv", "--target", "y", "--task", "classification", "--steps", "30", "--workers", "1", "-o", "m")
    call_command("maggnn", *fit, "--ensemble", "2", cwd=tmp_path).output()
    model = MagClassifier.load(tmp_path / "m")
    assert model.fitted_.facts.classes == ("2", "10") and model.classes_.tolist() == ["10", "2"]
    assert (model.predict(SMILES) == labels).mean() > 0.8
    assert get_scorer("roc_auc")(model, SMILES, labels) > 0.8 and get_scorer("neg_log_loss")(model, SMILES, labels) > -1
    model.save(tmp_path / "again")
    again = MagClassifier.load(tmp_path / "again")
    assert np.array_equal(again.classes_, model.classes_)
    assert np.array_equal(again.predict_proba(SMILES), model.predict_proba(SMILES))


def test_a_folder_describes_the_model_that_is_in_it(folder, call_command, tmp_path):
    """The card and the molecules of a model that was replaced were taken for those of the new one."""
    fit = ("fit", folder / "t.csv", "--target", "y", "--steps", "1", "--ensemble", "1", "--workers", "1", "-o", "m")
    call_command("maggnn", *fit, cwd=tmp_path).output()
    described = {"README.md", "known_molecules.csv", "test_molecules.csv", "metrics.json", "test.png"}
    MagRegressor.load(tmp_path / "m").save(tmp_path / "m")
    assert described <= {path.name for path in (tmp_path / "m").iterdir()}  # it is the same model
    MagRegressor(steps=2, ensemble=2).fit(SMILES, VALUES).save(tmp_path / "m")
    assert not described & {path.name for path in (tmp_path / "m").iterdir()}
    (tmp_path / "m" / "model.safetensors").write_bytes(b"damaged")
    MagRegressor(steps=2, ensemble=2).fit(SMILES, VALUES).save(tmp_path / "m")
    (tmp_path / "README.md").write_text("of a project")
    MagRegressor(steps=2).fit(SMILES, VALUES).save(tmp_path)
    assert (tmp_path / "README.md").read_text() == "of a project"
    call_command("maggnn", *fit, "--overwrite", cwd=tmp_path).output()
    assert MagRegressor.load(tmp_path / "m").steps is None and not (tmp_path / "m" / "estimator.json").exists()


def test_labels_keep_their_types_and_damage_is_noticed(tmp_path):
    y = np.array([7, 10, 7, 10] * 9)  # as words, 10 would be the first
    model = MagClassifier(steps=1).fit(SMILES, y)
    model.save(tmp_path)
    assert MagClassifier.load(tmp_path).predict(SMILES[:3]).dtype == y.dtype
    text = (tmp_path / "estimator.json").read_text()
    for wrong in (
        text[:40],
        text.replace('"seed"', '"sead"'),
        text.replace("10", "8"),
        text.replace('"steps"', '"stops"'),
    ):
        (tmp_path / "estimator.json").write_text(wrong)
        with pytest.raises(InputError, match=r"damaged|have different labels"):
            MagClassifier.load(tmp_path)


def test_a_fitted_model_answers_for_what_python_has(folder):
    fitted = FittedModel.load(str(folder / "numbers"))
    expected = MagRegressor.load(folder / "numbers").predict(["CCO", "CCCN"])
    said = fitted.predict(["CCO", "CCCN"], seed=3)
    assert said.shape == (2, 1) and np.allclose(said[:, 0].double(), expected)
    molecules = [Chem.MolFromSmiles(text) for text in ("CCO", "CCCN")]
    assert torch.equal(fitted.predict(molecules, seed=3), said)
    assert fitted.answer(["OCC"], seed=3).similarity == pytest.approx([1.0])
    with pytest.raises(InputError, match=r"give a list of molecules or graphs, such as \['CCO'\]"):
        fitted.predict("CCO")
    with pytest.raises(InputError, match="not a SMILES string"):
        fitted.predict(["C("])
    graphs = FittedModel.load(folder / "graphs")
    ring = nx.to_graph6_bytes(nx.cycle_graph(6), header=False).decode().strip()
    assert torch.equal(graphs.predict([ring]), graphs.predict([nx.cycle_graph(6)]))


def test_predict_reads_files_of_graphs(folder, call_command, tmp_path):
    maggnn = partial(call_command, "maggnn", cwd=tmp_path)
    lines = [nx.to_graph6_bytes(graph, header=False).decode() for graph in (nx.cycle_graph(8), nx.path_graph(8))]
    (tmp_path / "new.g6").write_text("".join(lines))
    for name in ("out.csv", "out.parquet"):
        told = maggnn("predict", folder / "graphs", "new.g6", "-o", name, "--device", "cpu").output()
        assert "2 rows, 0 without a prediction" in told
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["graph", "predicted_y", "p_chain", "p_ring", "reason"]
    expected = FittedModel.load(folder / "graphs").predict([nx.cycle_graph(8), nx.path_graph(8)])
    assert np.allclose([float(row["p_ring"]) for row in rows], expected[:, 1], atol=1e-6)
    ended = maggnn("predict", folder / "graphs", "new.g6", "-o", "out.csv")
    assert ended.code == 2 and "--overwrite" in ended.err
    ended = maggnn("predict", folder / "graphs", "new.g6", "-o", "more.csv", "--device", "tpu")
    assert ended.code == 2 and "must be auto, cpu or cuda" in ended.err


def test_a_fit_goes_on_from_an_earlier_model(folder, call_command, tmp_path):
    maggnn = partial(call_command, "maggnn", cwd=folder)
    fit = ("fit", "t.csv", "--target", "y", "--steps", "1", "--ensemble", "1", "--workers", "1", "--json")
    told = maggnn(*fit, "--from", "numbers", "-o", tmp_path / "more").output()
    assert json.loads(told.splitlines()[-1])["task"] == "regression"
    before, after, fresh = (
        FittedModel.load(path) for path in (folder / "numbers", tmp_path / "more", folder / "numbers")
    )
    name = "predictor.encoder.layers.0.first.weight"
    moved = (after.model.state_dict()[name] - before.model.state_dict()[name]).abs().max()
    assert 0 < moved < 0.02 and fresh.config.encoder == after.config.encoder
    card = (tmp_path / "more" / "README.md").read_text()
    assert "initialised with the weights of numbers; warning: it may have learned from" in card
    assert "other molecules, whose out-of-fold errors are too small then" in card
    assert after.facts.started_from == ("numbers",)
    maggnn(*fit, "--from", tmp_path / "more", "-o", tmp_path / "most").output()
    assert FittedModel.load(tmp_path / "most").facts.started_from == ("numbers", "more")
    assert "it started itself from numbers, whose molecules" in (tmp_path / "most" / "README.md").read_text()
    large = EarlierModel(folder / "numbers", replace(before, known=np.zeros((10_000, 256), dtype=np.uint8)))
    assert "lists 10,000 of its molecules, so more may be known" in large.words(["CCO"], ["CCC"])
    alone = EarlierModel(folder / "numbers", replace(before, known=None))
    assert "does not list the molecules that it learned from" in alone.words(["CCO"], ["CCC"])
    ended = maggnn(*fit, "--from", "graphs", "-o", tmp_path / "none")
    assert ended.code == 2 and "was not fitted to a table of molecules" in ended.err


def test_weights_that_fit_are_taken_over():
    first, second = MagGNN(2), MagGNN(3)
    head = {
        name: value.clone()
        for name, value in second.state_dict().items()
        if ".second." in name and "layers" not in name
    }
    agent = {name: value.clone() for name, value in second.state_dict().items() if name.startswith("q_network")}
    assert initialise_from(second, first.state_dict()) > 10
    same = "predictor.encoder.layers.0.first.weight"
    assert torch.equal(first.state_dict()[same], second.state_dict()[same])
    assert all(torch.equal(second.state_dict()[name], value) for name, value in {**head, **agent}.items())
    with pytest.raises(InputError, match="no weights of the same shape"):
        initialise_from(second, {})


def test_features_of_graphs_are_standardised_as_in_the_new_training_rows():
    """Another column may take the place of the one that the earlier model read, such as a dose of a temperature."""
    first, second = MagGNN(2, graph_features=1), MagGNN(2, graph_features=1)
    for model, mean, scale in ((first, 300.0, 0.1), (second, 0.5, 4.0)):
        assert model.predictor.graph_features is not None
        model.predictor.graph_features.mean.fill_(mean)
        model.predictor.graph_features.scale.fill_(scale)
    initialise_from(second, first.state_dict())
    name = "predictor.first.weight"
    assert torch.equal(first.state_dict()[name], second.state_dict()[name])
    assert second.predictor.graph_features is not None
    assert (float(second.predictor.graph_features.mean), float(second.predictor.graph_features.scale)) == (0.5, 4.0)


@pytest.mark.parametrize(("before", "after"), [(0, 3), (3, 0), (2, 3), (3, 2)])
def test_readouts_with_other_features_of_graphs_share_their_columns(before, after):
    first, second = (MagGNN(2, graph_features=count) for count in (before, after))
    first.state_dict()["predictor.scale.norm.running_mean"].normal_()
    fresh = {name: value.clone() for name, value in second.state_dict().items()}
    initialise_from(second, first.state_dict())
    width = second.predictor.width - after + min(before, after)
    for name in ("predictor.first.weight", "predictor.scale.norm.running_mean"):
        own, given = second.state_dict()[name], first.state_dict()[name]
        assert torch.equal(own[..., :width], given[..., :width])
        assert torch.equal(own[..., width:], fresh[name][..., width:])
    other = MagGNN(2, encoder=EncoderConfig(hidden=2 * first.predictor.second.in_features))
    kept = other.predictor.first.weight.clone()
    with pytest.raises(InputError, match="no weights of the same shape"):
        initialise_from(other, {name: first.state_dict()[name] for name in ("predictor.first.weight",)})
    assert torch.equal(other.predictor.first.weight, kept)
