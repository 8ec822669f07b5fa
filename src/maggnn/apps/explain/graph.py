"""The inputs of `maggnn explain`: a model, one graph, and its true target if it is known.

| the model | what GRAPH may be |
|---|---|
| of `maggnn fit`, or fitted to SMILES | a SMILES string |
| a run of `maggnn train` | a number: that graph of the run's data set, whose target is known |
| a run on molecules, such as those of ZINC | also a SMILES string |
| any other run, or fitted to graphs | also a graph6 string |
| all of these but the first | also a file that `graph_files` reads; FILE:3 is its graph number 3, from 0 |

Digits are neither SMILES nor graph6, and suffixes such as .g6 identify files, so the input is unambiguous.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from maggnn.apps.explain.depiction import Original
from maggnn.apps.explain.words import gain_notes, output_names
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning, is_fitted, load_first
from maggnn.data import registry
from maggnn.data.graph_files import READERS, read_graphs
from maggnn.data.molecules.smiles import featurise
from maggnn.data.packing import pack
from maggnn.data.sources import graphs_of
from maggnn.errors import InputError
from maggnn.graphs.canonical_order import canonical_rows, reordered
from maggnn.graphs.conversions import pack_graph6
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.saving import load_model, model_file

MOST_NODES = 1000
"""The largest number of nodes of a graph that can be drawn usefully."""


@dataclass(frozen=True)
class Subject:
    """A model and a graph for which it can predict.

    Attributes:
        packed: the single graph in the form that the model reads; its y is the true target, in its own units, or None.
        original: the graph as it was given, for drawing.
        name: the displayed name of the graph.
        classes: the classes of a classifier's outputs; empty for numbers.
        targets: the names of the numbers, or of a classifier's target.
        reward: the kind of gains, `training.reward`.
        notes: remarks for the reader.
    """

    model: MagGNN
    packed: PackedGraphs
    original: Original
    name: str
    classes: tuple[str, ...]
    targets: tuple[str, ...]
    reward: str
    notes: tuple[str, ...]

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the answer's values."""
        return self.classes or self.targets


def read_subject(model: Path, graph: str, target: Sequence[str] = (), fitted: FittedModel | None = None) -> Subject:
    """Read the model of folder `model` and the graph that `graph` names.

    Args:
        target: the graph's true target, if it is not known already.
        fitted: the folder's model, if it was loaded before.
    """
    if not model.exists():
        raise InputError(f"{model}: no such model folder; `maggnn fit` and `maggnn train` make one")
    if fitted is not None or is_fitted(model):
        subject = _of_fitted(load_first(model) if fitted is None else fitted, model, graph)
    else:
        subject = _of_run(model, graph)
    _check(subject, model)
    if target:
        subject = replace(subject, packed=replace(subject.packed, y=_target(target, subject)))
    return subject


def as_read(network: FittedModel, given: PackedGraphs) -> tuple[PackedGraphs, Original]:
    """Return a graph as a fitted network reads it, and as it was given; warns of unseen categories."""
    readable = network.with_seen_categories(given)
    rows = canonical_rows(readable)  # the order in which `predict` reads it
    given = reordered(given, rows)
    return reordered(readable, rows), Original(given.x, given.edge_attr, rows=tuple(rows.tolist()))


def _of_fitted(fitted: FittedModel, folder: Path, graph: str) -> Subject:
    facts = fitted.facts
    is_smiles = facts.source == "smiles"
    if is_smiles:
        made, name = from_smiles(graph, facts.features), graph.strip()
    else:
        made, name = _from_text(graph, f"{folder} was fitted to graphs and does not keep them")
    with warnings.catch_warnings(record=True, action="always", category=UnseenWarning) as caught:
        packed, original = as_read(fitted, made)
    _check_features(fitted.model, packed)
    return Subject(
        fitted.model,
        replace(packed, y=None),
        replace(original, features=facts.features, smiles=name) if is_smiles else original,
        name,
        classes=facts.classes,
        targets=facts.targets,
        reward=fitted.config.training.reward,
        notes=(*(str(warning.message) for warning in caught), *gain_notes(fitted.model, fitted.config)),
    )


def _of_run(path: Path, graph: str) -> Subject:
    model, config = load_model(model_file(path))
    data = config.data.name
    entry = registry.known_entry(data)
    dataset, smiles = None, None
    features, targets = ("", ()) if entry is None else (entry.features, entry.target_names)
    if graph.strip().isdigit():
        dataset = registry.load(data)
        number = int(graph)
        if number >= len(dataset.graphs):
            raise InputError(f"graph {number}: {data} has graphs 0 to {len(dataset.graphs) - 1}")
        packed, name = dataset.graphs.select(torch.tensor([number])), f"graph {number} of {data}"
    elif features and not _ending(graph):
        smiles = name = graph.strip()
        packed = from_smiles(smiles, features)
    else:
        packed, name = _from_text(graph, "")
        features = ""
    _check_features(model, packed)
    known = (None, targets) if dataset is None else (dataset.class_names, dataset.target_names)
    classes, targets = output_names(model, *known)
    return Subject(
        model,
        replace(packed, y=None if dataset is None else _known(packed.y)),
        Original(packed.x, packed.edge_attr, features, smiles),
        name,
        classes,
        targets,
        reward=config.training.reward,
        notes=gain_notes(model, config),
    )


