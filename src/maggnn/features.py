"""Input features X: categories are embedded and added, floats go through a linear map, none is a constant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.errors import InputError

MOST_COMBINATIONS = 65_536
"""Of categories: beyond that there is no table of them."""


@dataclass(frozen=True)
class FeatureSpec:
    """What the columns of `x` or `edge_attr` are.

    Attributes:
        categories: the number of categories of each integer column.
        width: the number of float columns (a set has either categories or floats, or neither).
    """

    categories: tuple[int, ...] = ()
    width: int = 0

    @classmethod
    def of(cls, values: Tensor | None) -> FeatureSpec:
        """Read the specification off a whole data set's features [rows, F]."""
        if values is None or values.numel() == 0:
            return cls()
        if values.ndim != 2:
            raise InputError(f"features have shape {tuple(values.shape)}, expected [rows, columns]")
        if values.is_floating_point():
            return cls(width=values.shape[1])
        if int(values.long().min()) < 0:
            raise InputError("integer features must be categories from 0 up; use floats for other numbers")
        return cls(categories=tuple(int(top) + 1 for top in values.long().amax(dim=0)))

    @property
    def empty(self) -> bool:
        return not self.categories and not self.width


class FeatureEmbedding(nn.Module):
    """Features [rows, F] to [rows, d]; the sum of a linear map's blocks, so it equals concatenate-then-Linear."""

    combinations: Tensor  # [kinds, columns], where there are several columns

    def __init__(self, spec: FeatureSpec, hidden: int) -> None:
        super().__init__()
        self.spec = spec
        self.embeddings = nn.ModuleList(nn.Embedding(count, hidden) for count in spec.categories)
        self.linear = nn.Linear(spec.width, hidden, bias=False) if spec.width else None
        if len(spec.categories) > 1:
            self.register_buffer("combinations", _combinations(spec.categories), persistent=False)

    def forward(self, values: Tensor) -> Tensor:
        _check_columns(values, self.spec)
        if self.linear is not None:
            return self.linear(values.to(self.linear.weight.dtype))
        total: Tensor | None = None
        for column, embedding in enumerate(self.embeddings):
            assert isinstance(embedding, nn.Embedding)
            part = look_up(embedding.weight, values[:, column].long())
            total = part if total is None else total + part
        assert total is not None, "categories are not empty here"
        return total

    @property
    def num_kinds(self) -> int | None:
        """Combinations of categories that rows can have; None for floats."""
        return math.prod(self.spec.categories) if self.spec.categories else None

    def kinds(self, values: Tensor) -> Tensor:
        """The combination that each row has, as one number, [rows]; the last column counts fastest."""
        _check_columns(values, self.spec)
        _check_range(values, self.spec)
        kind = values[:, 0].long()
        for column, count in enumerate(self.spec.categories[1:], start=1):
            kind = kind * count + values[:, column]
        return kind

    def table(self) -> Tensor:
        """The embedding of every combination, [kinds, d]: row `kinds(x)` of it is the embedding of x."""
        if len(self.embeddings) == 1:  # asked for by every layer of every step
            embedding = self.embeddings[0]
            assert isinstance(embedding, nn.Embedding)
            return embedding.weight
        return self(self.combinations)


def _combinations(counts: tuple[int, ...]) -> Tensor:
    """Every combination of categories, [kinds, columns]; none where there are too many for anyone to ask."""
    if math.prod(counts) > MOST_COMBINATIONS:
        return torch.empty(0, len(counts), dtype=torch.long)
    return torch.cartesian_prod(*(torch.arange(count) for count in counts))


def look_up(table: Tensor, index: Tensor) -> Tensor:
    """Rows of a table, with a gradient that repeats."""
    return _Lookup.apply(table, index) if table.device.type == "cuda" else functional.embedding(index, table)


class _Lookup(torch.autograd.Function):
    """Rows of a table. Its gradient is a product with one-hot rows: torch's own varies from run to run on GPUs."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(table)
        return functional.embedding(index, table)  # unlike table[index], refuses negative numbers

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (index,) = ctx.saved_tensors
        one_hot = index == torch.arange(ctx.rows, device=index.device)[:, None]  # [categories, rows]
        return one_hot.to(grads[0].dtype) @ grads[0], None


def _check_columns(values: Tensor, spec: FeatureSpec) -> None:
    expected = len(spec.categories) or spec.width
    if values.ndim != 2 or values.shape[1] != expected:
        raise InputError(f"features have shape {tuple(values.shape)}, the model was made for [rows, {expected}]")
    if spec.categories and values.is_floating_point():
        raise InputError(f"features are {values.dtype}, the model was made for integer categories")


def _check_range(values: Tensor, spec: FeatureSpec) -> None:
    """Whether every category is one the model knows; a GPU is not waited for."""
    if values.device.type != "cpu" or not len(values):
        return
    counts = torch.tensor(spec.categories)
    unknown = (values < 0) | (values >= counts)
    if bool(unknown.any()):
        row, column = unknown.nonzero()[0].tolist()
        raise InputError(
            f"features hold category {int(values[row, column])} in column {column}, "
            f"the model knows 0 to {spec.categories[column] - 1}"
        )
