"""The training molecules that are most similar to a new one, with their targets."""

from __future__ import annotations

from dataclasses import dataclass

from maggnn.apps.fit.classical.descriptors import BITS, RADIUS
from maggnn.apps.fit.training_rows import TrainingRows
from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

SHOWN = 5


@dataclass(frozen=True)
class Similar:
    """A training molecule.

    Attributes:
        similarity: the Tanimoto similarity of Morgan fingerprints, 0 to 1.
        values: the text of each of its targets.
    """

    smiles: str
    similarity: float
    values: list[str]


class Neighbours:
    """Fingerprints of the training molecules, computed once for all queries.

    Example:
        >>> known = TrainingRows(["CCO", "CCN", "c1ccccc1"], ["y"], [["1"], ["2"], ["3"]])
        >>> Neighbours(known).of("CCO", 1)
        [Similar(smiles='CCO', similarity=1.0, values=['1'])]
    """

    def __init__(self, known: TrainingRows) -> None:
        from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator
        from rdkit.rdBase import BlockLogs

        self.generator = GetMorganGenerator(radius=RADIUS, fpSize=BITS)
        self.known, self.prints, self.rows = known, [], []
        with BlockLogs():  # RDKit warns about each training molecule such as [H+]
            for row, smiles in enumerate(known.smiles):
                try:
                    self.prints.append(self.generator.GetFingerprint(parsed(smiles)))
                    self.rows.append(row)
                except InputError:  # in a file that was changed
                    continue

    def of(self, smiles: str, count: int = SHOWN) -> list[Similar]:
        """Return the most similar molecules, the most similar first; ties keep the order of the table."""
        from rdkit.DataStructs import BulkTanimotoSimilarity

        own = self.generator.GetFingerprint(parsed(smiles))
        near = BulkTanimotoSimilarity(own, self.prints)
        order = sorted(range(len(near)), key=lambda place: -near[place])[:count]
        rows = [(self.rows[place], near[place]) for place in order]
        return [Similar(self.known.smiles[row], similarity, self.known.values[row]) for row, similarity in rows]
