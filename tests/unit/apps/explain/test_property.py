"""Contributions by masking, similar molecules, drawings, and the page of several molecules."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from maggnn import InputError, MagClassifier, MagRegressor
from maggnn.apps.explain.contributions import atom_contributions
from maggnn.apps.explain.explanation import explain_subject
from maggnn.apps.explain.graph import read_subject
from maggnn.apps.explain.molecule_drawing import contributions_svg, plain_svg
from maggnn.apps.explain.neighbours import Neighbours
from maggnn.apps.explain.property import PropertyExplainer
from maggnn.apps.explain.property_page import molecules_page, property_part
from maggnn.apps.fit.answers.blended import Blend
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.training_rows import (
    TrainingRows,
    read_training_rows,
    training_rows,
    write_training_rows,
)
from maggnn.data.molecules.smiles import written_numbers

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "OCCO", "CC(C)O", "NCCO", "CCCCN", "OC1CCC1", "CCOC", "CNC"]
OXYGENS = [float(smiles.count("O")) for smiles in SMILES]
KNOWN = TrainingRows(SMILES, ["oxygens"], [[f"{count:g}"] for count in OXYGENS])


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("property")
    MagRegressor(steps=120, ensemble=2).fit(SMILES * 2, OXYGENS * 2).fitted_.save(folder / "numbers")
    kinds = ["yes" if count else "no" for count in OXYGENS]
    MagClassifier(steps=3).fit(SMILES, kinds).fitted_.save(folder / "words")
    MagClassifier(steps=3).fit(SMILES, ["a", "b", "c"] * 4).fitted_.save(folder / "three")
    write_training_rows(folder / "numbers", KNOWN)
    return folder


def test_an_atom_contributes_what_the_answer_loses_without_it(models):
    """By the definition, on one network, for one atom at a time."""
    subject = read_subject(models / "numbers", "OCCCN")
    model, packed = subject.model.eval(), subject.model.precomputed(subject.packed)
    found = atom_contributions(model, packed)
    assert found.shape == (1, 5)
    graph = packed[torch.tensor([0])]
    encoder, predictor = model.predictor.encoder, model.predictor
    with torch.no_grad():
        tuples = model.walk(graph)[-1].tuples
        answer = model.in_target_units(predictor(graph, tuples), graph)
        for atom in range(5):
            h = encoder.initial(graph, tuples).clone()
            h[atom] = h.mean(dim=0)
            pooled = predictor.pool(encoder.onward(h, graph, 0, tuples), graph, tuples)
            masked = model.in_target_units(predictor.read(pooled, graph), graph)
            assert found[0, atom] == pytest.approx(float(answer - masked), abs=1e-5)


def test_contributions_are_the_same_in_small_passes(models, monkeypatch):
    subject = read_subject(models / "numbers", "OCC1CCCC1")
    whole = atom_contributions(subject.model, subject.packed)
    monkeypatch.setattr("maggnn.apps.explain.contributions.MOST_ATOMS", 15)  # two copies a pass
    assert torch.allclose(atom_contributions(subject.model, subject.packed), whole, atol=1e-5)


def test_contributions_are_the_mean_of_the_networks_and_follow_the_atoms(models):
    explainer = PropertyExplainer.of(models / "numbers")
    told, other = explainer.explain("CC(C)CO"), explainer.explain("OCC(C)C")
    assert told.atoms == ["C", "C", "C", "C", "O"] and other.atoms == ["O", "C", "C", "C", "C"]
    first, second = (one.contributions[0].values for one in (told, other))
    assert first[4] == pytest.approx(second[0], abs=1e-6) and first[3] == pytest.approx(second[1], abs=1e-6)
    alone = []
    read = "network+descriptors" if explainer.fitted.facts.blend.weights.get("network+descriptors") else "network"
    facts = replace(explainer.fitted.facts, blend=Blend({"network": 0.0} | {read: 1.0}))  # as the whole model reads
    for network in explainer.fitted.networks:
        single = PropertyExplainer(replace(network, facts=facts))
        alone.append(single.explain("CC(C)CO").contributions[0].values)
    assert len(alone) == 2 and np.allclose(np.mean(alone, axis=0), first, atol=1e-6)
    assert told.ranked()[0] == 4  # the number of oxygens rests on the oxygen


@pytest.mark.parametrize(
    ("smiles", "equal"),
    [
        ("c1ccccc1C(=O)O", [(0, 4), (1, 3)]),
        ("OCCO", [(0, 3), (1, 2)]),
        ("C1CCCCC1", [tuple(range(6))]),
        ("C1CC1.C1CCC1.C1CC1", [(0, 1, 2, 7, 8, 9), (3, 4, 5, 6)]),
        ("[CH3:1]C([CH3:2])O", [(0, 2)]),
    ],
)
def test_atoms_that_a_symmetry_exchanges_contribute_the_same(models, smiles, equal):
    """Marks are on one of several equal atoms, which then contributed differently from the others."""
    values = PropertyExplainer.of(models / "numbers").explain(smiles).contributions[0].values
    classes = [*equal, *((atom,) for atom in range(len(values)) if not any(atom in group for group in equal))]
    means = [np.mean([values[atom] for atom in group]) for group in classes]
    for mean, group in zip(means, classes, strict=True):
        assert all(values[atom] == pytest.approx(mean, abs=1e-9) for atom in group)
    assert len(np.unique(np.round(means, 9))) == len(classes), "atoms that differ have contributions of their own"


def test_odds_of_two_classes_are_opposite_and_the_second_is_shown(models):
    subject = read_subject(models / "words", "CC(=O)N")
    both = atom_contributions(subject.model, subject.packed)
    assert torch.allclose(both[0], -both[1], atol=1e-6)
    told = PropertyExplainer.of(models / "words").explain("CC(=O)N")
    assert told.contributions[0].output.removeprefix("log-odds of ") in ("yes", "y = yes")
    numbers = written_numbers("CC(=O)N")
    rows = [numbers[row] for row in subject.original.rows]
    assert [told.contributions[0].values[row] for row in rows] == pytest.approx(both[1].tolist(), abs=1e-6)
    assert told.similar == [] and any("no known_molecules.csv" in note for note in told.notes)
    several = PropertyExplainer.of(models / "three").explain("CC(=O)N")
    assert several.contributions[0].output == f"log-odds of {several.answers[0][2:].partition(')')[0]}"


def test_similar_molecules_with_their_values(models):
    told = PropertyExplainer.of(models / "numbers").explain("OCC")
    assert told.similar[0].smiles == "CCO" and told.similar[0].similarity == 1.0 and told.similar[0].values == ["1"]
    near = [one.similarity for one in told.similar]
    assert near == sorted(near, reverse=True) and len(near) == 5
    assert Neighbours(TrainingRows(["not SMILES", "CC"], ["y"], [["1"], ["2"]])).of("CC")[0].values == ["2"]


def test_blends_say_whose_contributions_they_are(models):
    explainer = PropertyExplainer.of(models / "numbers")
    blend = explainer.fitted.facts.blend
    networks = "the mean of its 2 networks, which have 30 % of the weight; "
    for weights, words in (
        ({"network": 0.3, "boosting": 0.7}, networks + "the gradient boosting reads the whole molecule and has no"),
        ({"network": 0.3, "forest": 0.4, "kernel": 0.3}, "the random forest and the Gaussian process read the whole"),
        ({"network": 0.0, "forest": 1.0}, "which the answer does not use"),
    ):
        facts = replace(explainer.fitted.facts, blend=replace(blend, weights=weights))
        notes = PropertyExplainer(replace(explainer.fitted, facts=facts))._notes()
        assert any(words in note for note in notes), notes
    assert any("masking" in note for note in explainer.explain("CCO").notes)


def test_training_rows_come_back_as_they_were(tmp_path):
    y = np.array([[1.5, np.nan], [2.25, 3.0], [0.0, 1.0]])
    rows = training_rows(["C", "CC", "CCC"], ["=a", "b"], y, (), np.array([0, 2]))
    write_training_rows(tmp_path, rows)
    found = read_training_rows(tmp_path)
    assert found is not None and found.smiles == ["C", "CCC"] and found.values == [["1.5", ""], ["0", "1"]]
    assert found.targets == ["'=a", "b"]  # a spreadsheet would take the name for a formula
    classes = training_rows(["C", "CC"], ["t"], np.array([1, 0]), (("no", "yes"),), np.array([0, 1]))
    assert classes.values == [["yes"], ["no"]]
    pairs, y = (("active", "inactive"), ("no", "yes")), np.array([[0, 1], [1, np.nan]], dtype=np.float32)
    assert training_rows(["C", "CC"], ["t", "u"], y, pairs, np.array([0, 1])).values == [
        ["active", "yes"],
        ["inactive", ""],
    ]
    exact = np.array([1_000_000_000.5, 1_000_000_002.5])
    assert training_rows(["C", "CC"], ["t"], exact, (), np.array([0, 1])).values == [
        ["1000000000.5"],
        ["1000000002.5"],
    ]
    (tmp_path / "known_molecules.csv").write_text("smiles,y\nC\n")
    with pytest.raises(InputError, match=r"known_molecules\.csv: damaged"):
        read_training_rows(tmp_path)
    assert read_training_rows(tmp_path / "nowhere") is None


def test_a_drawing_has_discs_whose_areas_are_the_contributions():
    values = [1.0, -0.25, 0.0, 0.0]
    svg = contributions_svg("CC(N)O", values)
    discs = re.findall(r'<circle cx="[\d.]+" cy="[\d.]+" r="([\d.]+)" fill="(#\w+)"', svg)
    assert len(discs) == 2 and float(discs[0][0]) == pytest.approx(2 * float(discs[1][0]), abs=0.2)
    assert discs[0][1] != discs[1][1] and svg.startswith("<svg") and svg.endswith("</svg>")
    assert plain_svg("CCO").startswith("<svg") and plain_svg("C1CC(") == ""


@pytest.mark.parametrize("smiles", ["C", "CC", "CCO", "CC(C)(C)C"])
def test_no_disc_is_cut_off(smiles):
    """The area of a disc is the contribution, and the outer atoms of a formula are at the edge of RDKit's canvas."""
    svg = contributions_svg(smiles, [1.0] * sum(map(str.isalpha, smiles)))
    left, top, width, height = (float(part) for part in re.findall(r'viewBox="([^"]+)"', svg)[0].split())
    for found in re.findall(r'<circle cx="([^"]+)" cy="([^"]+)" r="([^"]+)"', svg):
        x, y, radius = map(float, found)
        assert left - 0.2 <= x - radius and x + radius <= left + width + 0.2
        assert top - 0.2 <= y - radius and y + radius <= top + height + 0.2


