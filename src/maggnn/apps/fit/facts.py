"""The facts about a fitted model, and `fitted.json`: plain values with checksums, read as untrusted input.

A checksum detects damage and files of two models in one folder. It is not a signature: whoever changes a file can also
change its checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from maggnn.apps.fit.answers.blended import Blend, Seen, TargetBlend
from maggnn.apps.fit.blend import BLEND, NETWORK, READINGS, WITH_DESCRIPTORS
from maggnn.apps.fit.classical.cheap_baselines import BOOSTING, COLUMNS
from maggnn.apps.fit.uncertainty import COVERAGES, Spread
from maggnn.data.files import whole_file
from maggnn.data.inputs import COLUMN
from maggnn.data.molecules.atom_features import FEATURE_SETS
from maggnn.data.molecules.fragments import SALTS
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.weights_file import one_line

FACTS = "fitted.json"
MOST_BYTES = 8 * 2**20
"""The largest size of such a file; larger ones are rejected."""

MOST_FOLDS = 100
METRICS = {"classification": ("", "accuracy", "auroc"), "multilabel": ("", "auroc"), "regression": ("", "mae")}
CHECKSUM, OF_MODEL = "checksum", "model_checksum"


@dataclass(frozen=True)
class Facts:
    """A description of the data that a model was fitted to.

    Attributes:
        source: "smiles", from which `features` ("mol") are computed, or graphs with their own features.
        smiles_column: the table's column of SMILES; empty if there was none.
        targets: the names of the predicted columns, one for each output; a single one for a target with classes.
        classes: the classes of a single target, in the order of the outputs; else empty.
        labels: the two labels of each of several two-class targets; an output is the probability of the second.
        metric: accuracy, auroc or mae.
        units: the units of the targets, as given by the user; empty if none were given.
        rows: the number of graphs in each part of the split.
        scores: the metric on each held-out part of the split that has targets.
        salts: which fragments of salts and mixtures are read: "keep" for all, or the "largest".
        number_columns: columns of the table that are read besides descriptors.
        seen_nodes, seen_edges: the categories of the training features; `fit_blend` sets them.
        started_from: the names of the earlier models whose weights initialised the networks, the oldest first.
        least_similarity: the similarity to the nearest training molecule that 95 % of the test molecules have at least;
            0 if it is unknown.
    """

    source: Literal["smiles", "graphs"]
    task: Task
    features: str = ""
    smiles_column: str = ""
    targets: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    metric: str = ""
    rows: dict[str, int] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    seen_nodes: Seen = field(default=(), repr=False)
    seen_edges: Seen = field(default=(), repr=False)
    blend: Blend = field(default_factory=Blend)
    units: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    salts: str = "keep"
    number_columns: tuple[str, ...] = ()
    started_from: tuple[str, ...] = ()
    least_similarity: float = 0.0

    @property
    def column_of_smiles(self) -> str:
        """The column of SMILES to read in a table: that of training, or the usual name if there was no table."""
        return self.smiles_column or COLUMN


def save_facts(folder: Path, facts: Facts, of_model: str) -> None:
    """Write the facts atomically, with their checksum and that of the model they belong to."""
    known = asdict(facts) | {OF_MODEL: of_model}
    text = json.dumps(known | {CHECKSUM: _checksum(known)}, indent=1)
    with whole_file(folder / FACTS) as waiting:
        waiting.write_text(text + "\n", encoding="utf-8")


def load_facts(folder: Path, model: MagGNN, of_model: str) -> Facts:
    """Read the facts of a folder, and check that they describe its model; older files have no checksum.

    Args:
        model: the first network of the folder.
        of_model: the checksum of that network's file.
    """
    path = folder / FACTS
    try:
        values = _object(path)
        said, other = values.pop(CHECKSUM, None), values.get(OF_MODEL, of_model)
        if said is not None and said != _checksum(values):
            raise ValueError("its checksum does not match its values")
        if other != of_model:
            raise ValueError("it was written for a different model than the one next to it")
        values.pop(OF_MODEL, None)
        facts = Facts(**_typed_fields(Facts, values))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: damaged ({one_line(error)})") from error
    for mismatch in (_task_mismatch, _outputs_mismatch, _features_mismatch, _descriptors_mismatch, _blend_mismatch):
        if wrong := mismatch(facts, model):
            raise InputError(f"{path}: does not match the model next to it ({one_line(wrong)})")
    return facts


def _task_mismatch(facts: Facts, model: MagGNN) -> str:
    if facts.task != model.task:
        return f"task is {facts.task}, the model was trained for {model.task}"
    if model.predictor.level != "graph":
        return "the model predicts for nodes"
    known = METRICS[facts.task]
    return "" if facts.metric in known else f"metric {facts.metric!r} is not for {facts.task}"


def _outputs_mismatch(facts: Facts, model: MagGNN) -> str:
    classes, outputs = len(facts.classes), model.num_outputs
    if facts.task == "multilabel":
        pairs = all(len(set(pair)) == 2 for pair in facts.labels)
        right = len(facts.labels) == len(facts.targets) == outputs and pairs and not classes
        wrong = "" if right else f"labels of {len(facts.labels)} targets, the model has {outputs} outputs"
        return wrong or _targets_mismatch(facts, outputs)
    if facts.labels:
        return "labels of several targets, which the model does not have"
    if facts.task == "classification":
        if classes != outputs or len(set(facts.classes)) != classes:
            return f"{len(set(facts.classes))} different classes, the model has {outputs} outputs"
        return _targets_mismatch(facts, 1)
    if facts.units and len(facts.units) != len(facts.targets):
        return f"{len(facts.units)} units of {len(facts.targets)} targets"
    return "classes of a regression, which has none" if classes else _targets_mismatch(facts, outputs)


def _targets_mismatch(facts: Facts, expected: int) -> str:
    """Check the number of target names; models fitted in Python need no names."""
    found = len(set(facts.targets))
    if found != len(facts.targets):
        return "two targets have the same name"
    return "" if found in (0, expected) else f"{found} targets, the model predicts {expected}"


def _features_mismatch(facts: Facts, model: MagGNN) -> str:
    specs = (model.node_features, model.edge_features)
    for name, spec, seen in zip(("node", "edge"), specs, (facts.seen_nodes, facts.seen_edges), strict=True):
        if wrong := _seen_mismatch(spec, seen):
            return f"{name} features: {wrong}"
    if facts.source == "graphs":
        return ""
    if not 0 <= facts.least_similarity <= 1:
        return f"similarity of the test molecules is {facts.least_similarity}, must be from 0 to 1"
    if facts.salts not in SALTS:
        return f"salts are {facts.salts!r}, must be one of {', '.join(SALTS)}"
    made = FEATURE_SETS.get(facts.features)
    if made is None:
        return f"features are {facts.features!r}, must be one of {', '.join(FEATURE_SETS)}"
    for name, spec, columns in zip(("node", "edge"), specs, (made.node_columns, made.edge_columns), strict=True):
        if spec.width or spec.columns not in (0, columns):
            return f"{name} features {facts.features} have {columns} columns, the model reads {spec.columns}"
    return ""


def _descriptors_mismatch(facts: Facts, model: MagGNN) -> str:
    """Check the descriptors that networks read; these networks must have learned to answer without them, too."""
    read = model.graph_features
    expected = COLUMNS[BOOSTING] + len(facts.number_columns)
    if read and (facts.source == "graphs" or read != expected or not model.predictor.config.graph_attr_optional):
        return f"the model reads {read} features of each graph, which are not the descriptors of molecules"
    if WITH_DESCRIPTORS in facts.blend.weights and not read:
        return "a part whose networks read descriptors, which the model does not"
    return ""


def _blend_mismatch(facts: Facts, model: MagGNN) -> str:
    blend, weights = facts.blend, list(facts.blend.weights.values())
    if NETWORK not in blend.weights or not set(blend.weights) <= {*READINGS, *COLUMNS}:
        return f"parts are {', '.join(blend.weights)}"
    if not _are_shares(weights):
        return "weights of the parts are not shares"
    if facts.source == "graphs" and len(weights) > 1:
        return "parts that read molecules in a model of graphs"
    if not 1 <= blend.folds <= MOST_FOLDS or not _are_temperatures(blend.temperatures):
        return f"{blend.folds} folds, temperatures {blend.temperatures}"
    if len(blend.thresholds) > max(1, len(facts.targets)) or not all(0 <= value <= 1 for value in blend.thresholds):
        return f"thresholds {blend.thresholds}"
    if facts.task == "regression" and blend.temperatures:
        return "temperatures of a regression, which has no probabilities"
    others = blend.folds - 1 if blend.uses_networks else 0
    if len(blend.seen) != others:
        return f"categories that {len(blend.seen)} more networks have seen, of which there are {others}"
    for nodes, edges in blend.seen:
        if wrong := _seen_mismatch(model.node_features, nodes) or _seen_mismatch(model.edge_features, edges):
            return wrong
    for target in blend.targets:
        if wrong := _target_mismatch(target, blend):
            return wrong
    if blend.targets and (facts.task == "classification" or len(blend.targets) != model.num_outputs):
        return f"weights of {len(blend.targets)} targets, the model has {model.num_outputs} outputs"
    if blend.spreads and (facts.task != "regression" or len(blend.spreads) != model.num_outputs):
        return f"errors of {len(blend.spreads)} targets, the model has {model.num_outputs} outputs"
    return "" if all(map(_is_spread, blend.spreads)) else "the spread of errors is damaged"


def _target_mismatch(target: TargetBlend, blend: Blend) -> str:
    """Return what is wrong with the blend of one of several targets; empty if nothing is."""
    if not _are_shares(target.weights.values()) or not _are_temperatures(target.temperatures):
        return "weights or temperatures of a target are damaged"
    used = {name for name, weight in target.weights.items() if weight}
    return "" if all(blend.weights.get(name) for name in used) else "a target uses a part that does not exist"


def _are_shares(weights: Iterable[float]) -> bool:
    weights = list(weights)
    return all(0 <= weight <= 1 for weight in weights) and abs(sum(weights) - 1) <= 1e-6


def _are_temperatures(temperatures: dict[str, float]) -> bool:
    valid = all(0.01 <= value <= 100 for value in temperatures.values())
    return valid and set(temperatures) <= {BLEND, *READINGS, *COLUMNS}


def _is_spread(spread: Spread) -> bool:
    values = np.array([*spread.size, spread.factor, *spread.quantiles], dtype=float)
    sound = len(spread.size) == 3 and len(spread.quantiles) == len(COVERAGES) and spread.rows >= 0
    return sound and bool(((values >= 0) & (values < 1e300)).all() and (np.diff(spread.quantiles) >= 0).all())


def _seen_mismatch(spec: FeatureSpec, seen: Seen) -> str:
    if not seen:
        return ""
    if len(seen) != len(spec.categories):
        return f"{len(seen)} columns were seen, the model reads {len(spec.categories)}"
    for column, (found, count) in enumerate(zip(seen, spec.categories, strict=True)):
        if not found or min(found) < 0 or max(found) >= count:
            return f"column {column} was seen with other categories than the model's 0 to {count - 1}"
    return ""


def _object(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError("not a plain file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"larger than {MOST_BYTES} bytes")
    values = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(values, dict):
        raise ValueError(f"a {type(values).__name__}, must be an object")
    json.dumps(values, ensure_ascii=False).encode()  # JSON can hold surrogates, a table or page of predictions cannot
    return values


def _checksum(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _typed_fields(kind: type, values: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    unknown = sorted(values.keys() - hints.keys())
    if unknown:
        raise ValueError(f"no field {unknown[0]!r} is known: was it written by a newer version?")
    needed = [entry.name for entry in fields(kind) if entry.default is MISSING and entry.default_factory is MISSING]
    missing = [name for name in needed if name not in values]
    if missing:
        raise ValueError(f"{missing[0]} is missing")
    return {name: _typed(hints[name], value, name) for name, value in values.items()}


def _typed(hint: Any, value: Any, name: str) -> Any:
    """Return the value as the hinted type, with lists as tuples."""
    origin, inner = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return hint(**_typed_fields(hint, value))
    if origin is tuple and isinstance(value, list | tuple):
        if inner[-1] is not ... and len(value) != len(inner):
            raise ValueError(f"{name} holds {value!r:.60}")
        return tuple(_typed(inner[0], entry, name) for entry in value)
    if origin is dict and isinstance(value, dict):
        return {key: _typed(inner[1], entry, name) for key, entry in value.items()}
    if not _fits(hint, value):
        raise ValueError(f"{name} holds {value!r:.60}")
    return value


def _fits(hint: Any, value: Any) -> bool:
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if hint is int:
        return whole and abs(value) < 2**62
    if hint is float:
        return whole or isinstance(value, float)
    return isinstance(hint, type) and isinstance(value, hint)
