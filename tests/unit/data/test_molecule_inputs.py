"""Molecules in other clothes: InChI, RDKit molecules, frames, compressed tables, SDF."""

import csv
import gzip
import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from rdkit import Chem

from maggnn import InputError, MagClassifier, MagRegressor
from maggnn.apps.fit.answers.given_y import finite_numbers, several_labels, target_names
from maggnn.apps.fit.row_files import open_source
from maggnn.data.inputs import packed_inputs
from maggnn.data.molecules.rows import open_table
from maggnn.data.molecules.smiles import featurise
from maggnn.data.molecules.table import read_table

SMILES = ["CCO", "c1ccccc1O", "CC(=O)N", "C[C@H](N)O", "CCCCCl", "C1CCNCC1"]


def test_inchi_and_rdkit_molecules_are_the_molecules_of_their_smiles():
    molecules = [Chem.MolFromSmiles(text) for text in SMILES]
    inchi = [Chem.MolToInchi(molecule) for molecule in molecules]
    expected, source = packed_inputs(SMILES)
    columns = [pd.Series(SMILES), pl.Series(SMILES), pd.DataFrame({"a": SMILES})]
    frames = [pd.DataFrame({"id": range(6), "SMILES": SMILES}), pl.DataFrame({"id": range(6), "smiles": SMILES})]
    for X in (inchi, molecules, *columns, *frames):
        found, kind = packed_inputs(X)
        assert kind == source == "smiles"
        for name in ("x", "edge_index", "edge_attr"):
            assert torch.equal(getattr(found, name), getattr(expected, name))
    assert featurise(inchi[3], "mol").canonical == Chem.CanonSmiles(SMILES[3])
    with pytest.raises(InputError, match="not an InChI string"):
        featurise("InChI=1S/nothing", "mol")
    with pytest.raises(InputError, match="X mixes kinds"):
        packed_inputs([SMILES[0], molecules[1]])
    with pytest.raises(InputError, match="of which 0 are named 'smiles'"):
        packed_inputs(pd.DataFrame({"a": SMILES, "b": SMILES}))


def test_targets_of_frames_keep_their_names_and_gaps():
    numbers = pd.DataFrame({"logP": [1.0, np.nan, 3.0], "logS": pd.array([1, 2, None], dtype="Int64")})
    assert np.array_equal(finite_numbers(numbers, ""), [[1, 1], [np.nan, 2], [3, np.nan]], equal_nan=True)
    assert target_names(numbers, 2) == ("logP", "logS") and target_names(pd.Series([1.0], name="y1"), 1) == ("y1",)
    assert np.array_equal(
        finite_numbers(pl.DataFrame({"a": [1.0, None], "b": [2, 3]}), ""), [[1, 2], [np.nan, 3]], equal_nan=True
    )
    classes, found = several_labels(pd.DataFrame({"a": ["x", "y", None], "b": [True, False, True]}), "")
    assert [labels.tolist() for labels in classes] == [["x", "y"], [False, True]]
    assert np.array_equal(found.numpy(), [[0, 1], [1, 0], [np.nan, 1]], equal_nan=True)
    assert target_names([1.0, 2.0], 1) == ("y",) and target_names(np.zeros((2, 2)), 2) == ("y0", "y1")


def test_estimators_take_frames_and_molecules():
    frame = pd.DataFrame({"smiles": SMILES * 3, "logP": np.arange(18.0), "toxic": [0, 1] * 9})
    model = MagRegressor(steps=1).fit(frame, frame["logP"])
    assert model.fitted_.facts.targets == ("logP",)
    said = model.predict(SMILES)
    assert np.array_equal(said, model.predict([Chem.MolFromSmiles(text) for text in SMILES]))
    assert np.array_equal(said, model.predict(pl.DataFrame({"smiles": SMILES})))
    assert MagClassifier(steps=1).fit(pl.from_pandas(frame), frame["toxic"]).predict(SMILES).shape == (6,)


def write_sdf(path: Path) -> None:
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        for number, smiles in enumerate(SMILES):
            molecule = Chem.MolFromSmiles(smiles)
            molecule.SetProp("_Name", f"molecule {number}")
            text = Chem.MolToMolBlock(molecule)
            wrong = text.replace(" C ", " Qq") if number == 4 else text
            file.write(wrong + f">  <logP>\n{number}.5\n\n" + (">  <name>\nold\n\n" if number == 2 else "") + "$$$$\n")


