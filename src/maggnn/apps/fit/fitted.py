"""A model for data of one's own: settings that need no knowledge of m, k and t, and the folder that it lives in.

    model.safetensors   weights and config, as every model of this package
    fitted.json         what reading new data takes: where it came from, its columns, its classes (`facts_file`)

Whoever fits (`MagClassifier`, `maggnn fit`) makes a `Dataset` and calls `fit_model`; whoever predicts loads the folder
and asks `FittedModel.predict` about packed graphs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from maggnn.apps.fit.facts_file import check_agreement, read_values, write_values
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.errors import InputError
from maggnn.graphs.batch import Task
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.saving import checksum_of, load_model, save_model
from maggnn.training.run import train

FACTS = "fitted.json"
MODEL = "model.safetensors"

EPOCHS = 40
"""Times that every training graph is seen, within the bounds below."""

FEWEST_STEPS, MOST_STEPS = 300, 20_000
LOOKS = 12
"""Looks at the validation part; the best one's weights are kept."""

Seen = tuple[tuple[int, ...], ...]
"""Categories of each integer column that training saw, the commonest first; empty for floats."""


class UnseenWarning(UserWarning):
    """Graphs to answer for hold an element, a bond or another category that training never saw."""


@dataclass(frozen=True)
class Facts:
    """What a model was fitted to.

    Attributes:
        source: SMILES, from which `features` ("mol") are made, or graphs as they are.
        smiles_column: of the table; empty where there was none.
        targets: names of the columns to predict, one an output of a regression, one in all for classes.
        classes: what the outputs of a classifier stand for, in their order; empty for numbers.
        metric: accuracy, auroc or mae.
        rows: how many graphs each part has.
        scores: the metric on each part that has targets and was not learned from.
        seen_nodes, seen_edges: what the features of training held; `fit_model` fills them in.
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


@dataclass(frozen=True)
class FittedModel:
    """A trained model and what it was fitted to."""

    model: MagGNN
    config: Config
    facts: Facts

    def predict(
        self, packed: PackedGraphs, seed: int = 0, memory_mb: float = 200.0, done: Callable[[int], None] | None = None
    ) -> Tensor:
        """Probabilities of the classes, or values in the targets' own units: [G, outputs].

        A category that training never saw has no weights; it is taken for the commonest one, with a warning. A graph
        has one answer, however its nodes are numbered and however a molecule was written.

        Args:
            seed: of the starting tuples; equal seeds, graphs and chunks give equal answers.
            done: is told after each chunk how many graphs have been answered so far.
        """
        engine = self.engine(memory_mb)
        answers = engine.predict(in_canonical_order(self.familiar(packed)), done=done, seed=seed).cpu()
        return answers.double().softmax(dim=-1).float() if self.facts.task == "classification" else answers

    def engine(self, memory_mb: float = 200.0, device: str = "auto") -> Engine:
        """The engine that answers, on the GPU where there is one; made once for each budget and device."""
        engines: dict[tuple[float, str], Engine] = self.__dict__.setdefault("_engines", {})
        if (memory_mb, device) not in engines:
            engines[memory_mb, device] = Engine(self.model, device, memory_mb, adapt=False)
        return engines[memory_mb, device]

    def __getstate__(self) -> dict[str, Any]:
        """Without engines: a copy or a pickle makes its own, on the device that it then has."""
        return {name: value for name, value in self.__dict__.items() if name != "_engines"}

    def _check(self, packed: PackedGraphs) -> None:
        for name, values, spec in (
            ("node", packed.x, self.model.node_features),
            ("edge", packed.edge_attr, self.model.edge_features),
        ):
            if FeatureSpec.of(values).empty and not spec.empty and len(packed):
                if name == "edge" and not int(packed.num_edges.sum()):
                    continue  # no edges, no features of edges
                raise InputError(f"the model was fitted to graphs with {name} features, these have none")

    def familiar(self, packed: PackedGraphs) -> PackedGraphs:
        """The graphs as the model can read them: checked, and with every category one that training saw."""
        self._check(packed)
        x, strange_nodes = _familiar(packed.x, self.facts.seen_nodes, "node")
        edge_attr, strange_edges = _familiar(packed.edge_attr, self.facts.seen_edges, "edge")
        spec = self.model.edge_features
        if edge_attr is None and not spec.empty:  # graphs without edges: none has features, but there are columns
            dtype = torch.float32 if spec.width else torch.long
            edge_attr = torch.empty(0, spec.width or len(spec.categories), dtype=dtype, device=packed.device)
        if strange_nodes or strange_edges:
            warnings.warn(
                f"{strange_nodes} nodes and {strange_edges} directed edges have a category that training never saw: "
                "it is taken for the commonest one",
                UnseenWarning,
                stacklevel=3,
            )
        return replace(packed, x=x, edge_attr=edge_attr)

    def save(self, folder: Path) -> None:
        """Write the folder's two files, each under another name first: what is there stays whole."""
        save_model(folder / MODEL, self.model, self.config)  # makes the folder
        write_values(folder / FACTS, asdict(self.facts), checksum_of(folder / MODEL))

    @classmethod
    def load(cls, folder: Path) -> FittedModel:
        """The model of a folder that `save` wrote; a folder that somebody changed is an `InputError`."""
        if not folder.is_dir():
            raise InputError(f"{folder}: no such model folder; `maggnn fit` makes one")
        model, config = load_model(folder / MODEL)
        if not (folder / FACTS).exists():
            raise InputError(f"{folder}: has no {FACTS}: a training run, not a model that `maggnn fit` made")
        facts = Facts(**read_values(folder / FACTS, Facts, checksum_of(folder / MODEL)))
        check_agreement(folder / FACTS, facts, model)
        return cls(model, config, facts)

    def __repr__(self) -> str:
        facts = self.facts
        what = f"{facts.task} of {', '.join(facts.targets) or 'y'} from {facts.source}"
        rows = ", ".join(f"{count:,} {name}" for name, count in facts.rows.items())
        scores = "".join(f"; {name} {facts.metric} {value:.4g}" for name, value in facts.scores.items())
        return f"FittedModel({what}; {rows}{scores};\n  MagGNN({self.model.extra_repr()}))"


