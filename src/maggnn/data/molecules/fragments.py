"""Salts and mixtures: all fragments of a SMILES as one graph, or only the largest.

keep      all fragments stay; equal parents with different counter-ions are different molecules
largest   the fragment with the most heavy atoms (RDKit's LargestFragmentChooser, which prefers organic ones); its
          charges stay as they are written
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from maggnn.data.molecules.smiles import parsed
from maggnn.errors import InputError

SALTS = ("keep", "largest")


def check_salts(salts: str) -> None:
    """Check that a rule for salts exists."""
    if salts not in SALTS:
        raise InputError(f"--salts is {salts!r}: give {', '.join(SALTS)}")


def chosen_fragments(smiles: Iterable[str], salts: str) -> Iterator[str]:
    """Yield every SMILES after applying the rule; one that RDKit cannot read is unchanged and rejected later."""
    check_salts(salts)
    return iter(smiles) if salts == "keep" else map(largest_fragment, smiles)


def largest_fragment(smiles: str) -> str:
    """Return the largest fragment of a molecule as SMILES; a molecule of one fragment is unchanged.

    Example:
        >>> largest_fragment("CC(=O)[O-].[Na+]"), largest_fragment("CCO")
        ('CC(=O)[O-]', 'CCO')
    """
    if "." not in smiles:
        return smiles
    from rdkit import Chem
    from rdkit.Chem.MolStandardize.rdMolStandardize import LargestFragmentChooser
    from rdkit.rdBase import BlockLogs

    try:
        with BlockLogs():
            return Chem.MolToSmiles(LargestFragmentChooser(preferOrganic=True).choose(parsed(smiles)))
    except (InputError, RuntimeError, ValueError):
        return smiles
