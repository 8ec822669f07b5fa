"""A model with graphs for the page: users place marks, let the agent move them, and see the predictions.

One thread at a time uses the model; all results are plain values for JSON.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.apps.explain.depiction import Original, depicted
from maggnn.apps.explain.graph import as_read
from maggnn.apps.explain.trace import MOST_MOVES, Policy, Step, step_at, trace
from maggnn.apps.explain.words import gain_notes, output_names, score_unit
from maggnn.apps.fit.card.reported import labels
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning, load_first
from maggnn.apps.fit.training_rows import TEST_FILE
from maggnn.apps.show.molecule_rows import MoleculeRow, read_molecules, test_molecules
from maggnn.apps.show.runs import MODEL, Run
from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.dataset import Dataset
from maggnn.data.molecules.smiles import RowError, featurise_all
from maggnn.data.packing import pack
from maggnn.data.sources import graphs_of
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator
from maggnn.model.saving import load_model
from maggnn.model.tuples import sample_tuples

MOST_GRAPHS = 1000
"""The largest number of graphs of a test split or a file."""

MOST_TYPED = 200
MOST_ATOMS = 1000
KEPT_PICTURES = 64


@dataclass(frozen=True)
class Entry:
    """A graph of the gallery: number `graph` of `graphs`.

    Attributes:
        original: the graph as it was given; None if the model reads it like that.
        note: a remark for the reader.
    """

    title: str
    graphs: PackedGraphs
    graph: int = 0
    original: Original | None = None
    note: str = ""


class Gallery:
    """Graphs of one run.

    Args:
        names: the names of the outputs: classes or targets.
        features: the feature set of molecules; empty for other graphs.
        config: the config of the model, which determines the kind of scores and the units of expected gains.
        fitted: a model of `maggnn fit`, for which molecules can be added.
        dataset: the data set whose test split is shown, with its metric.
    """

    def __init__(
        self,
        model: MagGNN,
        config: Config,
        names: Sequence[str],
        features: str,
        entries: list[Entry],
        fitted: FittedModel | None = None,
        dataset: Dataset | None = None,
    ) -> None:
        self.model, self.names, self.features, self.entries = model, list(names), features, entries
        self.fitted, self.dataset, self.reward = fitted, dataset, config.training.reward
        self.notes = gain_notes(model, config)
        self.lock = threading.Lock()
        self.left_out = 0
        self.measured: dict[str, Any] | None = None
        """The metric after moves, once it has been requested."""
        self._alone = lru_cache(KEPT_PICTURES)(self._prepared_alone)
        self.picture = lru_cache(KEPT_PICTURES)(self._picture)

    @property
    def takes_molecules(self) -> bool:
        return self.fitted is not None and self.fitted.facts.source == "smiles"

    def facts(self) -> dict[str, Any]:
        """Return what the page needs to know about the model, and the titles of the graphs."""
        agent = self.model.agent
        return {
            "task": self.model.task,
            "names": self.names,
            "m": agent.num_tuples,
            "k": agent.tuple_order,
            "t": agent.num_moves,
            "moves": self.model.q_network is not None,
            "remembers": agent.history != "zero" or (agent.actions == "in_turn" and agent.num_tuples > 1),
            "most_moves": MOST_MOVES,
            "score_unit": score_unit(self.model),
            "notes": self.notes,
            "takes_molecules": self.takes_molecules,
            "left_out": self.left_out,
            "titles": [entry.title for entry in self.entries],
        }

    def add(self, smiles: str, y: Tensor | None = None, note: str = "") -> int:
        """Add a molecule at the end of the gallery. Returns its number."""
        if self.fitted is None or not self.takes_molecules:
            raise InputError("molecules can be added only for a model of `maggnn fit`")
        (molecule,) = featurise_all([smiles], self.fitted.facts.features)
        if isinstance(molecule, RowError):
            raise InputError(f"SMILES {_short(smiles)!r}: {molecule.reason}")
        packed = replace(graphs_of(pack([molecule])), y=y)
        if packed.largest_graph > MOST_ATOMS:
            raise InputError(f"a molecule of {packed.largest_graph} atoms: at most {MOST_ATOMS} can be shown")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", UnseenWarning)
            readable, original = as_read(self.fitted, packed)
        if said:
            note = f"{note} It has a category that is not in the training data, replaced by the most frequent.".strip()
        original = replace(original, features=self.features, smiles=smiles)
        entry = Entry(_short(smiles), readable, original=original, note=note)
        with self.lock:
            self.entries.append(entry)
            return len(self.entries) - 1

    def start(self, number: int, seed: int, at_random: bool) -> Step:
        """Return the state before the first move: the model's own start, or random marks."""
        agent = self.model.agent
        alone = self._alone(number)
        tuples = None
        if at_random:
            batch = alone[torch.tensor([0])]
            tuples = sample_tuples(batch, agent.num_tuples, agent.tuple_order, make_generator(seed))
        with self.lock:
            return trace(self.model, alone, 0, 0, seed=seed, tuples=tuples, reward=self.reward).steps[0]

    def place(self, number: int, tuples: list[list[int]]) -> Step:
        """Return the state with the user's marks."""
        self._check(tuples)
        with self.lock:
            return step_at(self.model, self._alone(number), 0, tuples, self.reward)

    def walk(self, number: int, tuples: list[list[int]], num_moves: int, policy: Policy, seed: int) -> list[Step]:
        """Return the states after each of `num_moves` moves from these marks."""
        self._check(tuples)
        start = torch.tensor(tuples)
        with self.lock:
            walked = trace(self.model, self._alone(number), 0, num_moves, policy, seed, start, self.reward)
        return walked.steps[1:]

    def _check(self, tuples: list[list[int]]) -> None:
        agent = self.model.agent
        if len(tuples) != agent.num_tuples or any(len(slots) != agent.tuple_order for slots in tuples):
            raise InputError(f"marks must be {agent.num_tuples} tuples of {agent.tuple_order} nodes each")
        if not agent.tuple_order:
            raise InputError("a plain GNN (k = 0) has no marks")

    def _entry(self, number: int) -> Entry:
        if not 0 <= number < len(self.entries):
            raise InputError(f"graph {number}: the gallery has {len(self.entries)} graphs")
        return self.entries[number]

    def _prepared_alone(self, number: int) -> PackedGraphs:
        entry = self._entry(number)
        return self.model.precomputed(entry.graphs.select(torch.tensor([entry.graph])))

    def _picture(self, number: int) -> dict[str, Any]:
        """Return the nodes, edges and target of a graph."""
        entry, alone = self._entry(number), self._alone(number)
        drawn = depicted(alone, entry.original or Original(alone.x, alone.edge_attr, self.features))
        return {
            "title": entry.title,
            "note": entry.note,
            "positions": drawn.positions,
            "edges": drawn.edges,
            "labels": drawn.labels or None,
            "signs": drawn.signs or None,
            "roots": drawn.roots,
            "numbers": drawn.numbers or None,
            "target": None if alone.y is None else alone.y[0].reshape(-1).tolist(),
        }


