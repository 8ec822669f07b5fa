"""Molecules from SMILES or InChI: one at a time (`featurise`), or a stream of any length over several processes.

All fragments of a salt are kept, as in the benchmarks: they become one graph of several components. A single atom is
a graph without edges. A molecule that cannot be used is an `InputError` or, in a stream, a `RowError` in its place.

Shapes: n atoms, E bonds, F columns.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from maggnn.data.molecules.atom_features import FeatureSet, Rows, feature_set
from maggnn.data.molecules.bulk_features import BulkInput, FeatureRows, bulk_input, features_in_bulk, in_bulk
from maggnn.data.worker_processes import worker_pool
from maggnn.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

CHUNK = 256
"""The number of molecules that are featurised together and sent to a process: enough to amortise the cost of both."""

CHUNKS_AHEAD = 4
"""The number of chunks that are read ahead for each process; it bounds the memory of a stream."""

MOST_ATOMS = 1000
"""The largest number of atoms of a molecule: tables of all pairs of atoms would make one of 3,000 take minutes."""

AtomOrder = Literal["canonical", "written"]
"""The order of a molecule's atoms: RDKit's canonical order, or that of the SMILES."""

INCHI = "InChI="
"""The prefix of InChI strings, which are accepted wherever SMILES are."""

MOST_CHARACTERS = 50 * MOST_ATOMS
"""The largest number of characters of a SMILES: more than that many atoms can need."""

NOT_ASCII = re.compile("[^!-~]")

FIXED_VALENCE = frozenset({"H", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I"})
"""Elements whose valence RDKit must check; the allowed valences of metals and boron changed between versions."""


OnMol = Callable[[int, "Mol"], None]
"""A callback that gets the number of a row and the molecule that RDKit has read from it."""


@dataclass(frozen=True)
class Molecule:
    """One featurised molecule.

    Attributes:
        canonical: RDKit's canonical SMILES, equal for equal molecules; empty if it was not requested.

    Shapes:
        x: [n, F], uint8; edge_index: [2, E], each bond once, int32; edge_attr: [E, F], uint8
    """

    canonical: str
    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray


@dataclass(frozen=True)
class RowError:
    """A row that cannot be used; `row` counts from 1 and is the line in a file."""

    row: int
    smiles: str
    reason: str


def featurise(smiles: str, features: str, order: AtomOrder = "canonical") -> Molecule:
    """Featurise a SMILES string.

    Args:
        features: "mol", "ogb", "zinc" or "qm9".
        order: the order of the atoms. In RDKit's canonical order, the graph of a molecule does not depend on how its
            SMILES is written; benchmarks have their atoms in the order of their SMILES.
    """
    feature_set(features)
    (found,) = _featurise_chunk([(1, smiles)], features, order=order)
    if isinstance(found, RowError):
        raise InputError(f"SMILES {smiles!r}: {found.reason}")
    return found


def featurise_rows(lines: Iterable[str], features: str, on_mol: OnMol | None = None) -> list[Molecule | RowError]:
    """Featurise a few thousand SMILES in this process, for predictions.

    The atoms have the order of the SMILES. Predictions need neither canonical SMILES nor RDKit's canonical order, since
    models reorder graphs themselves (`maggnn.graphs.canonical_order`).

    Args:
        lines: SMILES strings.
        features: "mol", "ogb", "zinc" or "qm9".
        on_mol: called with the number of each line, from 1, and the molecule that RDKit reads from it.
    """
    return _featurise_chunk(list(enumerate(lines, start=1)), features, False, "written", on_mol)


def featurise_all(lines: Iterable[str], features: str, workers: int = 1) -> Iterator[Molecule | RowError]:
    """Featurise a stream of SMILES; results are in its order, with errors in place of their molecules.

    `lines` is read only a little ahead of the results, so memory does not grow with its length.

    Args:
        lines: SMILES strings.
        features: "mol", "ogb", "zinc" or "qm9".
        workers: the number of processes. They are spawned, so scripts need an `if __name__ == "__main__"` for several.
    """
    feature_set(features)
    if workers < 1:
        raise InputError(f"{workers} workers: give at least one")
    numbered = enumerate(lines, start=1)
    if workers == 1:
        chunks = iter(lambda: list(islice(numbered, CHUNK)), [])
        return (found for chunk in chunks for found in _featurise_chunk(chunk, features))
    return _in_parallel(numbered, features, workers)


def _in_parallel(numbered: Iterator[tuple[int, str]], features: str, workers: int) -> Iterator[Molecule | RowError]:
    running: deque[Future[list[Molecule | RowError]]] = deque()
    pool = worker_pool(workers)
    try:
        while chunk := list(islice(numbered, CHUNK)):
            running.append(pool.submit(_featurise_chunk, chunk, features))
            if len(running) > CHUNKS_AHEAD * workers:
                yield from running.popleft().result()
        while running:
            yield from running.popleft().result()
    except BrokenProcessPool as error:
        raise InputError("a worker process died (out of memory?): try again with one worker") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _featurise_chunk(
    chunk: list[tuple[int, str]],
    features: str,
    canonical: bool = True,
    order: AtomOrder = "canonical",
    on_mol: OnMol | None = None,
) -> list[Molecule | RowError]:
    """Featurise numbered SMILES: they are parsed one by one, and featurised together if the feature set allows it."""
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        read = [_read_or_error(row, smiles, features, canonical, order, on_mol) for row, smiles in chunk]
        made = iter(features_in_bulk([one.bulk for one in read if isinstance(one, _Read)]))
        return [_molecule_or_error(one, next(made), features, order) if isinstance(one, _Read) else one for one in read]


class _Read(NamedTuple):
    """A SMILES that RDKit has parsed, with the data from which its features are computed."""

    row: int
    smiles: str
    canonical: str
    bulk: BulkInput


def _read_or_error(
    row: int, smiles: str, features: str, canonical: bool, order: AtomOrder, on_mol: OnMol | None
) -> _Read | Molecule | RowError:
    """Return a molecule to be featurised with others, or one that is featurised already."""
    try:
        text = smiles.strip()
        if text.startswith(INCHI):
            text = smiles = smiles_of_inchi(text)
        mol = parsed(text, order)
        written = _rdkit().MolToSmiles(mol) if canonical else ""
        if on_mol is not None:
            on_mol(row, mol)
        if in_bulk(features):
            return _Read(row, smiles, written, bulk_input(mol, smiles, features))
        return Molecule(written, *_features_by_atoms(mol, smiles, feature_set(features)))
    except (InputError, UnicodeEncodeError, RuntimeError) as error:
        return RowError(row, smiles, _reason(error))


def _molecule_or_error(read: _Read, rows: FeatureRows | None, features: str, order: AtomOrder) -> Molecule | RowError:
    """Return the molecule, featurised atom by atom if that has not been done in bulk."""
    if rows is not None:
        return Molecule(read.canonical, *rows)
    try:
        mol = parsed(read.smiles, order)
        return Molecule(read.canonical, *_features_by_atoms(mol, read.smiles, feature_set(features)))
    except (InputError, UnicodeEncodeError, RuntimeError) as error:
        return RowError(read.row, read.smiles, _reason(error))


def _reason(error: Exception) -> str:
    """Describe what is wrong with a SMILES in one line."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):  # an unpaired surrogate in the extensions of a CXSMILES
        return "not a SMILES string"
    return f"RDKit fails: {' '.join(str(error).split())[:80]}"  # an invariant of RDKit, in many lines


