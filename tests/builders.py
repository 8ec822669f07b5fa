"""Small graphs and models that several tests are made of; `from builders import ...` works in every test.

Shapes: G graphs of given sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import networkx as nx
import torch
from torch import Tensor, nn

from maggnn.data.dataset import DatasetEntry
from maggnn.data.registry import check, load
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.conversions import pack_networkx
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    from maggnn_paper.ledger import LedgerRow


def seeded(seed: int = 0, device: torch.device | str = "cpu") -> torch.Generator:
    return torch.Generator(device).manual_seed(seed)


# ---- graphs ---------------------------------------------------------------------------------------------


def all_of(packed: PackedGraphs) -> GraphBatch:
    """All graphs of a set as one batch."""
    return packed[torch.arange(len(packed))]


def edgeless(*sizes: int) -> GraphBatch:
    """Graphs without edges."""
    return all_of(PackedGraphs.build(torch.tensor(sizes), torch.zeros(len(sizes)), torch.empty(2, 0, dtype=torch.long)))


def random_edges(sizes: Sequence[int], density: float, generator: torch.Generator) -> list[Tensor]:
    """The pairs u < v that are joined in random graphs, [E, 2] for each."""
    return [(torch.rand(n, n, generator=generator) < density).triu(1).nonzero() for n in sizes]


def packed_edges(sizes: Sequence[int], edges: Sequence[Tensor], undirected: bool = True, **fields: Any) -> PackedGraphs:
    """Graphs of edges [E, 2] each, with other fields of `PackedGraphs.build`; undirected ones are there once."""
    counts = torch.tensor([len(part) for part in edges])
    return PackedGraphs.build(
        torch.tensor(sizes), counts, torch.cat(list(edges)).T, undirected_once=undirected, **fields
    )


def random_targets(task: str, level: str, sizes: Sequence[int], num_outputs: int, generator: torch.Generator) -> Tensor:
    """Classes [rows] or numbers [rows, num_outputs], a row a graph or a row a node."""
    rows = len(sizes) if level == "graph" else sum(sizes)
    classes = torch.randint(num_outputs, (rows,), generator=generator)
    values = torch.randn(rows, num_outputs, generator=generator)
    return classes if task == "classification" else values


def random_molecules(sizes: Sequence[int], density: float, generator: torch.Generator) -> PackedGraphs:
    """Random graphs with two columns of five categories at nodes and one of three at edges."""
    edges = random_edges(sizes, density, generator)
    x = torch.randint(5, (sum(sizes), 2), generator=generator)
    attr = torch.randint(3, (sum(map(len, edges)), 1), generator=generator)
    return packed_edges(sizes, edges, x=x, edge_attr=attr)


def renumbered(packed: PackedGraphs, seed: int) -> PackedGraphs:
    """The same graphs with their nodes numbered at random and their edges in another order."""
    generator = seeded(seed)
    place = torch.cat([torch.randperm(int(size), generator=generator) for size in packed.num_nodes])
    rows = torch.empty_like(place)
    rows[place + torch.repeat_interleave(packed.node_offsets[:-1], packed.num_nodes)] = torch.arange(len(place))
    graph = torch.repeat_interleave(torch.arange(len(packed)), packed.num_edges)
    order = torch.argsort(graph + 0.9 * torch.rand(len(graph), generator=generator))
    return PackedGraphs.build(
        packed.num_nodes,
        packed.num_edges,
        place[packed.edge_index + packed.node_offsets[graph]][:, order],
        x=None if packed.x is None else packed.x[rows],
        edge_attr=None if packed.edge_attr is None else packed.edge_attr[order],
        y=packed.y,
    )


def coloured(graph: nx.Graph, seed: int = 0) -> nx.Graph:
    """The graph with an atom of three kinds at every node and a bond of two kinds on every edge."""
    generator, graph = seeded(seed), nx.Graph(graph)
    for values in graph.nodes.values():
        values["x"] = [int(torch.randint(3, (), generator=generator))]
    for values in graph.edges.values():
        values["edge_attr"] = [int(torch.randint(2, (), generator=generator))]
    return graph


def hexagon_and_triangles() -> PackedGraphs:
    """A ring of six and two rings of three, which message passing cannot tell apart."""
    return pack_networkx([nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))])


# ---- what tells graphs apart ----------------------------------------------------------------------------


def dense(packed: PackedGraphs) -> Tensor:
    """Dense adjacency of graphs of equal size, [G, n, n]."""
    batch = all_of(packed)
    source, target = batch.edge_index
    table = torch.zeros(len(packed), batch.max_num_nodes, batch.max_num_nodes)
    table[batch.node_graph[target], batch.local_id[target], batch.local_id[source]] = 1
    return table


def marked_pair_invariants(graphs: Tensor) -> list[tuple[float, ...]]:
    """For each graph of a stack [G, n, n], the multiset over node pairs of colours after marking the pair.

    Four rounds of colour refinement by modular sums, exact in double precision: relabelling leaves it alone, so
    different values prove two graphs non-isomorphic.
    """
    return [_marked_pair_invariant(graph) for graph in graphs]


def _marked_pair_invariant(graph: Tensor) -> tuple[float, ...]:
    n, node = len(graph), torch.arange(len(graph))
    colour = torch.ones(n, n, n, dtype=torch.float64)  # [u, v, node]
    colour[node, :, node] += 1
    colour[:, node, node] += 2
    for _ in range(4):
        colour = (colour * 31 + (colour * colour % 10007) @ graph.double()) % 1000003
    return tuple(colour.pow(2).sum(-1).flatten().sort().values.tolist())


# ---- encoders -------------------------------------------------------------------------------------------


def embed(baseline: nn.Module, graphs: GraphBatch) -> Tensor:
    """What a baseline, which needs no tuples, says of each node."""
    return baseline(graphs, torch.zeros(graphs.num_graphs, 1, 0, dtype=torch.long))


def settled(baseline: nn.Module, graphs: GraphBatch, passes: int = 20) -> nn.Module:
    """The baseline with the statistics of these graphs, in eval mode."""
    with torch.no_grad():
        for _ in range(passes):
            embed(baseline.train(), graphs)
    return baseline.eval()


def differences(h: Tensor) -> Tensor:
    """How far each two of the embeddings [B, d] are apart, relative to their size, [pairs]."""
    return torch.pdist(h) / h.norm(dim=1).max()


# ---- the paper ------------------------------------------------------------------------------------------


def make_row(**changes: Any) -> LedgerRow:
    """A row of the ledger."""
    from maggnn_paper.ledger import LedgerRow

    values = {"table": "synthetic", "dataset": "sr25", "method": "mag-gnn", "metric": "accuracy", "mean": 99.5}
    values |= {"m": 1, "k": 2, "t": 2, "keep": "last", "hardware": "cpu, 2 cores", "torch": "2.13.0", "commit": "abc"}
    return LedgerRow(**(values | changes))


def assert_facts_hold(name: str, entry: DatasetEntry) -> None:
    """A set is what its row says, and what is known of it holds."""
    assert [fact for fact, holds in check(name) if not holds] == []
    dataset = load(name)
    assert dataset.name == name and len(dataset.graphs) == entry.num_graphs
    assert entry.description and "\n" not in entry.description
    outputs = dataset.y.shape[1] if dataset.task == "regression" else int(dataset.y.max()) + 1
    assert outputs == dataset.num_outputs
    assert (dataset.metric == "mae") == (dataset.task == "regression") == dataset.y.is_floating_point()
    assert dataset.class_names is None or len(dataset.class_names) == dataset.num_outputs
    assert not entry.target_names or entry.target_names == dataset.target_names
