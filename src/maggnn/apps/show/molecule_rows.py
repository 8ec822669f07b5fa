"""Molecules for a gallery: from a user's file, with targets if it has the columns, or from the test split."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.row_files import open_source
from maggnn.apps.fit.training_rows import TEST_FILE, read_training_rows
from maggnn.data.molecules.target_column import TargetKind
from maggnn.errors import InputError

FROM_TEST = "A molecule of the test split."


@dataclass(frozen=True)
class MoleculeRow:
    """One row: a SMILES, its target [1] or [1, outputs] if it is known, and why it cannot be used, if so.

    Attributes:
        note: a remark for the reader of the gallery.
    """

    smiles: str
    y: Tensor | None = None
    reason: str = ""
    note: str = ""


def read_molecules(path: Path, facts: Facts, most: int) -> list[MoleculeRow]:
    """Read the first `most` rows of a .smi, .csv or .parquet file."""
    source = open_source(path, facts.column_of_smiles)
    chunk = next(source.chunks(most), None)
    if chunk is None:
        return []
    known = all(name in source.names for name in facts.targets)
    columns = [chunk.columns[source.names.index(name)] for name in facts.targets] if known else []
    targets = list(zip(*columns, strict=True)) if columns else [()] * len(chunk.smiles)
    rows = zip(chunk.smiles, targets, chunk.reasons, strict=True)
    return [MoleculeRow(smiles, _target(tuple(map(str, cells)), facts), reason) for smiles, cells, reason in rows]


def test_molecules(folder: Path, facts: Facts) -> list[MoleculeRow]:
    """Return molecules of the model's test split with their targets; none if the folder does not list them."""
    linked = (folder / TEST_FILE).is_symlink()  # in an untrusted folder it could show any table of this machine
    found = None if linked else read_training_rows(folder, TEST_FILE)
    if found is None:
        return []
    rows = zip(found.smiles, found.values, strict=True)
    return [MoleculeRow(smiles, _target(tuple(cells), facts), note=FROM_TEST) for smiles, cells in rows]


def _target(cells: tuple[str, ...], facts: Facts) -> Tensor | None:
    """Return the targets of a row by the common rules of all commands; None if one is missing or invalid."""
    if not cells:
        return None
    kind = TargetKind(facts.classes, labels=facts.labels)
    try:
        values = kind.values(facts.targets, cells)
    except InputError:
        return None
    return torch.tensor([int(values[0])]) if facts.classes else torch.tensor([values])
