"""Descriptors and fingerprints of molecules, by functions of RDKit that are written in C++.

    numbers   counts and sums over atoms (MQN, surface areas by logP, refractivity and charge, rings, connectivity,
              shape), which together take less than a millisecond for each molecule
    bits      the Morgan fingerprint of radius 2, packed eight bits to a byte

The 200 descriptors of `rdkit.Chem.Descriptors` are written in Python, take three times as long and do not improve
boosting on the practice tables. This module does not import torch, because worker processes use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from maggnn.data.molecules.smiles import canonically_numbered, parsed
from maggnn.data.worker_processes import worker_pool
from maggnn.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

RADIUS, BITS = 2, 2048
PROPERTIES = (
    "_CalcMolWt", "CalcNumLipinskiHBA", "CalcNumLipinskiHBD", "CalcNumHBD", "CalcNumHeteroatoms", "CalcNumAmideBonds",
    "CalcFractionCSP3", "CalcNumRings", "CalcNumAromaticRings", "CalcNumAliphaticRings", "CalcNumSaturatedRings",
    "CalcNumHeterocycles", "CalcNumAromaticHeterocycles", "CalcLabuteASA", "CalcTPSA", "CalcChi0v", "CalcChi1v",
    "CalcChi0n", "CalcChi1n", "CalcHallKierAlpha", "CalcKappa1",
)  # fmt: skip
"""Functions of `rdMolDescriptors` that take microseconds."""

NUMBERS = len(PROPERTIES) + 2 + 42 + 12 + 10 + 14
CHUNK = 200
LARGEST = 1e30


@dataclass(frozen=True)
class Descriptors:
    """The descriptors of some molecules.

    Attributes:
        numbers: [rows, NUMBERS], float32; NaN if RDKit cannot compute one. Columns of a table may follow.
        bits: packed fingerprints, [rows, BITS / 8], uint8.
    """

    numbers: np.ndarray
    bits: np.ndarray

    def __len__(self) -> int:
        return len(self.bits)

    def select(self, rows: Any) -> Descriptors:
        """Return some of the rows."""
        return Descriptors(self.numbers[rows], self.bits[rows])

    def with_columns(self, more: np.ndarray | None) -> Descriptors:
        """Append columns of numbers, [rows, columns]."""
        return self if more is None else Descriptors(np.concatenate([self.numbers, more], axis=1), self.bits)

    @property
    def fingerprints(self) -> np.ndarray:
        """Return the unpacked bits, [rows, BITS], float32."""
        return np.unpackbits(self.bits, axis=1).astype(np.float32)


def descriptors_of(smiles: Sequence[str], workers: int = 1) -> Descriptors:
    """Compute the descriptors of molecules that RDKit can read, in several processes if there are many molecules."""
    chunks = [smiles[first : first + CHUNK] for first in range(0, len(smiles), CHUNK)]
    if workers == 1 or len(chunks) < 4:
        tables = [describe(chunk) for chunk in chunks]
    else:
        try:
            with worker_pool(min(workers, len(chunks))) as pool:
                tables = list(pool.map(describe, chunks))
        except BrokenProcessPool as error:
            raise InputError("a worker process died (out of memory?): try again with one worker") from error
    return Descriptors(*(np.concatenate([getattr(table, name) for table in tables]) for name in ("numbers", "bits")))


def describe(smiles: Sequence[str]) -> Descriptors:
    """Compute descriptors in this process; those of molecules that RDKit cannot read are NaN."""
    from rdkit.rdBase import BlockLogs

    table = DescriptorTable(len(smiles))
    with BlockLogs():
        for place, text in enumerate(smiles):
            try:
                table.add(place, parsed(text.strip(), "written"))
            except (InputError, RuntimeError, ValueError):  # an odd valence, for one
                continue
    return table.descriptors


class DescriptorTable:
    """A table of descriptors that is filled molecule by molecule.

    Args:
        rows: the number of rows; the descriptors of molecules that are never added are NaN.
        with_numbers: whether to compute more than the fingerprint.
    """

    def __init__(self, rows: int, with_numbers: bool = True) -> None:
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

        self._generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
        self._with_numbers = with_numbers
        self._numbers = np.full((rows, NUMBERS), np.nan)
        self._bits = np.zeros((rows, BITS // 8), dtype=np.uint8)

    def add(self, place: int, mol: Mol) -> None:
        """Fill a row, with gaps where functions of RDKit fail.

        A fingerprint does not depend on the order of the atoms. Sums over atoms do in their last bits, so atoms are
        numbered canonically for these.
        """
        from rdkit.DataStructs import BitVectToBinaryText

        try:
            self._bits[place] = np.frombuffer(BitVectToBinaryText(self._generator.GetFingerprint(mol)), dtype=np.uint8)
            if self._with_numbers:
                self._numbers[place] = _numbers(canonically_numbered(mol))
        except (RuntimeError, ValueError):
            return

    @property
    def descriptors(self) -> Descriptors:
        """Return all rows."""
        numbers = np.where(np.abs(self._numbers) < LARGEST, self._numbers, np.nan)
        one_by_one = np.unpackbits(self._bits, axis=1, bitorder="little")  # as RDKit writes them
        return Descriptors(numbers.astype(np.float32), np.packbits(one_by_one, axis=1))


def _numbers(mol: Mol) -> list[float]:
    functions, single = _functions()
    values = [function(mol) for function in single]
    return [
        *values, *_crippen(mol, functions), *functions.MQNs_(mol), *functions.SlogP_VSA_(mol), *functions.SMR_VSA_(mol),
        *functions.PEOE_VSA_(mol),
    ]  # fmt: skip


def _crippen(mol: Mol, functions: Any) -> tuple[float, float]:
    """Return Crippen's logP and refractivity, to which hydrogens contribute by whether they are bound to carbon.

    RDKit's own function adds the hydrogens as atoms first, which takes longer than all other functions here together.
    """
    log_p, refractivity = map(sum, zip(*functions._CalcCrippenContribs(mol), strict=True))
    on_others = functions.CalcNumLipinskiHBD(mol)
    on_carbon = functions.CalcNumAtoms(mol) - mol.GetNumAtoms() - on_others
    return log_p + 0.123 * on_carbon + 0.1 * on_others, refractivity + 1.057 * on_carbon + 1.1 * on_others


@cache
def _functions() -> tuple[Any, list[Callable[[Mol], float]]]:
    from rdkit.Chem import rdMolDescriptors

    return rdMolDescriptors, [getattr(rdMolDescriptors, name) for name in PROPERTIES]
