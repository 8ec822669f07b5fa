"""Whether atom contributions identify the atoms that determine a property.

    ester        the number of carboxylic esters, with normal noise of 0.1: numbers
    sulfonamide  whether there is a sulfonamide: classes
    urea         whether there is a urea: classes

For each group, molecules of ZINC-FULL with and without it, in equal numbers, become a table to which `maggnn fit`
fits one network (`--ensemble 1`: no mean over networks smooths the ranking). Of 200 further molecules that have the
group, the contributions of atoms (`maggnn.apps.explain.contributions`) are ranked from the highest down. Two things are
counted: in how many molecules the highest atom is one of the group (`motif-NAME-top`), and in how many all atoms of the
group come before all others (`motif-NAME`). The second is stricter than necessary: a group of four atoms can be
recognised by two of them. Molecules without the group have similar ones (amides, acids, sulfones), so that neither an
element nor a bond identifies the group.
"""

from __future__ import annotations

import csv
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.explain.property import PropertyExplainer
from maggnn.errors import InputError
from maggnn_paper.bench.people import run_command, smiles_of
from maggnn_paper.ledger import LedgerRow

TO_FIT, TO_RANK = 1000, 200
SEED = 3
NOISE = 0.1


@dataclass(frozen=True)
class Motif:
    """A group of atoms.

    Attributes:
        smarts: how it is found.
        known: which atoms of a match are the group; the others only say what it is bound to.
        counted: whether the property is the number of groups, or else whether there is one.
    """

    name: str
    smarts: str
    known: tuple[int, ...]
    counted: bool = False

    def atoms(self, smiles: str) -> set[int]:
        """Numbers of the atoms of all its groups in a molecule."""
        return {match[place] for match in self.matches(smiles) for place in self.known}

    def matches(self, smiles: str) -> Sequence[tuple[int, ...]]:
        """The places where it is found."""
        from rdkit.Chem import MolFromSmarts, MolFromSmiles

        return MolFromSmiles(smiles).GetSubstructMatches(MolFromSmarts(self.smarts))


MOTIFS = {
    motif.name: motif
    for motif in (
        Motif("ester", "[CX3](=O)[OX2][#6]", (0, 1, 2), counted=True),
        Motif("sulfonamide", "S(=O)(=O)[NX3]", (0, 1, 2, 3)),
        Motif("urea", "[NX3][CX3](=O)[NX3]", (0, 1, 2, 3)),
    )
}


def bench(limit: int | None = None, tell: Callable[[str], None] = print, steps: int | None = None) -> list[LedgerRow]:
    """Two rows for each motif.

    Args:
        limit: molecules to rank, if not `TO_RANK`.
        tell: is given one line a motif.
        steps: of training, if not the usual number; for a test that has to be short.
    """
    rows = []
    for motif in MOTIFS.values():
        with tempfile.TemporaryDirectory() as name:
            found = _measured(motif, Path(name), limit or TO_RANK, steps)
        for row in found:
            tell(f"{row.dataset:22} {row.mean:.3f}  {row.note}")
        rows += found
    return rows


def _measured(motif: Motif, folder: Path, count: int, steps: int | None) -> list[LedgerRow]:
    having, lacking = chosen(motif, count)
    table, fresh = folder / "table.csv", having[TO_FIT // 2 :]
    _write(motif, table, [*having[: TO_FIT // 2], *lacking])
    options = ["--smiles", "smiles", "--target", "y", "--seed", str(SEED), "--ensemble", "1"]
    options += [] if steps is None else ["--steps", str(steps)]
    said = run_command(["fit", str(table), *options, "-o", str(folder / "model"), "--json"]).answer
    explainer = PropertyExplainer.of(folder / "model")
    found = [ranks_first(explainer.explain(smiles).contributions[0].values, motif.atoms(smiles)) for smiles in fresh]
    first, highest = ([bool(one[place]) for one in found] for place in (0, 1))
    (metric, score), *_ = ((said["metric"], entry["value"]) for entry in said["test_scores"].values())
    model = f"the network's test {metric} is {score:.4g}"
    return [
        _row(f"motif-{motif.name}-top", highest, f"the highest of all atoms is one of the group; {model}", said),
        _row(f"motif-{motif.name}", first, f"all atoms of the group rank before all others; {model}", said),
    ]


def _row(dataset: str, found: Sequence[bool], note: str, said: dict[str, Any]) -> LedgerRow:
    return LedgerRow(
        table="chemist",
        dataset=dataset,
        method="mag-gnn",
        metric="score",
        mean=round(float(np.mean(found)), 4),
        tests_per_run=len(found),
        train_s=round(said["seconds"]["all"], 1),
        config="defaults, ensemble 1",
        note=f"share of {len(found)} molecules in which {note}",
    )


def ranks_first(contributions: Sequence[float], known: set[int]) -> tuple[bool, bool]:
    """Whether all known atoms contribute more than all others, and whether the highest atom is a known one."""
    values = np.asarray(contributions)
    is_known = np.isin(np.arange(len(values)), list(known))
    lowest_known = values[is_known].min()
    others = values[~is_known]
    return bool((others < lowest_known).all()), bool(is_known[values.argmax()])


def chosen(motif: Motif, count: int) -> tuple[list[str], list[str]]:
    """Molecules with the group, to fit to and `count` to rank, and molecules without it; in a drawn order."""
    lines = list(smiles_of("zinc_full_smiles.txt.xz"))
    having: list[str] = []
    lacking: list[str] = []
    for smiles in _drawn(lines):
        group, wanted = (having, TO_FIT // 2 + count) if motif.matches(smiles) else (lacking, TO_FIT // 2)
        if len(group) < wanted:
            group.append(smiles)
        if len(having) == TO_FIT // 2 + count and len(lacking) == TO_FIT // 2:
            return having, lacking
    raise InputError(f"too few molecules with and without the motif {motif.name}")


def _drawn(lines: Sequence[str]) -> Iterator[str]:
    for row in np.random.default_rng(SEED).permutation(len(lines)):
        yield lines[int(row)]


def _write(motif: Motif, path: Path, smiles: Sequence[str]) -> None:
    noise = np.random.default_rng(SEED + 1).normal(size=len(smiles))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "y"])
        for text, more in zip(smiles, noise, strict=True):
            groups = len(motif.matches(text))
            writer.writerow([text, round(groups + NOISE * more, 4) if motif.counted else "yes" if groups else "no"])