def _features_by_atoms(mol: Mol, smiles: str, chosen: FeatureSet) -> FeatureRows:
    atoms, bonds = _rows(mol, smiles, chosen)
    bond_table = np.array(bonds, dtype=np.int32).reshape(len(bonds), 2 + chosen.edge_columns)
    return FeatureRows(
        x=np.array(atoms, dtype=np.uint8).reshape(len(atoms), chosen.node_columns),
        edge_index=np.ascontiguousarray(bond_table[:, :2].T),
        edge_attr=bond_table[:, 2:].astype(np.uint8),
    )


def _rows(mol: Mol, smiles: str, chosen: FeatureSet) -> tuple[Rows, Rows]:
    """Return atoms and bonds; error messages number the atoms in the order of the SMILES."""
    try:
        return chosen.describe(mol, smiles)
    except InputError:
        return chosen.describe(parsed(smiles, "written"), smiles)


def parsed(smiles: str, order: AtomOrder = "canonical") -> Mol:
    """Parse SMILES or InChI to a sanitised molecule; raises an `InputError` if that is impossible."""
    smiles = smiles.strip()
    if len(smiles) > MOST_CHARACTERS:
        raise InputError(f"a SMILES of {len(smiles)} characters: at most {MOST_CHARACTERS} are allowed")
    _check_alone(smiles)
    if smiles.startswith(INCHI):
        smiles = smiles_of_inchi(smiles)
    mol = _rdkit().MolFromSmiles(smiles)
    if mol is None:
        mol = _parsed_with_odd_valence(smiles)
    if ":" in smiles:
        _forget_atom_maps(mol)
    if "[H" in smiles:
        mol = _without_spare_hydrogens(mol)
    atoms = mol.GetNumAtoms()
    if atoms == 0:
        raise InputError("no atoms: the SMILES is empty")
    if atoms > MOST_ATOMS:
        raise InputError(f"{atoms} atoms: at most {MOST_ATOMS} are allowed")
    return canonically_numbered(mol) if order == "canonical" else mol