@pytest.mark.parametrize("name", ["t.sdf", "t.sdf.gz"])
def test_sdf_is_a_table(tmp_path, name):
    write_sdf(tmp_path / name)
    table = open_table(tmp_path / name)
    assert table.names == ["smiles", "name", "logP", "name (property)"] and table.count() == 6
    records = list(table.records())
    assert records[0].cells == ["CCO", "molecule 0", "0.5", ""] and records[2].cells[3] == "old"
    assert [bool(record.reason) for record in records] == [False] * 4 + [True, False]
    packed = read_table(tmp_path / name, "smiles", ["logP"])
    assert packed.canonical == [Chem.CanonSmiles(text) for place, text in enumerate(SMILES) if place != 4]
    assert [(error.row, error.reason) for error in packed.errors] == [(6, "RDKit cannot read this record")]
    (chunk,) = open_source(tmp_path / name, "smiles").chunks(10)
    assert chunk.smiles[:2] == ["CCO", "Oc1ccccc1"] and chunk.reasons[4]


def test_an_sdf_that_is_cut_short_is_refused_and_names_of_properties_are_rdkits(tmp_path):
    path = tmp_path / "t.sdf"
    write_sdf(path)
    whole = path.read_text()
    path.write_text(whole.replace("<logP>", "<IC50 <nM>>"))
    table = open_table(path)
    assert table.names[2] == "IC50 <nM>" and next(table.records()).cells[2] == "0.5"
    path.write_text(whole[: whole.rindex(".5")])  # 5.5 became 5
    with pytest.raises(InputError, match="ends within a record: the file was cut short"):
        open_table(path)
    path.write_text(Chem.MolToMolBlock(Chem.MolFromSmiles("CCO")))
    assert [record.cells[0] for record in open_table(path).records()] == ["CCO"]


@pytest.mark.parametrize("short", ["", "no structure\n", "no structure\n\n\n", ">  <logP>\n7\n\n", "a\nb\nc\nd\ne\n"])
def test_an_sdf_record_without_a_structure_is_one_row(tmp_path, short):
    """RDKit reads a record of fewer than four lines together with the next one, which was lost without a word."""
    path = tmp_path / "t.sdf"
    write_sdf(path)
    records = path.read_text().split("$$$$\n")
    path.write_text("$$$$\n".join([*records[:2], short, *records[2:]]) + "\n\n")
    found = list(open_table(path).records())
    assert [record.cells[2] for record in found] == ["0.5", "1.5", "", "2.5", "3.5", "", "5.5"]
    assert [bool(record.reason) for record in found] == [False, False, True, False, False, True, False]


def test_compressed_tables_are_read_and_damaged_ones_refused(tmp_path):
    text = "smiles,y\n" + "".join(f"{smiles},{place}.5\n" for place, smiles in enumerate(SMILES))
    path = tmp_path / "t.CSV.gz"
    path.write_bytes(gzip.compress(text.encode()))
    (tmp_path / "t.csv").write_text(text)
    plain, packed = (read_table(tmp_path / name, "smiles", ["y"]) for name in ("t.csv", "t.CSV.gz"))
    assert packed.canonical == plain.canonical and np.array_equal(packed.arrays["y"], plain.arrays["y"])
    for damaged in (gzip.compress(text.encode())[:-12], b"no gzip at all"):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match="cannot be read as a CSV table"):
            read_table(path, "smiles", ["y"])
    (tmp_path / "t.txt.gz").write_bytes(b"")
    with pytest.raises(InputError, match=r"cannot read \.txt\.gz, only \.csv, \.csv\.gz"):
        open_table(tmp_path / "t.txt.gz")


def test_a_model_from_sdf_answers_for_compressed_tables(tmp_path, call_command):
    with gzip.open(tmp_path / "t.sdf.gz", "wt") as file:
        for number in range(40):
            smiles = "C" * (1 + number // 2) + "ON"[number % 2]
            file.write(Chem.MolToMolBlock(Chem.MolFromSmiles(smiles)) + f">  <y>\n{number / 7}\n\n$$$$\n")
    fit = ("fit", "t.sdf.gz", "--target", "y", "--steps", "2", "--workers", "1", "--ensemble", "1", "-o", "m", "--json")
    fitted = json.loads(call_command("maggnn", *fit, cwd=tmp_path).output().splitlines()[-1])
    assert (fitted["rows"], fitted["left_out"]) == (40, 0)
    (tmp_path / "new.csv.gz").write_bytes(gzip.compress(b'smiles\nCCO\n"InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3"\n'))
    call_command("maggnn", "predict", "m", "new.csv.gz", "-o", "out.csv", "--workers", "1", cwd=tmp_path).output()
    with (tmp_path / "out.csv").open() as file:
        assert len({row["predicted_y"] for row in csv.DictReader(file)}) == 1