def open_gallery(run: Run, molecules: Path | None, typed: Sequence[str]) -> Gallery:
    """Load a run's model and the graphs to show: its test split, or for a fitted model the user's molecules."""
    if run.fitted:
        return _of_molecules(run.folder, molecules, typed)
    model, config = load_model(run.folder / MODEL)
    entry = registry.dataset_entry(config.data.name)
    dataset = entry.load()
    ids = dataset.split(config.data.split_seed, config.data.fold).test[:MOST_GRAPHS]
    graphs = dataset.graphs.select(ids)  # the rest of a large set need not stay in memory
    entries = [Entry(f"graph {number}", graphs, place) for place, number in enumerate(ids.tolist())]
    classes, targets = output_names(model, dataset.class_names, dataset.target_names)
    shown = replace(dataset, graphs=graphs)
    return Gallery(model, config, classes or targets, entry.features, entries, dataset=shown)


def _of_molecules(folder: Path, molecules: Path | None, typed: Sequence[str]) -> Gallery:
    """Open a gallery with molecules of a file, or of the test split in the model's folder, and those typed in."""
    fitted = load_first(folder)
    facts: Facts = fitted.facts
    names = facts.classes or labels(facts)
    gallery = Gallery(fitted.model, fitted.config, names, facts.features, [], fitted)
    rows: list[MoleculeRow] = []
    if gallery.takes_molecules:
        rows = test_molecules(folder, facts) if molecules is None else read_molecules(molecules, facts, MOST_GRAPHS)
    for row in [*rows, *(MoleculeRow(smiles) for smiles in typed)]:
        try:
            if row.reason:
                raise InputError(row.reason)
            gallery.add(row.smiles, row.y, row.note)
        except InputError:
            gallery.left_out += 1
    if rows and not gallery.entries:
        source = molecules or folder / TEST_FILE
        raise InputError(f"{source}: none of its {len(rows)} rows is a molecule that can be shown")
    return gallery


def _short(smiles: str, most: int = 60) -> str:
    return smiles if len(smiles) <= most else smiles[: most - 1] + "…"
