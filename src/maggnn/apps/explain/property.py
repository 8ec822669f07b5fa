"""Explains a fitted model's prediction for a molecule: contributions of atoms, and similar training molecules.

The answer is that of the whole model. Contributions are the mean over its networks: the classical parts of a blend read
descriptors and fingerprints of the whole molecule and have no contributions of atoms, which a note says. They are also
the mean over atoms that a symmetry of the molecule maps to each other: a mark is on one of these, which of them depends
on nothing in the molecule, and alone the marked atom would contribute differently from its equals.

Shapes: n atoms.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch

from maggnn.apps.explain.contributions import METHOD, atom_contributions
from maggnn.apps.explain.graph import as_read, from_smiles
from maggnn.apps.explain.neighbours import Neighbours, Similar
from maggnn.apps.fit.blend import NETWORK, READINGS, WITH_DESCRIPTORS
from maggnn.apps.fit.card.reported import labels
from maggnn.apps.fit.classical.cheap_baselines import NAMES
from maggnn.apps.fit.classical.descriptors import Descriptors, descriptors_of
from maggnn.apps.fit.fitted import Answer, FittedModel, UnseenWarning
from maggnn.apps.fit.training_rows import read_training_rows
from maggnn.apps.fit.uncertainty import COVERAGE
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.data.molecules.smiles import equivalent_atoms, parsed, written_numbers
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs

ONE_ATOM = (
    "The contribution of a single atom is 0 whatever the answer: its state is the mean state of the molecule's atoms."
)
EQUIVALENT = "Atoms that a symmetry of the molecule maps to each other have their mean contribution."
NO_TRAINING = "The folder has no known_molecules.csv, so training molecules cannot be shown."


@dataclass(frozen=True)
class Contributions:
    """The contributions of atoms to one output.

    Attributes:
        output: the name of the output: a target with its unit, or the logarithm of the odds of a class.
        values: the contribution of each atom, in the order of the SMILES, [n].
    """

    output: str
    values: list[float]


@dataclass(frozen=True)
class PropertyExplanation:
    """The explanation of a model's prediction for a molecule.

    Attributes:
        smiles: the SMILES as the user wrote it.
        answers: the predictions, one line for each target.
        atoms: the element of each atom, in the order of the SMILES, [n].
        contributions: one for each target of numbers, a single one for classes.
        targets: the names of the values of similar molecules.
        similar: the most similar training molecules.
        similarity: the largest similarity to all training molecules; None if it is unknown.
        notes: remarks for the reader.
    """

    smiles: str
    answers: list[str]
    atoms: list[str]
    contributions: list[Contributions]
    targets: list[str]
    similar: list[Similar]
    similarity: float | None
    notes: list[str]

    def ranked(self, place: int = 0) -> list[int]:
        """Return the atoms sorted by their absolute contribution to output `place`, the largest first."""
        values = self.contributions[place].values
        return sorted(range(len(values)), key=lambda atom: -abs(values[atom]))


class PropertyExplainer:
    """Explains molecules with one fitted model, which is loaded once.

    Example:
        ``PropertyExplainer.of(Path("model")).explain("CCO").contributions[0].values`` is a number for each atom.
    """

    def __init__(self, fitted: FittedModel, neighbours: Neighbours | None = None) -> None:
        if fitted.facts.source != "smiles":
            raise InputError("only models that were fitted to SMILES have a property of molecules to explain")
        if fitted.facts.number_columns:
            column = fitted.facts.number_columns[0]
            raise InputError(f"the model reads column {column!r} beside molecules, which explanations do not know")
        self.fitted, self.neighbours = fitted, neighbours

    @classmethod
    def of(cls, folder: Path, fitted: FittedModel | None = None) -> PropertyExplainer:
        """Make an explainer for a folder that `maggnn fit` wrote; `fitted` is its model, if it was loaded before."""
        known = read_training_rows(folder)
        return cls(FittedModel.load(folder) if fitted is None else fitted, None if known is None else Neighbours(known))

    def explain(self, smiles: str, seed: int = 0) -> PropertyExplanation:
        """Explain the model's prediction for a molecule.

        Args:
            smiles: A SMILES string.
            seed: The seed of random starts of the marks, if a model has them.
        """
        (smiles,) = chosen_fragments([smiles], self.fitted.facts.salts)  # atoms are numbered in what the model reads
        made = from_smiles(smiles, self.fitted.facts.features)
        molecules = descriptors_of([smiles]) if self.fitted.reads_molecules else None
        # The explanation of the search mentions it.
        with warnings.catch_warnings(action="ignore", category=UnseenWarning):
            answer = self.fitted.answer(made, molecules, seed)
            if not bool(answer.values.isfinite().all()):
                raise InputError("no prediction for this graph: the model's answer is not a finite number")
            contributions = self._contributions(made, molecules, seed)
        mol = parsed(smiles)
        contributions = _mean_of_equivalent(contributions, equivalent_atoms(mol))
        numbers = written_numbers(smiles)
        by_number = torch.empty_like(contributions)
        by_number[:, torch.tensor(numbers)] = contributions  # [O, n], atoms in the order of the SMILES
        elements = {number: atom.GetSymbol() for number, atom in zip(numbers, mol.GetAtoms(), strict=True)}
        near = [] if self.neighbours is None else self.neighbours.of(smiles)
        return PropertyExplanation(
            smiles=smiles.strip(),
            answers=self._answers(answer),
            atoms=[elements[number] for number in range(len(numbers))],
            contributions=self._named(by_number, answer),
            targets=[] if self.neighbours is None else self.neighbours.known.targets,
            similar=near,
            similarity=None if answer.similarity is None else float(answer.similarity[0]),
            notes=[*self._notes(), *([ONE_ATOM] if len(numbers) == 1 else [])],
        )

    def _contributions(self, made: PackedGraphs, molecules: Descriptors | None, seed: int) -> torch.Tensor:
        """Return the mean over networks, [O, n], of each target as the networks answer for it."""
        readings = self._readings()
        found = {name: self._of_reading(self.fitted.as_read(made, name, molecules), seed) for name in set(readings)}
        return torch.stack([found[name][place] for place, name in enumerate(readings)])

    def _readings(self) -> list[str]:
        """Return for each output how the networks answer: without or with descriptors."""
        weights = self.fitted.facts.blend.output_weights(self.fitted.model.num_outputs)
        return [WITH_DESCRIPTORS if own.get(WITH_DESCRIPTORS) else NETWORK for own in weights]

    def _of_reading(self, made: PackedGraphs, seed: int) -> torch.Tensor:
        """Return the mean over networks, [O, n], with atoms in their original order."""
        found = []
        for network in self.fitted.networks:
            packed, original = as_read(network, made)
            own = torch.empty(self.fitted.model.num_outputs, int(made.num_nodes[0]), dtype=torch.float64)
            own[:, list(original.rows)] = atom_contributions(network.model, packed, seed)
            found.append(own)
        return torch.stack(found).mean(dim=0)

    def _answers(self, answer: Answer) -> list[str]:
        facts, values = self.fitted.facts, answer.values[0].tolist()
        if facts.classes:
            order = sorted(range(len(values)), key=lambda place: -values[place])[:3]
            return [f"p({self._class(place)}) = {values[place]:.3f}" for place in order]
        if facts.labels:
            return [f"p({name}) = {value:.3f}" for name, value in zip(self._second_classes(), values, strict=True)]
        lines = [f"{name} = {value:.4g}" for name, value in zip(labels(facts), values, strict=True)]
        if answer.errors is None:
            return lines
        low, high = answer.interval(COVERAGE)
        between = [f", {100 * COVERAGE:.0f} % interval {low[0, k]:.4g} to {high[0, k]:.4g}" for k in range(len(lines))]
        return [line + more for line, more in zip(lines, between, strict=True)]

    def _class(self, place: int) -> str:
        """Return a class with its target, such as "toxic = 1": many tables name their classes 0 and 1."""
        targets, name = self.fitted.facts.targets, self.fitted.facts.classes[place]
        return f"{targets[0]} = {name}" if targets else name

    def _second_classes(self) -> list[str]:
        """Return the name of the second class of each of several two-class targets."""
        facts = self.fitted.facts
        return [f"{name} = {pair[1]}" for name, pair in zip(facts.targets, facts.labels, strict=True)]

    def _named(self, contributions: torch.Tensor, answer: Answer) -> list[Contributions]:
        """Return contributions to every target; for two classes to the second, for several to the most probable one."""
        facts = self.fitted.facts
        if not facts.classes:
            names = [f"log-odds of {name}" for name in self._second_classes()] if facts.labels else labels(facts)
            return [Contributions(name, row.tolist()) for name, row in zip(names, contributions, strict=True)]
        place = 1 if len(facts.classes) == 2 else int(answer.values[0].argmax())
        return [Contributions(f"log-odds of {self._class(place)}", contributions[place].tolist())]

    def _notes(self) -> list[str]:
        notes = [f"{METHOD} {EQUIVALENT}"]
        weights = self.fitted.facts.blend.weights
        others = [name for name, weight in weights.items() if weight and name not in READINGS]
        if others:
            share = sum(weights.get(name, 0.0) for name in READINGS)
            count = len(self.fitted.networks)
            what = "its network" if count == 1 else f"the mean of its {count} networks"
            said = (
                f"which have {100 * share:.0f} % of the weight"
                if share
                else "which the answer does not use: they show what a network learned from the same molecules"
            )
            names = " and ".join("the " + NAMES[name].partition(",")[0] for name in others)
            read = "reads the whole molecule and has" if len(others) == 1 else "read the whole molecule and have"
            notes.append(
                f"The answer is a blend. Contributions are of {what}, {said}; {names} {read} no contributions of atoms."
            )
        return notes if self.neighbours is not None else [*notes, NO_TRAINING]


def _mean_of_equivalent(contributions: torch.Tensor, kinds: list[int]) -> torch.Tensor:
    """Return the mean of the contributions [O, n] of the atoms of each kind, at each of these atoms."""
    kind = torch.tensor(kinds)
    sums = contributions.new_zeros(len(contributions), max(kinds) + 1).index_add(1, kind, contributions)
    return (sums / kind.bincount())[:, kind]
