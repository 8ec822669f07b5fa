"""Tables of every kind through every command that reads one: each row is accounted for, or the table is refused."""

import json
import re
import shutil
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st
from rdkit import Chem
from rdkit.rdBase import BlockLogs

from hostile import (
    COMMAS,
    GOOD,
    MISSING,
    NO_NUMBERS,
    NUMBERS,
    Row,
    Table,
    answer_or_line,
    few_and_many,
    fuzz,
    is_one_line,
    mutated,
    records_of,
    smiles_texts,
    tables,
)
from maggnn import MagRegressor
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning
from maggnn.data.inputs import packed_inputs
from maggnn.errors import InputError

COLUMNS = ("--smiles", "smiles", "--target", "y", "--workers", "1", "--task", "regression")
SMILES = [smiles for smiles in GOOD if "*" not in smiles and "Si" not in smiles]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of numbers."""
    folder = tmp_path_factory.mktemp("fuzz") / "model"
    estimator = MagRegressor(steps=5).fit(SMILES, [float(len(smiles) % 7) for smiles in SMILES])
    estimator.fitted_.save(folder)
    return folder


@pytest.fixture(scope="module")
def alone(model: Path) -> dict[str, float]:
    """What the model says of each good molecule when it is asked about that one alone."""
    fitted = FittedModel.load(model)
    with warnings.catch_warnings(action="ignore", category=UnseenWarning):
        return {smiles: float(fitted.predict(packed_inputs([smiles])[0])[0, 0]) for smiles in GOOD}


@pytest.fixture
def place(tmp_path: Path, model: Path) -> Path:
    """A folder with the model in which commands work."""
    (tmp_path / "model").symlink_to(model)
    return tmp_path


def check_predict(kept, place: Path, alone: dict[str, float], table: Table) -> None:
    (place / "t.csv").write_bytes(table.content)
    (place / "out.csv").unlink(missing_ok=True)
    ended = kept("predict", "model", "t.csv", "--smiles", "smiles", "-o", "out.csv", "--json", cwd=place)
    assert (ended.code == 2) == bool(table.fault), (table.fault, ended)
    if ended.code == 2:
        return
    header, *found = records_of((place / "out.csv").read_bytes().decode())
    assert header == [*table.header, "predicted_y", "reason"]
    assert len(found) == len(table.rows)
    width = len(table.header)
    for row, cells in zip(table.rows, found, strict=True):
        assert cells[:width] == (row.cells + [""] * width)[:width]
        check_answer(row, *cells[width:], alone=alone)
    said = json.loads(ended.out)
    assert (said["rows"], said["without"]) == (len(table.rows), sum(not row.readable for row in table.rows))


def check_answer(row: Row, predicted: str, reason: str, alone: dict[str, float]) -> None:
    if row.readable:
        assert float(predicted) == pytest.approx(alone[row.smiles], rel=1e-4, abs=1e-4)
        assert bool(reason) == (row.smiles not in SMILES), (row, reason)  # it says what training never saw
        return
    assert not predicted and reason and "\n" not in reason
    assert not row.ragged or reason.startswith(f"line {row.line} has {len(row.cells)} cells")


@few_and_many(50, 500)
def test_predict(kept, place, alone, examples):
    fuzz(tables(), partial(check_predict, kept, place, alone), examples)


def atoms_of(smiles: str) -> int | None:
    """Atoms of a SMILES, by RDKit alone; None where it is none, or where RDKit would pass over a part of it."""
    if not re.fullmatch("[!-~]+", smiles.strip()):
        return None
    with BlockLogs():
        mol = Chem.MolFromSmiles(smiles.strip())
    return None if mol is None or not 0 < mol.GetNumAtoms() <= 1000 else mol.GetNumAtoms()


def check_mutated(kept, place: Path, content: bytes) -> None:
    """Whatever the bytes are: an answer has all rows of the table, as they are, in their order."""
    (place / "t.csv").write_bytes(content)
    (place / "out.csv").unlink(missing_ok=True)
    ended = kept("predict", "model", "t.csv", "--smiles", "smiles", "-o", "out.csv", cwd=place)
    try:
        header, *rows = records_of(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError):
        assert ended.code == 2
        return
    if ended.code == 2:
        return
    found = records_of((place / "out.csv").read_bytes().decode())
    assert found[0] == [*header, "predicted_y", "reason"] and len(found) == 1 + len(rows)
    width = len(header)
    for row, cells in zip(rows, found[1:], strict=True):
        assert cells[:width] == (row + [""] * width)[:width]
        sound = len(row) == width and atoms_of(row[header.index("smiles")]) is not None
        assert bool(cells[-2]) == sound or "RDKit fails" in cells[-1], (row, cells)
        assert cells[-2] or cells[-1]


@few_and_many(40, 400)
def test_any_bytes_in_a_table(kept, place, examples):
    fuzz(mutated(), partial(check_mutated, kept, place), examples)


def check_smiles(fitted: FittedModel, smiles: str) -> None:
    expected = atoms_of(smiles)
    packed = answer_or_line(lambda: packed_inputs([smiles])[0])
    if isinstance(packed, InputError):
        assert is_one_line(packed, 600 + 6 * len(smiles)) and (expected is None or "RDKit fails" in str(packed))
        return
    assert expected is None or int(packed.num_nodes[0]) == expected  # RDKit alone refuses odd valences of metals
    with BlockLogs():
        mol = Chem.MolFromSmiles(smiles.strip())
    if mol is not None:  # however it is written, it is the same molecule
        other = packed_inputs([Chem.MolToSmiles(mol, doRandom=True)])[0]
        assert float(fitted.predict(other)) == pytest.approx(float(fitted.predict(packed)), rel=1e-3, abs=1e-3)


@pytest.mark.filterwarnings("ignore:.*not in the training data")
@few_and_many(150, 1500)
def test_any_text_as_smiles(model, examples):
    fuzz(smiles_texts(), partial(check_smiles, FittedModel.load(model)), examples)


def check_pack(kept, place: Path, table: Table) -> None:
    (place / "t.csv").write_bytes(table.content)
    for name in ("new.npz", "new.errors.csv"):
        (place / name).unlink(missing_ok=True)
    ended = kept("data", "pack", "t.csv", *COLUMNS, "-o", "new.npz", cwd=place)
    good = [row for row in table.rows if row.readable and row.number is not None]
    assert (ended.code == 2) == bool(table.fault or table.has_commas or not good), (table.fault, ended)
    if ended.code == 2:
        return
    with np.load(place / "new.npz") as arrays:
        assert arrays["y"].tolist() == pytest.approx([row.number for row in good], rel=1e-6)
        assert arrays["num_nodes"].tolist() == [Chem.MolFromSmiles(row.smiles).GetNumAtoms() for row in good]
        parts = np.concatenate([arrays[part] for part in ("train", "val", "test")])
        assert sorted(parts.tolist()) == list(range(len(good)))
    left_out = [row.line for row in table.rows if row not in good]
    errors = records_of((place / "new.errors.csv").read_text(encoding="utf-8"))[1:] if left_out else []
    assert [int(cells[0]) for cells in errors] == left_out and all(cells[2] for cells in errors)


@few_and_many(80, 800)
def test_data_pack(kept, place, examples):
    cells = st.sampled_from([[*NUMBERS, *MISSING, *NO_NUMBERS], NUMBERS, [*NUMBERS, *COMMAS]])
    fuzz(cells.flatmap(lambda targets: tables(targets)), partial(check_pack, kept, place), examples)


def check_evaluate(kept, place: Path, alone: dict[str, float], table: Table) -> None:
    (place / "t.csv").write_bytes(table.content)
    ended = kept("evaluate", "model", "t.csv", "--smiles", "smiles", "--workers", "1", "--json", cwd=place)
    good = [row for row in table.rows if row.readable and row.number is not None]
    assert (ended.code == 2) == bool(table.fault or table.has_commas or not good), (table.fault, ended)
    if ended.code == 0:
        said = json.loads(ended.out)
        errors = [abs(row.number - alone[row.smiles]) for row in good if row.number is not None]
        assert said["mae"] == pytest.approx(np.mean(errors), rel=1e-3, abs=1e-3)
        assert (said["rows"], said["left_out"]) == (len(table.rows), len(table.rows) - len(good))


@pytest.mark.filterwarnings("ignore:.*not in the training data")
@few_and_many(30, 300)
def test_evaluate(kept, place, alone, examples):
    cells = st.sampled_from([[*NUMBERS, *MISSING, *NO_NUMBERS], [*NUMBERS, *COMMAS]])
    fuzz(cells.flatmap(lambda targets: tables(targets)), partial(check_evaluate, kept, place, alone), examples)


def check_learned(kept, place: Path, command: str, table: Table) -> None:
    (place / "t.csv").write_bytes(table.content)
    shutil.rmtree(place / "new", ignore_errors=True)
    options = ("--steps", "2", "-o", "new", "--json", *{"fit": ("--ensemble", "2"), "tune": ("--trials", "1")}[command])
    ended = kept(command, "t.csv", *COLUMNS, *options, cwd=place)
    assert (ended.code == 2) == bool(table.fault or table.has_commas), (table.fault, ended)
    if ended.code == 2 or command == "tune":
        return
    said = json.loads(ended.out.splitlines()[-1])
    good = [row for row in table.rows if row.readable and row.number is not None]
    assert (said["rows"], said["left_out"]) == (len(table.rows), len(table.rows) - len(good))
    assert said["train"] + said["val"] + said["test"] == len(good)
    left_out = [row.line for row in table.rows if row not in good]
    listed = records_of((place / "new" / "left_out.csv").read_text(encoding="utf-8"))[1:] if left_out else []
    assert [int(cells[0]) for cells in listed] == left_out
    FittedModel.load(place / "new")


@pytest.mark.parametrize("command", ["fit", "tune"])
@few_and_many(5, 50)
def test_learning_from_a_table(kept, place, command, examples):
    cells = st.sampled_from([[*NUMBERS, *MISSING, *NO_NUMBERS], [*NUMBERS, *COMMAS]])
    strategy = cells.flatmap(lambda targets: tables(targets, plain=60))
    fuzz(strategy, partial(check_learned, kept, place, command), examples)