def canonically_numbered(mol: Mol) -> Mol:
    """Return the same molecule with its atoms in RDKit's canonical order."""
    return _rdkit().RenumberAtoms(mol, _canonical_order(mol))


@cache
def _rdkit() -> Any:
    """Return RDKit's `Chem`, cached: an import statement for each molecule takes a tenth of the time of parsing it."""
    from rdkit import Chem

    return Chem


def smiles_of_inchi(text: str) -> str:
    """Convert an InChI to SMILES.

    A standard InChI does not fix mobile hydrogens, and RDKit alone reads acetamide as an imidic acid, so the tautomer
    is the one that RDKit's own rules prefer.
    """
    from rdkit import Chem
    from rdkit.Chem.MolStandardize.rdMolStandardize import TautomerEnumerator

    mol = Chem.MolFromInchi(text)
    if mol is None:
        raise InputError("not an InChI string")
    rules = TautomerEnumerator()
    rules.SetRemoveSp3Stereo(False)
    rules.SetRemoveBondStereo(False)
    return Chem.MolToSmiles(rules.Canonicalize(mol))


def _forget_atom_maps(mol: Mol) -> None:
    """Remove the numbers of atom maps, which are labels and not part of the molecule.

    RDKit treats atoms with different map numbers as different when it assigns stereocentres, so these are assigned
    again.
    """
    from rdkit import Chem

    mapped = [atom for atom in mol.GetAtoms() if atom.GetAtomMapNum()]
    for atom in mapped:
        atom.SetAtomMapNum(0)
    if mapped:
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)


def _without_spare_hydrogens(mol: Mol) -> Mol:
    """Remove explicit hydrogens that RDKit keeps although they carry no information: [H]/N=C(C)C becomes CC(C)=N.

    RDKit keeps a hydrogen that is drawn beside a double bond before it knows whether that bond has stereo. It has none
    where a group is there twice, such as two hydrogens at one end, of which RDKit counts only the one that is drawn.
    """
    from rdkit import Chem

    hydrogens = [atom for atom in mol.GetAtoms() if atom.GetAtomicNum() == 1 and not atom.GetIsotope()]
    ends = [atom.GetNeighbors()[0] for atom in hydrogens if atom.GetDegree() == 1]
    if not ends:
        return mol
    for end in ends:
        for bond in end.GetBonds() if end.GetTotalNumHs(includeNeighbors=True) > 1 else ():
            bond.SetStereo(Chem.BondStereo.STEREONONE)
            bond.SetBondDir(Chem.BondDir.NONE)
    try:
        mol = Chem.RemoveHs(mol)
    except Chem.MolSanitizeException:  # an odd valence
        return Chem.RemoveHs(mol, sanitize=False)
    Chem.AssignStereochemistry(mol, cleanIt=True, force=True)
    return mol