def _known(y: Tensor | None) -> Tensor | None:
    """Return None for a missing target."""
    return y if y is not None and bool(y.isfinite().all()) else None


def from_smiles(smiles: str, features: str) -> PackedGraphs:
    """Return the graph of a molecule, with RDKit's order of its atoms."""
    return graphs_of(pack([featurise(smiles, features)]))


def _from_text(graph: str, no_numbers: str) -> tuple[PackedGraphs, str]:
    """Return the graph of a file or of a graph6 string, and its name."""
    if graph.strip().isdigit():
        raise InputError(f"graph {graph}: {no_numbers}: give a graph6 string or a file")
    if not _ending(graph):
        try:
            return pack_graph6([graph]), graph
        except InputError:
            raise InputError(f"{graph!r} is neither graph6 nor a file ending in {', '.join(READERS)}") from None
    path, _, number = graph.rpartition(":") if Path(graph).suffix not in READERS else (graph, "", "")
    packed = read_graphs(path)
    if not number and len(packed) > 1:
        raise InputError(f"{path}: has {len(packed)} graphs: give the number of one, from 0, as in {path}:0")
    if int(number or 0) >= len(packed):
        raise InputError(f"{graph}: {path} has graphs 0 to {len(packed) - 1}")
    return packed.select(torch.tensor([int(number or 0)])), graph


def _ending(graph: str) -> bool:
    """Whether `graph` names a file, with or without the number of a graph in it."""
    path, colon, number = graph.rpartition(":")
    return Path(graph).suffix in READERS or (bool(colon) and number.isdigit() and Path(path).suffix in READERS)


def _check(subject: Subject, path: Path) -> None:
    """Check that the model and the graph can be explained."""
    model, nodes = subject.model, int(subject.packed.num_nodes[0])
    if model.q_network is None:
        raise InputError(f"{path}: a plain GNN (k = 0) has no marks to explain")
    if model.predictor.level != "graph":
        raise InputError(f"{path}: predicts for nodes, but only models that predict for graphs can be explained")
    if nodes > MOST_NODES:
        raise InputError(f"{subject.name}: has {nodes} nodes, a picture can show up to {MOST_NODES}")
    if model.agent.start == "neighbours" and subject.packed.roots is None:
        raise InputError(f"{subject.name}: has no root, where this model's marks start: give a number of its data set")


def _check_features(model: MagGNN, packed: PackedGraphs) -> None:
    for name, values, spec in (
        ("node", packed.x, model.node_features),
        ("edge", packed.edge_attr, model.edge_features),
    ):
        found = FeatureSpec.of(values)
        if name == "edge" and not len(packed.by_source):
            continue  # graphs without edges may have no features of edges
        if (len(found.categories), found.width) != (len(spec.categories), spec.width):
            raise InputError(
                f"the model reads {name} features of {_columns(spec)}, this graph has {_columns(found)}: "
                "give a graph like those that it was trained on"
            )
        if any(top > count for top, count in zip(found.categories, spec.categories, strict=True)):
            raise InputError(f"this graph has a {name} with a category that is not in the training data")


def _columns(spec: FeatureSpec) -> str:
    kind = "integer" if spec.categories else "float"
    return f"{spec.columns} {kind} column{'s' if spec.columns > 1 else ''}" if spec.columns else "no columns"


def _target(values: Sequence[str], subject: Subject) -> Tensor:
    """Convert the target to the graph's y, [1] or [1, outputs]."""
    if subject.classes:
        if len(values) > 1:
            raise InputError(f"--target is given {len(values)} times: a graph has one class")
        if values[0] not in subject.classes:
            known = ", ".join(subject.classes[:10]) + (", ..." if len(subject.classes) > 10 else "")
            raise InputError(f"--target {values[0]!r}: not a class of this model, which has {known}")
        return torch.tensor([subject.classes.index(values[0])])
    if len(values) != len(subject.targets):
        raise InputError(
            f"--target is given {len(values)} times: the model has {len(subject.targets)} targets "
            f"({', '.join(subject.targets)}), give it once for each, in their order"
        )
    return torch.tensor([[_number(value) for value in values]])


def _number(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"--target {value!r}: is not a number")
    return number
