"""Practice tables for `maggnn-paper bench chemist`: SMILES with one target, made from the packed public data.

| set | target |
|---|---|
| zinc-qed | drug-likeness by RDKit (QED), with noise of a tenth of its spread |
| zinc-soluble | whether solubility by Delaney's formula, with noise of a third of its spread, is above its median |
| zinc-plogp | the packed target of ZINC, the penalised logP, with noise of a tenth of its spread |
| qm9-gap, qm9-mu | the packed targets of QM9 in eV and debye, as they are |
| molhiv-active | the packed classes of MOLHIV; one molecule in four is active |
| qm7, clintox, sider, tox21-ahr | columns of the published tables in `practice/` under the data root |

None of these sets was used to compare with other programs; they are for choosing and for watching. Rows are drawn with
a fixed seed, so a set is the same everywhere.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn_paper.bench.people import smiles_of

SEED = 20_261
TARGET = "y"
QM9_COLUMNS = {"mu": 0, "gap": 4}
ACTIVE_SHARE = 0.25

Maker = Callable[[int], Iterator[tuple[str, Any]]]
"""Takes the number of rows, and yields SMILES and targets."""


@dataclass(frozen=True)
class PracticeSet:
    """A table to be made.

    Attributes:
        name: with the number of rows at its end, except where a published table decides it.
        task: classification or regression.
        rows: of the table; of published tables about as many.
        make: SMILES and targets for so many rows.
    """

    name: str
    task: str
    rows: int
    make: Maker

    def write(self, path: Path) -> Path:
        """Write the table, columns smiles and y."""
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", TARGET])
            writer.writerows(self.make(self.rows))
        return path


def _drawn(count: int, of: int) -> np.ndarray:
    """So many rows of `of`, ascending."""
    return np.sort(np.random.default_rng(SEED).permutation(of)[:count])


def _array(file: str, name: str) -> np.ndarray:
    path = data_root() / file
    if not path.is_file():
        raise InputError(f"{path}: no such file; the packed data are needed there")
    with np.load(path) as arrays:
        return arrays[name]


def _noisy(values: Sequence[float] | np.ndarray, share: float) -> np.ndarray:
    """Values with normal noise, `share` of their spread."""
    known = np.asarray(values, dtype=float)
    return known + share * known.std() * np.random.default_rng(SEED + 1).normal(size=len(known))


def _zinc(count: int) -> list[str]:
    smiles = list(smiles_of("zinc12k_smiles.txt.xz"))
    return [smiles[row] for row in _drawn(count, len(smiles))]


def _drug_likeness(count: int) -> Iterator[tuple[str, float]]:
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.QED import qed

    smiles = _zinc(count)
    yield from zip(smiles, _rounded(_noisy([qed(MolFromSmiles(text)) for text in smiles], 0.1)), strict=True)


def _soluble(count: int) -> Iterator[tuple[str, str]]:
    smiles = _zinc(count)
    estimates = _noisy([_solubility(text) for text in smiles], 1 / 3)
    middle = np.median(estimates)
    yield from ((text, "soluble" if value > middle else "poor") for text, value in zip(smiles, estimates, strict=True))


def _solubility(smiles: str) -> float:
    """The logarithm of the solubility in water by Delaney's linear formula (2004)."""
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.rdMolDescriptors import CalcCrippenDescriptors, CalcExactMolWt, CalcNumRotatableBonds

    mol = MolFromSmiles(smiles)
    aromatic = sum(atom.GetIsAromatic() for atom in mol.GetAtoms()) / mol.GetNumHeavyAtoms()
    weight, bonds = CalcExactMolWt(mol), CalcNumRotatableBonds(mol)
    return 0.16 - 0.63 * CalcCrippenDescriptors(mol)[0] - 0.0062 * weight + 0.066 * bonds - 0.74 * aromatic


def _penalised(count: int) -> Iterator[tuple[str, float]]:
    rows = _drawn(count, len(y := _array("zinc12k.npz", "y")))
    yield from zip(_zinc(count), _rounded(_noisy(y[rows].reshape(-1), 0.1)), strict=True)


def _qm9(column: str) -> Maker:
    def make(count: int) -> Iterator[tuple[str, float]]:
        smiles, y = list(smiles_of("qm9_smiles.txt.xz")), _array("qm9.npz", "y")[:, QM9_COLUMNS[column]]
        rows = _drawn(count, len(smiles))
        yield from zip((smiles[row] for row in rows), _rounded(y[rows]), strict=True)

    return make


def _active(count: int) -> Iterator[tuple[str, str]]:
    smiles, y = list(smiles_of("molhiv_smiles.txt.xz")), _array("molhiv.npz", "y").reshape(-1)
    order = np.random.default_rng(SEED).permutation(len(y))
    wanted = round(ACTIVE_SHARE * count)
    rows = np.sort(np.concatenate([order[y[order] == 1][:wanted], order[y[order] == 0][: count - wanted]]))
    yield from ((smiles[row], "yes" if y[row] else "no") for row in rows)


def _published(file: str, column: str) -> Maker:
    """A column of a published table; rows without a value are not drawn."""

    def make(count: int) -> Iterator[tuple[str, str]]:
        path = data_root() / "practice" / file
        if not path.is_file():
            raise InputError(f"{path}: no such file; the published practice tables are needed there")
        with path.open(newline="", encoding="utf-8") as table:
            known = [(row["smiles"], row[column]) for row in csv.DictReader(table) if row[column]]
        yield from (known[row] for row in _drawn(count, len(known)))

    return make


def _rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 5) for value in values]


def _sized(name: str, task: str, make: Maker, *sizes: int) -> list[PracticeSet]:
    return [PracticeSet(f"{name}-{rows}", task, rows, make) for rows in sizes]


NUMBERS, CLASSES = "regression", "classification"

SETS = {
    one.name: one
    for one in (
        *_sized("zinc-qed", NUMBERS, _drug_likeness, 300, 2000),
        *_sized("zinc-soluble", CLASSES, _soluble, 300, 2000),
        *_sized("qm9-gap", NUMBERS, _qm9("gap"), 600, 5000),
        *_sized("molhiv-active", CLASSES, _active, 600, 2000),
        *_sized("zinc-plogp", NUMBERS, _penalised, 1000),
        *_sized("qm9-mu", NUMBERS, _qm9("mu"), 2000),
        *_sized("qm7", NUMBERS, _published("qm7.csv", "u0_atom"), 1000),
        *_sized("clintox", CLASSES, _published("clintox.csv", "CT_TOX"), 1478),
        *_sized("sider", CLASSES, _published("sider.csv", "Hepatobiliary disorders"), 1427),
        *_sized("tox21-ahr", CLASSES, _published("tox21.csv", "NR-AhR"), 5000),
    )
}
"""By name."""