def _check_alone(smiles: str) -> None:
    """Reject text that RDKit ignores silently, so that it would read another molecule.

    It reads text after a blank as a name, so that it would read only the first of two molecules; text between bars
    belongs to the SMILES (CXSMILES). At both ends it drops control characters and letters that are not ASCII, such as
    a Cyrillic O, which looks like oxygen.
    """
    if NOT_ASCII.search(smiles) is None:  # as most are
        return
    first, rest = (*smiles.split(maxsplit=1), "", "")[:2]
    odd = NOT_ASCII.search(first)
    if odd is not None:
        raise InputError(f"not a SMILES string: it contains the character {odd[0]!a}")
    if rest and not (rest.startswith("|") and rest.endswith("|")):
        raise InputError(f"text follows the SMILES after a blank ({rest[:40]!r}): give only the SMILES")


def canonical_smiles(smiles: str) -> str:
    """Return RDKit's canonical SMILES of a molecule, equal for equal molecules."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        return Chem.MolToSmiles(parsed(smiles))


def written_numbers(smiles: str) -> list[int]:
    """Return the position of each atom of `parsed(smiles)` in the SMILES, counted from 0."""
    return _canonical_order(parsed(smiles, "written"))


def equivalent_atoms(mol: Mol) -> list[int]:
    """Return a number for each atom, equal for atoms that a symmetry of the molecule maps to each other.

    RDKit compares atoms of rings of different sizes as equal if they are in different fragments, so fragments count.
    """
    from rdkit import Chem

    ranks = Chem.CanonicalRankAtoms(mol, breakTies=False, includeAtomMaps=False)
    fragment = [""] * mol.GetNumAtoms()
    for atoms in Chem.GetMolFrags(mol):
        name = Chem.MolFragmentToSmiles(mol, atomsToUse=list(atoms))
        for atom in atoms:
            fragment[atom] = name
    numbers: dict[tuple[str, int], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in zip(fragment, ranks, strict=True)]


def _canonical_order(mol: Mol) -> list[int]:
    """Return the atoms in RDKit's canonical order, which ignores the numbers of atom maps."""
    ranks = _rdkit().CanonicalRankAtoms(mol, includeAtomMaps=False)
    return sorted(range(len(ranks)), key=list(ranks).__getitem__)


def _parsed_with_odd_valence(smiles: str) -> Mol:
    """Parse a SMILES that RDKit rejects only for the valence of elements like Al or B.

    MOLHIV has seven such complexes, which earlier versions of RDKit accepted.
    """
    from rdkit import Chem

    mol = Chem.MolFromSmiles(smiles, sanitize=False)
    if mol is None:
        raise InputError("not a SMILES string")
    for problem in Chem.DetectChemistryProblems(mol):
        is_valence = problem.GetType() == "AtomValenceException"
        if not is_valence or mol.GetAtomWithIdx(problem.GetAtomIdx()).GetSymbol() in FIXED_VALENCE:
            raise InputError(" ".join(problem.Message().split()))
    mol.UpdatePropertyCache(strict=False)
    try:
        Chem.SanitizeMol(mol, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
    except Chem.MolSanitizeException as error:
        raise InputError(" ".join(str(error).split())) from error
    Chem.AssignStereochemistry(mol, cleanIt=True)
    return Chem.RemoveHs(mol, sanitize=False)
