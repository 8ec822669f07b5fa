"""Features of whole graphs, such as descriptors of a molecule, which the readout joins to the pooled embedding.

    a = clip((graph_attr - mean) / std, -BOUND, BOUND),   0 where a value is missing (NaN)

Mean and standard deviation are those of the training graphs. The bound keeps a single extreme descriptor of a new
molecule from deciding its prediction.

With `predictor.graph_attr_optional`, training reads every graph twice, with its features and with zeros in their place.
The same weights then also answer without the features, so that `maggnn fit` can compare both answers on held-out rows.
The second reading costs little, because it begins after the encoder.

Shapes: B graphs, F features.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs

BOUND = 4.0
"""In standard deviations of the training graphs."""

SMALLEST_STD = 1e-6
"""In units of the mean: a column with a smaller spread is constant up to rounding."""


class GraphFeatures(nn.Module):
    """Standardised features of graphs; before `fit`, they are only bounded.

    Args:
        count: the number of features.
        optional: whether graphs without `graph_attr` are accepted; their features are zeros.

    Shapes:
        mean, scale: [F]; result: [B, F]. The scale is 1 / std, and 0 for a column that is constant in training.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, count: int, optional: bool = False) -> None:
        super().__init__()
        self.optional = optional
        self.register_buffer("mean", torch.zeros(count))
        self.register_buffer("scale", torch.ones(count))

    def forward(self, graphs: GraphBatch) -> Tensor:
        """Return the standardised features of a batch, [B, F]."""
        given = graphs.graph_attr
        if given is None and self.optional:
            return self.mean.new_zeros(graphs.num_graphs, len(self.mean))
        if given is None or given.shape[1] != len(self.mean):
            found = "none" if given is None else str(given.shape[1])
            raise InputError(
                f"the model reads {len(self.mean)} features of each graph (graph_attr), these have {found}"
            )
        return ((given.to(self.mean.dtype) - self.mean) * self.scale).nan_to_num(0.0).clamp(-BOUND, BOUND)

    def with_and_without(self, embeddings: Tensor) -> Tensor:
        """Return embeddings that end in the features, followed by the same with zeros: [B, s, ...] -> [B, 2 s, ...]."""
        others = embeddings[..., : -len(self.mean)]
        without = torch.nn.functional.pad(others, (0, len(self.mean)))
        return torch.cat([embeddings, without], dim=1)

    def fit(self, packed: PackedGraphs, ids: Tensor) -> None:
        """Take mean and standard deviation from the known values of graphs `ids` [B]; a constant column becomes 0."""
        assert packed.graph_attr is not None, "only graphs with features of their own can be fitted"
        given = packed.graph_attr[ids.to(packed.device)].double()
        mean = given.nanmean(dim=0).nan_to_num(0.0)
        std = ((given - mean) ** 2).nanmean(dim=0).sqrt().nan_to_num(0.0)
        varies = std > SMALLEST_STD * mean.abs()
        self.mean.copy_(mean)
        self.scale.copy_(torch.where(varies, 1.0 / std, 0.0))
