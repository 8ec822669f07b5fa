"""The two forms in which a model takes graphs: one object, `model(batch)`, or tensors as PyG's layers take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.checks import check_tensor
from maggnn.graphs.conversions import batch_from_pyg

if TYPE_CHECKING:
    from torch_geometric.data import Batch, Data


def as_batch(
    graphs: GraphBatch | Batch | Data | Tensor | None,
    edge_index: Tensor | None = None,
    batch: Tensor | None = None,
    edge_attr: Tensor | None = None,
) -> GraphBatch:
    """Return the graphs of a call in either form as a batch, without the targets of PyG graphs.

    The arguments are those of `MagGNN.forward`.
    """
    if graphs is None or isinstance(graphs, Tensor):
        return _batch_of_columns(graphs, edge_index, batch, edge_attr)
    if any(value is not None for value in (edge_index, batch, edge_attr)):
        raise InputError("model(graphs) takes no edge_index, batch or edge_attr besides graphs; give tuples by name")
    if not hasattr(graphs, "edge_index"):
        raise InputError(
            f"the graphs are of type {type(graphs).__name__}: give a PyG Batch or Data, or x, edge_index and batch"
        )
    return graphs if isinstance(graphs, GraphBatch) else batch_from_pyg(graphs, targets=False)


def _batch_of_columns(
    x: Tensor | None, edge_index: Tensor | None, batch: Tensor | None, edge_attr: Tensor | None
) -> GraphBatch:
    """Make a batch of tensors in the form that PyG's layers take.

    Args:
        x: the features of nodes; None if they have none, and then `batch` gives the number of nodes.
        edge_index: the edges, as node ids of the batch.
        batch: the graph of each node, in order; None if all nodes are of one graph.
        edge_attr: the features of edges.

    Shapes:
        x: [N, F]; edge_index: [2, E]; batch: [N]; edge_attr: [E, F].
    """
    from torch_geometric.data import Data

    if edge_index is None:
        raise InputError("edge_index is missing: call model(x, edge_index, batch, edge_attr), or model(batch)")
    if x is None and batch is None:
        raise InputError(
            "x and batch are both None, so the number of nodes is unknown: give batch, zeros for one graph"
        )
    for name, values in (("x", x), ("batch", batch), ("edge_attr", edge_attr)):
        if values is not None:
            check_tensor(name, values)
    num_nodes = len(x) if batch is None and x is not None else len(batch)  # pyright: ignore[reportArgumentType]
    return batch_from_pyg(Data(x=x, edge_index=edge_index, edge_attr=edge_attr, batch=batch, num_nodes=num_nodes))
