"""The entropy of the stable colouring of marked copies.

Shapes: B graphs, N nodes, M copies.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.model.refined.copies import stable_copies


def stable_entropy(graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Return the entropy of the stable colouring of every copy, in nats, [B, M], in double precision.

    Shapes:
        tuples: [B, M, k].
    """
    result = torch.zeros(tuples.shape[:2], dtype=torch.float64, device=tuples.device)
    for copies, colours, _ in stable_copies(graphs, tuples):
        result[:, copies] = _entropy(graphs, colours)
    return result


def _entropy(graphs: GraphBatch, colours: Tensor) -> Tensor:
    """Return the entropy, in nats, of the colour of a uniformly random node of each copy, [B, M], in double precision.

    With classes of s nodes among n it is log n - (1 / n) times the sum of s log s. It is log n if every node has a
    unique colour, and 0 if all nodes share one.
    """
    ordered = graphs.padded(colours, 0).sort(dim=1).values  # [B, V, M]
    place = torch.arange(ordered.shape[1], device=colours.device)[:, None]
    changes = ordered.diff(dim=1) != 0  # [B, V - 1, M]
    first = torch.nn.functional.pad(changes, (0, 0, 1, 0), value=True)
    last = torch.nn.functional.pad(changes, (0, 0, 0, 1), value=True)
    begin = torch.where(first, place, 0).cummax(dim=1).values
    size = torch.where(last, place + 1 - begin, 1).double()  # 1, whose logarithm is 0, if no class ends here
    total = (size * size.log()).sum(dim=1)  # [B, M]
    num_nodes = graphs.num_nodes.double()[:, None]
    padding = (graphs.max_num_nodes - num_nodes).clamp(min=1)
    return num_nodes.clamp(min=1).log() - (total - padding * padding.log()) / num_nodes.clamp(min=1)