def is_fitted(folder: Path) -> bool:
    """Whether `maggnn fit` wrote a folder; one whose facts are a broken link or no file is not a training run's."""
    return (folder / FACTS).is_symlink() or (folder / FACTS).exists()


def fit_model(
    dataset: Dataset, facts: Facts, config: Config | None = None, folder: Path | None = None, quiet: bool = True
) -> FittedModel:
    """Train on a data set of one's own, whose split has a validation part (or none: then the last weights count).

    Args:
        config: settings, if not `own_config`'s.
        folder: keep logs and checkpoints there, and go on from one that is there.
    """
    config = own_config(dataset) if config is None else config
    dataset = replace(dataset, graphs=in_canonical_order(dataset.graphs))  # as `predict` reads them
    with warnings.catch_warnings():
        # Which agent moves the marks is our choice, so how it learned is no news for whoever fits.
        warnings.filterwarnings("ignore", message="agent .* learned with")
        trained = train(config, folder, quiet=quiet, dataset=dataset)
    learned = dataset.graphs.select(trained.split.train)
    facts = replace(facts, seen_nodes=_seen(learned.x), seen_edges=_seen(learned.edge_attr))
    # On the CPU it can be pickled for a machine without a GPU; an engine copies it to where its graphs are.
    return FittedModel(trained.model.eval().cpu(), config, facts)


def _seen(values: Tensor | None) -> Seen:
    """The categories of each column of [rows, F], the commonest first."""
    if not FeatureSpec.of(values).categories:
        return ()
    assert values is not None
    counts = (column.unique(return_counts=True) for column in values.cpu().T)
    return tuple(tuple(found[count.argsort(descending=True, stable=True)].tolist()) for found, count in counts)


def _familiar(values: Tensor | None, seen: Seen, name: str) -> tuple[Tensor | None, int]:
    """Features [rows, F] without categories that were never seen, and how many rows had one."""
    if values is None or not seen or not values.numel():
        return values, 0
    if values.is_floating_point() or values.shape[1] != len(seen):
        raise InputError(
            f"the model was fitted to {name} features of {len(seen)} integer columns, "
            f"these are {values.shape[1]} of {str(values.dtype).removeprefix('torch.')}"
        )
    known = [torch.isin(column, column.new_tensor(found)) for column, found in zip(values.T, seen, strict=True)]
    strange = ~torch.stack(known, dim=1)  # [rows, F]
    commonest = values.new_tensor([found[0] for found in seen])
    return torch.where(strange, commonest, values), int(strange.any(dim=1).sum())


def own_config(dataset: Dataset, seed: int = 0, **training: Any) -> Config:
    """Settings for graphs of any kind, from their number and features alone.

    Marks are moved by the agent that comes with the package, which sees edges and marks only (PRE), so nothing has to
    be learned but the predictor.

    Args:
        training: settings of that section which are to be others; looks are spread over its `predictor_steps`.
    """
    split = dataset.split(0, 0)
    batch = max(4, min(64, len(split.train) // 8))
    enough = max(FEWEST_STEPS, min(MOST_STEPS, EPOCHS * -(-len(split.train) // batch)))
    steps = training.get("predictor_steps", enough)
    bonds = not FeatureSpec.of(dataset.graphs.edge_attr).empty
    return Config().replaced(
        data={"name": dataset.name},
        encoder={
            "conv": "gine" if bonds else "gin",
            "num_layers": 4,
            "hidden": 64,
            "residual": True,
            "random_walk": 12,
            "rings": bonds,
            "dropout": 0.1,
        },
        predictor={"pooling": "sum" if dataset.task == "regression" else "mean"},
        # From random starts, equal graphs would have answers that differ by where in a table they stand.
        agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 1, "start": "central", "pretrained": "cycles6"},
        training={
            "paradigm": "pre",
            "agent_steps": 0,
            "predictor_steps": steps,
            "batch_size": batch,
            "learning_rate": 3e-3,
            "weight_decay": 0.1,
            "validate_every": max(1, steps // LOOKS) if len(split.val) else 0,
            **training,
        },
        runtime={"seed": seed, "log_every": 50, "checkpoint_every": 500},
    )
