"""`AddMarks`: a PyG transform that lets a trained agent move marks and adds them to a graph, as input of any other GNN.

dataset = ZINC(root, pre_transform=AddMarks.pretrained("cycles6", num_tuples=2, num_moves=2))
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import cast

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from maggnn.config import AgentConfig
from maggnn.errors import InputError
from maggnn.graphs.call_forms import as_batch
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.marking import marks
from maggnn.model.pretrained import pretrained_agent
from maggnn.model.runtime import make_generator
from maggnn.model.saving import load_model

FEATURES = ("x", "edge_attr", "edge_weight", "graph_attr")
"""What a pretrained agent, which reads only edges, ignores."""


class AddMarks(BaseTransform):
    """Adds the final marks of a trained agent's search to a graph: 1 if a node is marked and 0 otherwise.

    Every search uses the same seed, so equal graphs get equal marks, in whatever order they come. The graphs of a
    `Batch` share the random numbers of one search, so their marks also depend on their places in it.

    Args:
        model: a trained model, or the path of its file.
        attr_name: the attribute for the marks, [N, m * k], tuple after tuple; None appends them to `x` as floats.
        seed: draws the marks before the first move, and breaks ties.

    Example:
        >>> data = AddMarks(model)(data)
        >>> data.marks  # [N, m * k]
    """

    def __init__(self, model: MagGNN | Path | str, attr_name: str | None = "marks", seed: int = 0) -> None:
        self.model = load_model(Path(model))[0] if isinstance(model, str | Path) else model
        if self.model.q_network is None:
            raise InputError("this model has no agent (k = 0): AddMarks needs one that moves marks")
        self.attr_name, self.seed = attr_name, seed
        self.reads_features = self.model.pretrained is None

    @classmethod
    def pretrained(
        cls, name: str, num_tuples: int = 1, num_moves: int = 2, attr_name: str | None = "marks", seed: int = 0
    ) -> AddMarks:
        """Make the transform with an agent that comes with the package (`maggnn agents`), which reads only the edges.

        Args:
            name: the agent, such as cycles6, or the path of its file.
            num_tuples: m, the number of tuples.
            num_moves: t, the number of moves of a search.
            attr_name, seed: as for `AddMarks`.
        """
        order = pretrained_agent(name).tuple_order
        settings = AgentConfig(num_tuples=num_tuples, tuple_order=order, num_moves=num_moves, pretrained=name)
        return cls(MagGNN(1, agent=settings), attr_name, seed)

    @torch.no_grad()
    def forward(self, data: Data) -> Data:
        """Add the marks to a graph or a batch."""
        reads_all = self.reads_features or not isinstance(data, Data)  # what is no graph is refused as it is
        graphs = as_batch(data if reads_all else _edges_alone(data))
        self.model.check_features(graphs)
        generator = make_generator(self.seed, graphs.device)
        state = self.model.walk(graphs, generator=generator)[-1]
        columns = marks(graphs, state.tuples, 1.0, 0.0, torch.float32).flatten(1)  # [N, m * k]
        if self.attr_name is not None:
            data[self.attr_name] = columns
        elif data.x is None:
            data.x = columns
        else:
            own = data.x[:, None] if data.x.ndim == 1 else data.x
            data.x = torch.cat([_as_floats(own), columns.to(_as_floats(own).dtype)], dim=1)
        return data

    def __repr__(self) -> str:
        agent = cast("MagGNN", self.model).agent
        return f"AddMarks(m={agent.num_tuples}, k={agent.tuple_order}, t={agent.num_moves})"


def _edges_alone(data: Data) -> Data:
    """Return the graphs without features, for an agent that reads none."""
    bare = copy.copy(data)
    bare.num_nodes = data.num_nodes  # which is otherwise the number of rows of x
    for name in FEATURES:
        if name in bare:
            del bare[name]
    return bare


def _as_floats(x: Tensor) -> Tensor:
    """Convert features [N, F] to floats; raises an `InputError` for whole numbers that floats would round."""
    found = x.to(torch.promote_types(x.dtype, torch.float32))
    if not x.is_floating_point() and not bool((found.double() == x.double()).all()):
        raise InputError("x holds whole numbers that float32 rounds: give attr_name, and the marks are not added to x")
    return found
