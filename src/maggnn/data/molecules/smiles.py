"""Molecules from SMILES or InChI: one at a time (`featurise`), or a stream of any length over several processes.

All fragments of a salt are kept, as the benchmarks do: they become one graph of several components. A single atom is
a graph without edges. What cannot be used is an `InputError`, or, in a stream, a `RowError` in its place.

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
from maggnn.data.molecules.bulk_features import Described, Taken, described_in_bulk, in_bulk, take
from maggnn.data.worker_processes import worker_pool
from maggnn.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

CHUNK = 256
"""Molecules that are described together and go to a process at a time: enough that either costs little."""

CHUNKS_AHEAD = 4
"""Chunks a process that are read before their results are asked for; bounds the memory of a stream."""

MOST_ATOMS = 1000
"""Of a molecule: tables of all pairs of atoms make one of 3,000 take minutes, and it would hold up all others."""

AtomOrder = Literal["canonical", "written"]
"""Of a molecule's atoms: RDKit's canonical order, or that of the SMILES."""

INCHI = "InChI="
"""How an InChI begins, which is read wherever SMILES are."""

MOST_CHARACTERS = 50 * MOST_ATOMS
"""Of a SMILES: more than so many atoms can need."""

NOT_ASCII = re.compile("[^!-~]")

FIXED_VALENCE = frozenset({"H", "C", "N", "O", "F", "P", "S", "Cl", "Br", "I"})
"""Elements whose valence RDKit is to insist on; how many bonds a metal or boron may have changed between versions."""


OnMol = Callable[[int, "Mol"], None]
"""Does something with a molecule that RDKit has read, and with the number of its row."""


@dataclass(frozen=True)
class Molecule:
    """One featurised molecule.

    Attributes:
        canonical: RDKit's canonical SMILES, equal for equal molecules; empty where nobody asked for it.

    Shapes:
        x: [n, F], uint8; edge_index: [2, E], each bond once, int32; edge_attr: [E, F], uint8
    """

    canonical: str
    x: np.ndarray
    edge_index: np.ndarray
    edge_attr: np.ndarray


@dataclass(frozen=True)
class RowError:
    """A row that cannot be used; `row` counts from 1, in a file it is the line."""

    row: int
    smiles: str
    reason: str


def featurise(smiles: str, features: str, order: AtomOrder = "canonical") -> Molecule:
    """The molecule of a SMILES string.

    Args:
        features: "mol", "ogb", "zinc" or "qm9".
        order: of the atoms. In RDKit's canonical order a molecule has the same graph, and so the same answer, however
            its SMILES is written; benchmarks have their atoms in the order of their SMILES.
    """
    feature_set(features)
    (found,) = _featurise_chunk([(1, smiles)], features, order=order)
    if isinstance(found, RowError):
        raise InputError(f"SMILES {smiles!r}: {found.reason}")
    return found


def featurise_rows(lines: Iterable[str], features: str, on_mol: OnMol | None = None) -> list[Molecule | RowError]:
    """Featurise a few thousand SMILES in this process, for answers.

    Answers need neither canonical SMILES nor RDKit's order of the atoms, since models read graphs in an order of their
    own (`maggnn.graphs.canonical_order`): the atoms have the order of the SMILES.

    Args:
        lines: one SMILES each.
        features: "mol", "ogb", "zinc" or "qm9".
        on_mol: is given every molecule that RDKit reads, with the number of its line, counted from 1.
    """
    return _featurise_chunk(list(enumerate(lines, start=1)), features, False, "written", on_mol)


def featurise_all(lines: Iterable[str], features: str, workers: int = 1) -> Iterator[Molecule | RowError]:
    """Featurise a stream of SMILES; results come in its order, errors in the place of their molecule.

    `lines` is read only a little ahead of what has been taken, so memory does not grow with its length.

    Args:
        lines: one SMILES each.
        features: "mol", "ogb", "zinc" or "qm9".
        workers: processes. They are spawned, so with more than one a script needs an `if __name__ == "__main__"`.
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
    """Molecules of numbered SMILES: parsed one by one, and described together where the feature set allows it."""
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        read = [_read_or_error(row, smiles, features, canonical, order, on_mol) for row, smiles in chunk]
        made = iter(described_in_bulk([one.taken for one in read if isinstance(one, _Read)]))
        return [_molecule_or_error(one, next(made), features, order) if isinstance(one, _Read) else one for one in read]


class _Read(NamedTuple):
    """A SMILES that RDKit has parsed, with what its features are made from."""

    row: int
    smiles: str
    canonical: str
    taken: Taken


def _read_or_error(
    row: int, smiles: str, features: str, canonical: bool, order: AtomOrder, on_mol: OnMol | None
) -> _Read | Molecule | RowError:
    """A molecule to be described with others, or one that is described already."""
    try:
        text = smiles.strip()
        if text.startswith(INCHI):
            text = smiles = smiles_of_inchi(text)
        mol = parsed(text, order)
        written = _rdkit().MolToSmiles(mol) if canonical else ""
        if on_mol is not None:
            on_mol(row, mol)
        if in_bulk(features):
            return _Read(row, smiles, written, take(mol, smiles, features))
        return Molecule(written, *_described_by_atoms(mol, smiles, feature_set(features)))
    except (InputError, UnicodeEncodeError, RuntimeError) as error:
        return RowError(row, smiles, _reason(error))


