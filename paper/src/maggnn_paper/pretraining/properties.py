"""The data set of pretraining: public molecules with properties that RDKit computes from their structure.

Molecules are drawn from the packed sets; measured labels of these sets are not read. Molecules of the practice tables
(`maggnn_paper.bench.practice_sets`) are left out, so that the comparison with random weights is about molecules that
the pretrained network has never seen.

The targets are RDKit's list of descriptors: counts of fragments, surface areas, indices of connectivity, partial
charges. Values are cut at quantiles, since a few molecules have values thousands of spreads away from the others.

Shapes: G molecules, P properties.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from maggnn.data.molecules.smiles import Molecule, canonical_smiles, featurise_all
from maggnn.data.packing import pack, save_packed, smallest
from maggnn.data.worker_processes import worker_pool
from maggnn.errors import InputError
from maggnn_paper.bench.people import smiles_of
from maggnn_paper.bench.practice_sets import SETS

SOURCES = {"zinc_full_smiles.txt.xz": 50_000, "molhiv_smiles.txt.xz": 50_000, "qm9_smiles.txt.xz": 20_000}
"""The files of SMILES under the data root, and the largest number of molecules that is drawn from each."""

FEATURES = "mol"
SEED = 0
VALIDATED = 2_000
"""The number of molecules in the validation split."""

FEWEST_ATOMS, MOST_ATOMS = 2, 120
QUANTILE = 0.001
LARGEST = 1e6
"""A property with larger values (the information content `Ipc`) has no useful scale and is left out."""

CHUNK = 250


def pack_properties(path: Path, workers: int = 2, sources: dict[str, int] | None = None) -> None:
    """Write the packed data set, in about ten minutes on two cores.

    Args:
        path: the packed file, an .npz.
        workers: the number of processes.
        sources: files of SMILES and the number of molecules from each; those of `SOURCES` by default.
    """
    smiles = _drawn(SOURCES if sources is None else sources)
    found = _properties(smiles, workers)
    excluded = _practice_molecules()
    kept = [place for place, (canonical, _) in enumerate(found) if canonical and canonical not in excluded]
    featurised = list(featurise_all([smiles[place] for place in kept], FEATURES, workers))
    read = [place for place, molecule in zip(kept, featurised, strict=True) if isinstance(molecule, Molecule)]
    molecules = (molecule for molecule in featurised if isinstance(molecule, Molecule))
    y = _bounded(np.stack([found[place][1] for place in read]))
    order = np.random.default_rng(SEED).permutation(len(y))
    parts = {"train": np.sort(order[VALIDATED:]), "val": np.sort(order[:VALIDATED]), "test": order[:0]}
    save_packed(path, pack(molecules) | smallest(parts) | {"y": y, "features": np.array(FEATURES)})


def _drawn(sources: dict[str, int]) -> list[str]:
    """Return different SMILES of all sources, in random order."""
    generator = np.random.default_rng(SEED)
    drawn: list[str] = []
    for file, count in sources.items():
        smiles = list(smiles_of(file))
        drawn += [smiles[place] for place in generator.permutation(len(smiles))[:count]]
    drawn = list(dict.fromkeys(drawn))
    return [drawn[place] for place in generator.permutation(len(drawn))]


def _properties(smiles: Sequence[str], workers: int) -> list[tuple[str, np.ndarray]]:
    """Return the canonical SMILES and the properties of each molecule; an empty SMILES if RDKit cannot read it."""
    chunks = [smiles[first : first + CHUNK] for first in range(0, len(smiles), CHUNK)]
    with worker_pool(workers) as pool:
        return list(itertools.chain.from_iterable(pool.map(properties_of, chunks)))


def properties_of(smiles: Sequence[str]) -> list[tuple[str, np.ndarray]]:
    """Return the canonical SMILES and the properties [P] of some molecules; NaN where RDKit cannot compute one."""
    from rdkit.Chem import Descriptors, MolFromSmiles, MolToSmiles
    from rdkit.rdBase import BlockLogs

    found = []
    with BlockLogs():
        for text in smiles:
            mol = MolFromSmiles(text)
            if mol is None or not FEWEST_ATOMS <= mol.GetNumAtoms() <= MOST_ATOMS:
                found.append(("", np.empty(0)))
                continue
            values = np.array(list(Descriptors.CalcMolDescriptors(mol, missingVal=np.nan).values()))
            found.append((MolToSmiles(mol), np.where(np.isfinite(values), values, np.nan)))
    return found


def _practice_molecules() -> set[str]:
    """Return the canonical SMILES of all practice tables."""
    return set(itertools.chain.from_iterable(map(_canonical, (one.make(one.rows) for one in SETS.values()))))


def _canonical(rows: Iterator[tuple[str, object]]) -> Iterator[str]:
    for text, _ in rows:
        try:
            yield canonical_smiles(text)
        except InputError:  # the published tables have a few molecules that RDKit refuses
            continue


def _bounded(values: np.ndarray) -> np.ndarray:
    """Cut properties [G, P] at quantiles, fill gaps with the mean, and leave out constant and unbounded ones."""
    low, high = np.nanquantile(values, (QUANTILE, 1 - QUANTILE), axis=0)
    values = np.clip(values, low, high)
    values = np.where(np.isnan(values), np.nanmean(values, axis=0), values)
    useful = (values.std(axis=0) > 1e-6 * np.abs(values).max(axis=0)) & (np.abs(values).max(axis=0) < LARGEST)
    return values[:, useful].astype(np.float32)
