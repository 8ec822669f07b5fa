"""Any PyG convolution as a layer of the encoder: given by name, as an object, or by a user's factory.

    MagGNN.for_data(data, base=lambda d: GATv2Conv(d, d, heads=4, concat=False, edge_dim=d))

The m marked copies of a batch are laid side by side, so that a convolution sees one large graph. It is called as
`conv(x, edge_index)`, with `edge_attr` [E, d] and `batch` [N] if it takes them. A convolution that cannot be called
like that is rejected when the model is made, by a trial on a graph of three nodes.

Shapes: N nodes, E edges of the batch, m copies, d width.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from maggnn.config import EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.model.edge_embedding import EdgeEmbedding
from maggnn.model.features import FeatureSpec
from maggnn.model.normalise import Norm, in_evaluation

BaseGNN = nn.Module | Callable[[int], nn.Module]
"""A convolution from d to d channels, of which each layer takes a new copy, or a function that makes one of width d."""


class ConvolutionLayer(nn.Module):
    """A convolution over marked copies, normalised, then relu.

    Args:
        config: width, norm and residual of the encoder; its `conv` names the convolution if there is no base.
        edge_features: the features in `edge_attr`.
        base: a convolution or a function that makes one.

    Shapes:
        h: [N, m, d]; result: [N, m, d].
    """

    def __init__(self, config: EncoderConfig, edge_features: FeatureSpec, base: BaseGNN | None = None) -> None:
        super().__init__()
        d = config.hidden
        self.conv = _named(config.conv, d) if base is None else _made(base, d)
        self.last_norm = Norm(config.norm, d)
        self.residual = config.residual
        self.takes_batch = "batch" in _parameters(self.conv)
        _check_arguments(self.conv)
        has_edges = base is not None and (
            config.rings or not edge_features.empty
        )  # a convolution given by name does not read features of edges
        self.edge_embedding: EdgeEmbedding | None = None
        if _try_out(self.conv, d, has_edges, self.takes_batch):
            self.edge_embedding = EdgeEmbedding(edge_features, config.rings, d)

    @property
    def reads_edges(self) -> bool:
        """Whether it reads the features of edges."""
        return self.edge_embedding is not None

    def forward(self, h: Tensor, graphs: GraphBatch) -> Tensor:
        num_nodes, copies, hidden = h.shape
        copy_id = torch.arange(copies, device=h.device)
        edge_index = graphs.edge_index + copy_id[:, None, None] * num_nodes  # [m, 2, E]
        given: dict[str, Tensor] = {}
        if self.edge_embedding is not None:
            given["edge_attr"] = self.edge_embedding(self.edge_embedding.of(graphs)).repeat(copies, 1)  # [m * E, d]
        if self.takes_batch:
            given["batch"] = (graphs.node_graph + copy_id[:, None] * graphs.num_graphs).flatten()  # [m * N]
        flat = h.transpose(0, 1).reshape(-1, hidden)  # [m * N, d]
        out = self.conv(flat, edge_index.transpose(0, 1).reshape(2, -1), **given)
        out = out.reshape(copies, num_nodes, hidden).transpose(0, 1)
        return self.last_norm.relu(out, graphs.num_real, residual=h if self.residual else None)


def _named(name: str, hidden: int) -> nn.Module:
    """Make the convolution of `torch_geometric.nn` that `encoder.conv` names."""
    import torch_geometric.nn as pyg

    convolution = getattr(pyg, name, None)
    if convolution is None or not name.endswith("Conv"):
        raise InputError(f"encoder.conv is {name!r}, must be gin, gine or a convolution of torch_geometric.nn")
    try:
        return convolution(hidden, hidden)
    except TypeError as error:
        raise InputError(
            f"encoder.conv {name} needs more than two widths ({error}): give it as base=lambda d: {name}(...)"
        ) from None
    except Exception as error:  # a convolution can raise any error
        raise InputError(
            f"{name}({hidden}, {hidden}) failed ({_line(error)}): give it as base=lambda d: ..."
        ) from error


def _made(base: BaseGNN, hidden: int) -> nn.Module:
    """Make a separate convolution for one layer."""
    if isinstance(base, nn.Module):
        conv = copy.deepcopy(base)
        reset = getattr(conv, "reset_parameters", None)
        if callable(reset):
            reset()
        return conv
    if not callable(base):
        raise InputError(f"base is of type {type(base).__name__}: give a convolution or a function of the width")
    try:
        conv = base(hidden)
    except Exception as error:  # a convolution can raise any error
        raise InputError(f"base({hidden}) failed ({_line(error)}): give a function of the width d") from error
    if not isinstance(conv, nn.Module):
        raise InputError(f"base({hidden}) is of type {type(conv).__name__}, must be a module")
    return conv


def _parameters(conv: nn.Module) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(conv.forward).parameters)


def _takes_edges(conv: nn.Module) -> bool:
    """Whether a convolution takes `edge_attr`; one with **kwargs does if one of its submodules does."""
    parameters = _parameters(conv)
    hands_on = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    convolutions = (part for part in conv.children() if hasattr(part, "propagate"))
    return "edge_attr" in parameters or (hands_on and any(map(_takes_edges, convolutions)))


def _check_arguments(conv: nn.Module) -> None:
    first = list(_parameters(conv))[:2]
    if first != ["x", "edge_index"]:
        raise InputError(
            f"{type(conv).__name__} is called with ({', '.join(first)}, ...): "
            "a base GNN takes (x, edge_index) of one kind of node"
        )
    if any(getattr(part, "cached", False) for part in conv.modules()):
        raise InputError(
            f"{type(conv).__name__} with cached=True reads the edges of the first graphs again for all others: "
            "leave cached out"
        )


def _try_out(conv: nn.Module, hidden: int, has_edges: bool, takes_batch: bool) -> bool:
    """Call a convolution on a path of three nodes. Returns whether it reads features of edges, if there are any."""
    where = next((weight.device for weight in conv.parameters()), None)
    if torch.get_default_device().type == "meta" or (where is not None and where.type == "meta"):
        return has_edges and _takes_edges(
            conv
        )  # on the meta device, where a file is checked, there are no values to compute with
    given: dict[str, Any] = {"batch": torch.zeros(3, dtype=torch.long, device=where)} if takes_batch else {}
    edge_attr = {"edge_attr": torch.ones(4, hidden, device=where)}
    takes_edges = _takes_edges(conv)
    if has_edges and takes_edges and _failure(conv, hidden, given | edge_attr) is None:
        return True  # a convolution made without edge_dim, such as GATConv(d, d), fails when it gets them
    error = _failure(conv, hidden, given)
    if error is None:
        return False
    if takes_edges and not has_edges and _failure(conv, hidden, given | edge_attr) is None:
        raise InputError(f"{type(conv).__name__} reads edge_attr, but there are no edge features: choose another base")
    raise error


def _failure(conv: nn.Module, hidden: int, given: dict[str, Any]) -> InputError | None:
    """Return the error of a call, if any; random states and statistics are left unchanged."""
    where = next((weight.device for weight in conv.parameters()), None)
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]], device=where)
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]), in_evaluation(conv):
            out = conv(torch.ones(3, hidden, device=where), edges, **given)
    except Exception as error:  # a convolution can raise any error
        return InputError(
            f"{type(conv).__name__} cannot be a base GNN: called on a graph of three nodes it fails ({_line(error)})"
        )
    if isinstance(out, Tensor) and out.shape == (3, hidden):
        return None
    found = list(out.shape) if isinstance(out, Tensor) else f"a {type(out).__name__}"
    return InputError(f"{type(conv).__name__} returns {found} for 3 nodes of width {hidden}, must be [3, {hidden}]")


def _line(error: Exception) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:150]}" if lines[0] else type(error).__name__
