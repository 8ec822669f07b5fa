"""Standardised regression targets: networks learn these, and predictions are converted back to the targets' own units.

    y = std * output + mean + sum over the graph's nodes of the contribution of a node's category

The last term exists with `predictor.composition`: the energy of a molecule is nearly a sum over its atoms, and a
network that learns only the rest does not have to reproduce a sum of twenty large numbers to five digits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from maggnn.config import PredictorConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch, Level, Task
from maggnn.graphs.checks import short_floats
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.kernels import reference
from maggnn.model.kernels.messages import sum_nodes

SMALLEST_STD = {torch.float32: 1e-6, torch.float64: 1e-12}
"""In units of the largest target: a target with a smaller spread is constant up to rounding and is not scaled."""

GRAPHS_AT_ONCE = 1 << 16
"""Whose nodes are counted in one go."""


class TargetScale(nn.Module):
    """The map from outputs to targets, fitted to training targets; before that it is the identity.

    If float32 cannot represent the differences of targets (such as 1e9 and 1e9 + 1), the map is in double precision.

    Shapes:
        mean, std: [out]; per_node: [categories, out]; outputs: [rows, out].
    """

    mean: Tensor
    std: Tensor
    per_node: Tensor | None

    def __init__(self, num_outputs: int, num_categories: int = 0) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_outputs))
        self.register_buffer("std", torch.ones(num_outputs))
        per_node = torch.zeros(num_categories, num_outputs) if num_categories else None
        self.register_buffer("per_node", per_node)

    def forward(self, outputs: Tensor, graphs: GraphBatch) -> Tensor:
        """Convert outputs to the targets' own units."""
        values = outputs * self.std + self.mean
        if self.per_node is None:
            return values
        added = self.per_node[_first_column(graphs)][:, None]  # [N, 1, out]
        total = reference.sum_nodes if added.dtype == torch.float64 else sum_nodes
        return values + total(added, graphs)[:, 0]

    def fit(self, packed: PackedGraphs, ids: Tensor) -> None:
        """Fit mean, spread and contributions of nodes to the known targets of graphs `ids`, in double precision."""
        assert packed.y is not None, "only graphs with targets can be fitted"
        # A set that is mapped into memory is never gathered as a whole.
        given = packed[ids].y if packed.level == "node" else packed.y[ids.to(packed.device)]
        assert given is not None
        dtype = short_floats(given.reshape(len(given), -1)).dtype
        self._set_dtype(dtype)
        y = given.reshape(len(given), -1).double()
        largest = y.abs().nan_to_num().amax(dim=0)
        if self.per_node is not None:
            counts = _counts_of_set(packed, ids, len(self.per_node))
            self.per_node.copy_(_contributions(counts.cpu(), y.cpu()))
            y = y - counts @ self.per_node.double()
        mean = y.nanmean(dim=0)
        std = ((y - mean) ** 2).nanmean(dim=0).sqrt()
        self.mean.copy_(mean)
        self.std.copy_(torch.where(std > SMALLEST_STD[dtype] * largest, std, torch.ones_like(std)))

    def _set_dtype(self, dtype: torch.dtype) -> None:
        """Convert the map's buffers to `dtype`."""
        for name, value in self._buffers.items():
            if value is not None and value.dtype != dtype:
                setattr(self, name, value.to(dtype))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Load the buffers in the precision of the file."""
        mean = state_dict.get(f"{prefix}mean")
        if isinstance(mean, Tensor) and mean.dtype in SMALLEST_STD:
            self._set_dtype(mean.dtype)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def standardised(self, graphs: PackedGraphs | GraphBatch) -> Tensor:
        """Return the standardised targets of a set or a batch, [rows, out]; missing ones stay NaN."""
        assert graphs.y is not None, "only targets can be standardised"
        y = graphs.y.reshape(len(graphs.y), -1).double()
        if self.per_node is not None:
            categories = len(self.per_node)
            if isinstance(graphs, GraphBatch):
                counts = _counts(graphs, categories)
            else:
                counts = _counts_of_set(graphs, torch.arange(len(graphs)), categories)
            y = y - counts @ self.per_node.double()
        return ((y - self.mean.double()) / self.std.double()).float()


def make_target_scale(
    num_outputs: int, node_features: FeatureSpec, predictor: PredictorConfig, task: Task, level: Level
) -> TargetScale | None:
    """Make the scale of a model's targets; None for classes, which have no unit."""
    if task != "regression":
        if predictor.composition:
            raise InputError("predictor.composition is for regression; leave it out for classes")
        return None
    if predictor.composition and (level != "graph" or not node_features.categories):
        raise InputError("predictor.composition needs one target for each graph and nodes with integer categories")
    return TargetScale(num_outputs, node_features.categories[0] if predictor.composition else 0)


def _contributions(counts: Tensor, y: Tensor) -> Tensor:
    """Return the contribution of each node category to each target, by least squares, [categories, out]."""
    columns = []
    for target in y.T:
        known = ~target.isnan()  # the driver is for rank-deficient matrices, since categories may be absent
        columns.append(torch.linalg.lstsq(counts[known], target[known, None], driver="gelsd").solution)
    return torch.cat(columns, dim=1)


def _counts(graphs: GraphBatch, num_categories: int) -> Tensor:
    """Count the nodes of each category in each graph, [B, categories]."""
    counts = torch.zeros(graphs.num_graphs, num_categories, dtype=torch.float64, device=graphs.device)
    one = torch.ones(graphs.total_nodes, dtype=torch.float64, device=graphs.device)
    return counts.index_put_((graphs.node_graph, _first_column(graphs)), one, accumulate=True)


def _counts_of_set(packed: PackedGraphs, ids: Tensor, num_categories: int) -> Tensor:
    """Count the nodes of each category in each of the graphs `ids` of a set, [len(ids), categories]."""
    return torch.cat([_counts(packed[part], num_categories) for part in ids.split(GRAPHS_AT_ONCE)])


def _first_column(graphs: GraphBatch) -> Tensor:
    if graphs.x is None:
        raise InputError("predictor.composition counts categories of nodes, but these graphs have no x")
    return graphs.x[:, 0].long()