def _molecule_or_error(
    read: _Read, described: Described | None, features: str, order: AtomOrder
) -> Molecule | RowError:
    """The molecule, described atom by atom where that has not been done in bulk."""
    if described is not None:
        return Molecule(read.canonical, *described)
    try:
        mol = parsed(read.smiles.strip(), order)
        return Molecule(read.canonical, *_described_by_atoms(mol, read.smiles, feature_set(features)))
    except (InputError, UnicodeEncodeError, RuntimeError) as error:
        return RowError(read.row, read.smiles, _reason(error))


def _reason(error: Exception) -> str:
    """What is wrong with a SMILES, in one line."""
    if isinstance(error, InputError):
        return str(error)
    if isinstance(error, UnicodeEncodeError):  # half of a pair of code units among the extensions of a CXSMILES
        return "not a SMILES string"
    return f"RDKit fails: {' '.join(str(error).split())[:80]}"  # a broken promise inside RDKit, in many lines


def _described_by_atoms(mol: Mol, smiles: str, chosen: FeatureSet) -> Described:
    atoms, bonds = _rows(mol, smiles, chosen)
    bond_table = np.array(bonds, dtype=np.int32).reshape(len(bonds), 2 + chosen.edge_columns)
    return Described(
        x=np.array(atoms, dtype=np.uint8).reshape(len(atoms), chosen.node_columns),
        edge_index=np.ascontiguousarray(bond_table[:, :2].T),
        edge_attr=bond_table[:, 2:].astype(np.uint8),
    )


def _rows(mol: Mol, smiles: str, chosen: FeatureSet) -> tuple[Rows, Rows]:
    """Atoms and bonds; a message about one of them names it by its number in the SMILES as it is written."""
    try:
        return chosen.describe(mol, smiles)
    except InputError:
        return chosen.describe(parsed(smiles.strip(), "written"), smiles)


def parsed(smiles: str, order: AtomOrder = "canonical") -> Mol:
    """A sanitised molecule from SMILES or InChI, or an `InputError`."""
    if len(smiles) > MOST_CHARACTERS:
        raise InputError(f"a SMILES of {len(smiles)} characters: at most {MOST_CHARACTERS} are possible")
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
        raise InputError(f"{atoms} atoms: at most {MOST_ATOMS} are possible")
    return canonically_numbered(mol) if order == "canonical" else mol


def canonically_numbered(mol: Mol) -> Mol:
    """The same molecule with its atoms in RDKit's canonical order."""
    return _rdkit().RenumberAtoms(mol, _canonical_order(mol))


@cache
def _rdkit() -> Any:
    """RDKit's `Chem`, found once: an import statement for each molecule takes a tenth of the time of parsing it."""
    from rdkit import Chem

    return Chem


def smiles_of_inchi(text: str) -> str:
    """The SMILES of an InChI.

    A standard InChI does not say where mobile hydrogens are, and RDKit alone reads acetamide as an imidic acid; so the
    tautomer is the one that RDKit's own rules prefer.
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
    """Remove the numbers of atom maps, which name atoms and are no part of the molecule.

    RDKit takes atoms with different numbers for different ones when it looks for stereocentres, so these are looked
    for again.
    """
    from rdkit import Chem

    mapped = [atom for atom in mol.GetAtoms() if atom.GetAtomMapNum()]
    for atom in mapped:
        atom.SetAtomMapNum(0)
    if mapped:
        Chem.AssignStereochemistry(mol, cleanIt=True, force=True)


def _without_spare_hydrogens(mol: Mol) -> Mol:
    """The molecule without hydrogens that RDKit kept although they say nothing: [H]/N=C(C)C is CC(C)=N.

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
    """Refuse what RDKit passes over without a word, and so reads as another molecule.

    It takes text after a blank for a name, so of two molecules it would read the first; what stands between bars
    belongs to the SMILES (CXSMILES). At both ends it drops control characters and letters that are not ASCII, such as
    a Cyrillic O, which looks like oxygen.
    """
    if NOT_ASCII.search(smiles) is None:  # as most are
        return
    first, rest = (*smiles.split(maxsplit=1), "", "")[:2]
    odd = NOT_ASCII.search(first)
    if odd is not None:
        raise InputError(f"not a SMILES string: it holds the character {odd[0]!a}")
    if rest and not (rest.startswith("|") and rest.endswith("|")):
        raise InputError(f"text follows the SMILES after a blank ({rest[:40]!r}): give the SMILES alone")


def canonical_smiles(smiles: str) -> str:
    """RDKit's canonical SMILES of a molecule, equal for equal molecules."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        return Chem.MolToSmiles(parsed(smiles.strip()))


def written_numbers(smiles: str) -> list[int]:
    """The number that each atom of `parsed(smiles)` has in the SMILES as it is written, counted from 0."""
    return _canonical_order(parsed(smiles.strip(), "written"))


def _canonical_order(mol: Mol) -> list[int]:
    """The atoms in RDKit's canonical order; numbers of atom maps do not count."""
    ranks = _rdkit().CanonicalRankAtoms(mol, includeAtomMaps=False)
    order = [0] * len(ranks)
    for atom, rank in enumerate(ranks):
        order[rank] = atom
    return order


def _parsed_with_odd_valence(smiles: str) -> Mol:
    """Parse what RDKit rejects, if all it objects to is the valence of elements like Al or B.

    MOLHIV has seven such complexes, which the RDKit of its time accepted.
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
