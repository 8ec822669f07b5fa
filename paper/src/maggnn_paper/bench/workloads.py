"""What is measured: the paper's three test sets, MAG-GNN at its sizes and our one-pass MPNN."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.config.sections import MarkingName
from maggnn.data.sources import load_packed_file
from maggnn.graphs.batch import Level
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN

NUM_LAYERS, HIDDEN = 5, 100
NUM_TUPLES, TUPLE_ORDER, NUM_MOVES = 2, 3, 2
"""The paper's time table: five layers of width 100, m = 2, t = 2; it does not say k, 3 is the larger of its choices."""

HOPS = 3
"""How far copies of baselines reach, on all sets alike."""

QM9_TEST_SHARE = 0.1
"""The QM9 file has no split; a seeded tenth stands for the paper's test set."""


@dataclass(frozen=True)
class Workload:
    """A test set and the models that answer for it; weights are random, which costs the same."""

    name: str
    graphs: PackedGraphs
    conv: str
    num_outputs: int
    level: Level

    def model(
        self,
        num_tuples: int = NUM_TUPLES,
        tuple_order: int = TUPLE_ORDER,
        num_moves: int = NUM_MOVES,
        num_layers: int = NUM_LAYERS,
        hidden: int = HIDDEN,
        marking: MarkingName = "binary",
    ) -> MagGNN:
        """MAG-GNN; k = 0 and t = 0 make it a plain MPNN."""
        torch.manual_seed(0)
        model = MagGNN(
            self.num_outputs,
            FeatureSpec.of(self.graphs.x),
            FeatureSpec.of(self.graphs.edge_attr),
            EncoderConfig(conv=self.conv, num_layers=num_layers, hidden=hidden, marking=marking),
            agent=AgentConfig(num_tuples=num_tuples, tuple_order=tuple_order, num_moves=num_moves),
            task="regression",
            level=self.level,
        )
        return settle(model, self.graphs)


def load_workload(name: str, device: torch.device, limit: int | None = None) -> Workload:
    """The test split of a packed set, on `device`; the first `limit` graphs of it."""
    packed, extra = load_packed_file(name)
    if "test" in extra:
        ids = torch.from_numpy(extra["test"])
    else:
        order = torch.randperm(len(packed), generator=torch.Generator().manual_seed(0))
        ids = order[: int(QM9_TEST_SHARE * len(packed))].sort().values
    packed = packed.select(ids[:limit])
    if packed.edge_attr is not None:
        packed = replace(packed, edge_attr=packed.edge_attr.reshape(len(packed.edge_attr), -1))
    if packed.x is not None:
        packed = replace(packed, x=packed.x.reshape(len(packed.x), -1))
    conv = "gin" if packed.edge_attr is None else "gine"
    assert packed.y is not None
    outputs = 1 if packed.y.ndim == 1 else packed.y.shape[1]
    return Workload(name, packed.to(device), conv, outputs, packed.level)


SETTLING_NODES = 1000
"""Of the graphs that BatchNorm's statistics are taken from."""


def settle(model: MagGNN, graphs: PackedGraphs) -> MagGNN:
    """Give BatchNorm the statistics of some graphs, as training would: answers of an unsettled model overflow."""
    model.train()
    enough = max(1, int((graphs.num_nodes.cumsum(0) < SETTLING_NODES).sum()))
    some = graphs.select(torch.arange(enough)).to("cpu")
    for network in (model.predictor.encoder, None if model.q_network is None else model.q_network.encoder):
        if network is None:
            continue
        with torch.no_grad():
            for _ in range(20):
                batch = some[torch.arange(len(some))]
                shape = (batch.num_graphs, model.agent.num_tuples, model.agent.tuple_order)
                network(batch, (torch.rand(shape) * batch.num_nodes[:, None, None]).long())
    return model.eval()
