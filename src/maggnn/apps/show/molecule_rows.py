"""Molecules for a gallery from a file of one's own, with their targets where the file has the model's columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from maggnn.apps.fit.fitted import Facts
from maggnn.apps.fit.row_files import open_source
from maggnn.data.molecules.target_column import TargetKind
from maggnn.errors import InputError

USUAL_COLUMN = "smiles"
"""Of a table, for a model that was fitted to none."""


@dataclass(frozen=True)
class MoleculeRow:
    """One row: a SMILES, its target [1] or [1, outputs] where that is known, and why it cannot be used (if so)."""

    smiles: str
    y: Tensor | None = None
    reason: str = ""


def read_molecules(path: Path, facts: Facts, most: int) -> list[MoleculeRow]:
    """The first `most` rows of a .smi, .csv or .parquet."""
    source = open_source(path, facts.smiles_column or USUAL_COLUMN)
    chunk = next(source.chunks(most), None)
    if chunk is None:
        return []
    known = all(name in source.names for name in facts.targets)
    columns = [chunk.columns[source.names.index(name)] for name in facts.targets] if known else []
    targets = list(zip(*columns, strict=True)) if columns else [()] * len(chunk.smiles)
    rows = zip(chunk.smiles, targets, chunk.reasons, strict=True)
    return [MoleculeRow(smiles, _target(tuple(map(str, cells)), facts), reason) for smiles, cells, reason in rows]


def _target(cells: tuple[str, ...], facts: Facts) -> Tensor | None:
    """The targets of a row by the rules that every command shares; None where one is missing or cannot be read."""
    if not cells:
        return None
    kind = TargetKind(facts.classes, labels=facts.labels)
    try:
        values = kind.values(facts.targets, cells)
    except InputError:
        return None
    return torch.tensor([int(values[0])]) if facts.classes else torch.tensor([values])