def test_letters_are_those_that_chemists_write(models):
    graph = explain_subject(read_subject(models / "numbers", "OCC(N)C[NH3+]")).graph
    by_number = dict(zip(graph.numbers, graph.signs, strict=True))
    assert [by_number[number] for number in range(6)] == ["OH", "", "", "NH2", "", "NH3+"]
    assert graph.node_name(graph.numbers.index(5)) == "N5"


def test_a_page_of_several_molecules(models):
    explainer = PropertyExplainer.of(models / "numbers")
    smiles = ["OCC(C)C", "CC(=O)N"]
    pairs = [(explainer.explain(one), explain_subject(read_subject(models / "numbers", one))) for one in smiles]
    text = molecules_page("<two>", pairs, [("C(", "not a <SMILES>")])
    assert text.count("<article>") == 2 and "&lt;two&gt;" in text and "not a &lt;SMILES&gt;" in text
    assert "masking" in text and "Similar training molecules" in text and "<script" not in text
    assert "O0" in property_part(pairs[0][0])


def test_models_of_graphs_have_no_property_of_molecules(tmp_path):
    import networkx as nx

    rings = [make(size) for size in range(4, 8) for make in (nx.cycle_graph, nx.path_graph)]
    fitted = MagClassifier(steps=2).fit(rings, ["ring", "chain"] * 4).fitted_
    with pytest.raises(InputError, match="fitted to SMILES"):
        PropertyExplainer(fitted)


def test_explanations_read_what_predict_reads(models):
    fitted = FittedModel.load(models / "words")
    largest = PropertyExplainer(replace(fitted, facts=replace(fitted.facts, salts="largest")))
    assert largest.explain("CCN.Cl").answers == largest.explain("CCN").answers
    assert largest.explain("CCN.Cl").atoms == ["C", "C", "N"]
    with pytest.raises(InputError, match="reads column 'kelvin' beside molecules"):
        PropertyExplainer(replace(fitted, facts=replace(fitted.facts, number_columns=("kelvin",))))
