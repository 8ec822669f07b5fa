"""Molecules for a gallery from a file of one's own, with their targets where the file has the model's columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from maggnn.apps.fit.fitted import Facts
from maggnn.apps.fit.row_files import open_source

USUAL_COLUMN = "smiles"
"""Of a table, for a model that was fitted to none."""


@dataclass(frozen=True)
class MoleculeRow:
    """One row: a SMILES, and its target [1] or [1, outputs] where that is known."""

    smiles: str
    y: Tensor | None


def read_molecules(path: Path, facts: Facts, most: int) -> list[MoleculeRow]:
    """The first `most` rows of a .smi, .csv or .parquet."""
    source = open_source(path, facts.smiles_column or USUAL_COLUMN)
    chunk = next(source.chunks(most), None)
    if chunk is None:
        return []
    known = all(name in source.names for name in facts.targets)
    columns = [chunk.columns[source.names.index(name)] for name in facts.targets] if known else []
    targets = list(zip(*columns, strict=True)) if columns else [()] * len(chunk.smiles)
    rows = zip(chunk.smiles, targets, strict=True)
    return [MoleculeRow(smiles, _target(tuple(map(str, cells)), facts)) for smiles, cells in rows]


def _target(cells: tuple[str, ...], facts: Facts) -> Tensor | None:
    if not cells:
        return None
    if facts.classes:
        return torch.tensor([facts.classes.index(cells[0])]) if cells[0] in facts.classes else None
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        return None
    return torch.tensor([values]) if all(map(math.isfinite, values)) else None
