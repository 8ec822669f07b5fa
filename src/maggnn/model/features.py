"""Input features X: embeddings of categories are added, and floats go through a linear map.

`FeatureSpec` describes the features of nodes or edges, `DataShape` everything that a model must know about its data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Level, Task, values_known
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    from maggnn.model.frozen_layers import Freezing

MOST_CATEGORIES = 1_000_000
"""Of a column: each has a row of weights."""

MOST_COMBINATIONS = 4096
"""The largest number of combinations of categories for which tables are made."""

ROWS_AT_ONCE = 1 << 22
"""The number of rows of features that are read at a time."""


@dataclass(frozen=True)
class FeatureSpec:
    """A specification of the columns of `x` or `edge_attr`.

    Attributes:
        categories: the number of categories of each integer column.
        width: the number of float columns (a set has either categories or floats, or neither).
    """

    categories: tuple[int, ...] = ()
    width: int = 0

    def __post_init__(self) -> None:
        if self.categories and self.width:
            raise InputError("features are categories or floats: give FeatureSpec either categories or width")
        if self.width < 0 or any(count < 1 for count in self.categories):
            raise InputError(f"{self}: a column has at least one category, and width is at least 0")

    @classmethod
    def of(cls, values: Tensor | None) -> FeatureSpec:
        """Infer the specification from the features of a whole data set.

        Args:
            values: features of all nodes or edges, [rows, F]; None for no features.

        Returns:
            The specification of these columns.
        """
        if values is None or values.numel() == 0:
            return cls()
        if values.ndim != 2:
            raise InputError(f"features have shape {tuple(values.shape)}, expected [rows, columns]")
        if values.is_floating_point():
            return cls(width=values.shape[1])
        parts = values.split(ROWS_AT_ONCE)  # a copy of all rows of a mapped set might not fit into memory
        if min(int(part.long().min()) for part in parts) < 0:
            raise InputError("integer features must be categories from 0 up; use floats for other numbers")
        most = torch.stack([part.long().amax(dim=0) for part in parts]).amax(dim=0)
        if int(most.max()) >= MOST_CATEGORIES:
            raise InputError(
                f"integer features are categories, and {int(most.max())} is beyond the {MOST_CATEGORIES} that a column "
                "can have: use floats for other numbers"
            )
        return cls(categories=tuple(int(top) + 1 for top in most))

    @property
    def columns(self) -> int:
        """The number of columns."""
        return len(self.categories) or self.width

    @property
    def empty(self) -> bool:
        return not self.categories and not self.width


@dataclass(frozen=True)
class DataShape:
    """Everything that a model must know about its data.

    Attributes:
        num_outputs: the number of classes, two-class targets or regression targets.
        node_features, edge_features: the features in `x` and `edge_attr`.
        task: classification (one of several classes), multilabel (several two-class targets) or regression.
        level: one answer for each graph or for each node.
        num_roots: the number of roots of each graph, for rooted graphs.
        graph_features: the number of columns of `graph_attr`.
    """

    num_outputs: int
    node_features: FeatureSpec = FeatureSpec()
    edge_features: FeatureSpec = FeatureSpec()
    task: Task = "classification"
    level: Level = "graph"
    num_roots: int = 0
    graph_features: int = 0

    @classmethod
    def of(
        cls, graphs: PackedGraphs | GraphBatch, num_outputs: int, task: Task, level: Level | None = None
    ) -> DataShape:
        """Infer the features, the level, the roots and the features of graphs.

        Args:
            graphs: a packed data set, or one batch in which every feature value occurs.
            num_outputs: the number of classes or regression targets.
            task: classification or regression.
            level: whether there is one target for each graph or for each node; by default inferred from the targets.
        """
        num_roots = 0 if graphs.roots is None else graphs.roots.shape[1]
        nodes, edges = FeatureSpec.of(graphs.x), FeatureSpec.of(graphs.edge_attr)
        whole = 0 if graphs.graph_attr is None else graphs.graph_attr.shape[1]
        return cls(num_outputs, nodes, edges, task, level or _level_of(graphs), num_roots, whole)


def _level_of(graphs: PackedGraphs | GraphBatch) -> Level:
    """Infer the level of a batch from the number of targets; a batch of a single node has a target for the graph."""
    if isinstance(graphs, PackedGraphs):
        return graphs.level
    return "graph" if graphs.y is None or len(graphs.y) == graphs.num_graphs else "node"


class FeatureEmbedding(nn.Module):
    """Maps features [rows, F] to [rows, d] by a sum over columns, which equals a linear map of their concatenation."""

    combinations: Tensor  # [kinds, columns], if there are several columns
    one_hot: Tensor  # the same with each column one-hot, [all categories, kinds], for the gradient of a table

    def __init__(self, spec: FeatureSpec, hidden: int) -> None:
        super().__init__()
        self.spec = spec
        self.embeddings = nn.ModuleList(nn.Embedding(count, hidden) for count in spec.categories)
        self.linear = nn.Linear(spec.width, hidden, bias=False) if spec.width else None
        if len(spec.categories) > 1:
            combinations = _combinations(spec.categories)
            self.register_buffer("combinations", combinations, persistent=False)
            self.register_buffer("one_hot", _one_hot(combinations, spec.categories), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        _check_columns(values, self.spec)
        if self.linear is not None:
            return self.linear(values.to(self.linear.weight.dtype))
        _check_range(values, self.spec)
        total = self._rows(0, values)
        for column in range(1, len(self.embeddings)):
            total = total + self._rows(column, values)
        return total

    @property
    def num_kinds(self) -> int | None:
        """The number of possible combinations of categories; None for floats."""
        return math.prod(self.spec.categories) if self.spec.categories else None

    @property
    def has_table(self) -> bool:
        """Whether the combinations can be listed and are few enough for a table."""
        return self.num_kinds is not None and self.num_kinds <= MOST_COMBINATIONS

    def kinds(self, values: Tensor) -> Tensor:
        """Return the combination of each row as one number, [rows]; the last column varies fastest."""
        _check_columns(values, self.spec)
        _check_range(values, self.spec)
        kind = values[:, 0].long()
        for column, count in enumerate(self.spec.categories[1:], start=1):
            kind = kind * count + values[:, column]
        return kind

    def table(self) -> Tensor:
        """Return the embedding of every combination, [kinds, d]: its row `kinds(x)` is the embedding of x."""
        if len(self.embeddings) == 1:  # every layer calls this in every step
            embedding = self.embeddings[0]
            assert isinstance(embedding, nn.Embedding)
            return embedding.weight
        one_hots = self.one_hot.split(self.spec.categories)
        total = self._rows(0, self.combinations, one_hots[0])
        for column in range(1, len(self.embeddings)):
            total = total + self._rows(column, self.combinations, one_hots[column])
        return total

    def present(self, values: Tensor | None) -> Tensor | None:
        """Return the combinations that occur in `values`, or all if `values` is None; None without a table."""
        if not self.has_table:
            return None
        device = next(self.parameters()).device
        return (
            torch.arange(self.num_kinds or 1, device=device)
            if values is None
            else self.kinds(values).unique().to(device)
        )

    def frozen(self, how: Freezing) -> FeatureEmbedding | FrozenFeatures:
        """Return a frozen module that reads rows from one table, or the module itself without a table."""
        return FrozenFeatures(self) if self.has_table else self

    def _rows(self, column: int, values: Tensor, one_hot: Tensor | None = None) -> Tensor:
        embedding = self.embeddings[column]
        assert isinstance(embedding, nn.Embedding)
        return look_up(embedding.weight, values[:, column].long(), one_hot)


class FrozenFeatures(nn.Module):
    """The embedding as one table look-up, for few enough combinations of categories."""

    def __init__(self, embedding: FeatureEmbedding) -> None:
        super().__init__()
        self.embedding = embedding
        self.table = nn.Parameter(embedding.table(), requires_grad=False)

    def forward(self, values: Tensor) -> Tensor:
        return self.table.index_select(0, self.embedding.kinds(values))


def _combinations(counts: tuple[int, ...]) -> Tensor:
    """Return every combination of categories, [kinds, columns]; none if there are too many for a table."""
    if math.prod(counts) > MOST_COMBINATIONS:
        return torch.empty(0, len(counts), dtype=torch.long, device="cpu")
    return torch.cartesian_prod(*(torch.arange(count, device="cpu") for count in counts))


def _one_hot(combinations: Tensor, counts: tuple[int, ...]) -> Tensor:
    """Return the categories of each combination, one-hot, [all categories, kinds], column by column."""
    columns = [
        combinations[:, column] == torch.arange(count, device="cpu")[:, None] for column, count in enumerate(counts)
    ]
    return torch.cat(columns).float()


def look_up(table: Tensor, index: Tensor, one_hot: Tensor | None = None) -> Tensor:
    """Return rows of a table, with a deterministic gradient.

    Args:
        one_hot: `index` one-hot, [rows of the table, rows], if it is known.
    """
    return _Lookup.apply(table, index, one_hot) if table.device.type == "cuda" else functional.embedding(index, table)


class _Lookup(torch.autograd.Function):
    """Rows of a table. Its gradient is a product with one-hot rows, since torch's own is not deterministic on GPUs."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor, one_hot: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, one_hot)
        ctx.rows = len(table)
        return functional.embedding(index, table)  # unlike table[index], rejects negative numbers

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        index, one_hot = ctx.saved_tensors
        if one_hot is None:
            one_hot = index == torch.arange(ctx.rows, device=index.device)[:, None]  # [categories, rows]
        return one_hot.to(grads[0].dtype) @ grads[0], None, None


def needed(values: Tensor | None, name: str) -> Tensor:
    """Return features that the model needs; raises an `InputError` if there are none."""
    if values is None:
        raise InputError(f"the model was made for graphs with {name}, but these graphs have none")
    return values


def _check_columns(values: Tensor, spec: FeatureSpec) -> None:
    expected = spec.columns
    if values.ndim != 2 or values.shape[1] != expected:
        raise InputError(f"features have shape {tuple(values.shape)}, the model was made for [rows, {expected}]")
    if spec.categories and values.is_floating_point():
        raise InputError(f"features are {values.dtype}, the model was made for integer categories")


def _check_range(values: Tensor, spec: FeatureSpec) -> None:
    """Check that the model knows every category; not checked on a GPU, which would have to be synchronised."""
    if not values_known(values) or not len(values):
        return
    counts = torch.tensor(spec.categories)
    unknown = (values < 0) | (values >= counts)
    if bool(unknown.any()):
        row, column = unknown.nonzero()[0].tolist()
        raise InputError(
            f"features have category {int(values[row, column])} in column {column}, "
            f"the model knows 0 to {spec.categories[column] - 1}"
        )
