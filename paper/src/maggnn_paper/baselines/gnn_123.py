"""1-2-3-GNN: GNNs over nodes, then over sets of two, then over sets of three.

Morris, Ritzert, Fey, Hamilton, Lenssen, Rattan and Grohe, "Weisfeiler and Leman Go Neural: Higher-Order Graph Neural
Networks", AAAI 2019.

    f_1          = g(G), a GNN over nodes
    f_k^0(s)     = W [ iso(s), sum of f_{k-1}(u) over u in s with one node less ]      iso: how s is joined within
    f_k^{t+1}(s) = MLP( (1 + eps) f_k^t(s) + sum over r in N(s) of f_k^t(r) )
    N(s)         = the sets that differ from s in one node, the two different nodes being joined ("local")
    h_v          = W [ f_1(v), mean of f_2(s) over s that hold v, mean of f_3(s) over s that hold v ]

Departures: all sets of two, but of three only the connected ones (as its authors' code offers), which are about as
many as there are pairs of neighbours and not V^3; GIN's update in place of one linear map; every level has T layers;
sets are pooled to their nodes, where the paper pools each level over the graph.

Local neighbours see cliques: two triangles that differ in one node, the two different nodes being joined, are a clique
of four. So it distinguishes all 15 graphs of SR25 (measured), which no method bounded by 3-WL does, such as PPGN.

Sums over sets add to one row from many threads of a GPU, so that they do not repeat there bit for bit.

Shapes: N nodes; S sets of k nodes of the batch; B graphs, V the largest graph's nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch, batch_of_edges
from maggnn.model.encoder import GINLayer
from maggnn.model.features import FeatureEmbedding, FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import cached
from maggnn_paper.baselines.parts import bond_embedding
from maggnn_paper.cycles import Neighbours, neighbours


@dataclass(frozen=True)
class Sets:
    """All sets of k nodes of one size, as nodes of graphs of their own.

    Attributes:
        nodes: batch ids in ascending order, [S, k]; the sets are in the order of their `_key`.
        below: the sets of k - 1 nodes (for k = 2: the nodes) that each holds, [S, k].
        kind: how many edges a set has, above the fewest that its like can have, [S, 1].
        graphs: one graph of sets for each graph, with edges between local neighbours.
    """

    nodes: Tensor
    below: Tensor
    kind: Tensor
    graphs: GraphBatch

    def mean_node(self, h: Tensor, total_nodes: int) -> Tensor:
        """Over the sets that hold a node, [S, 1, d] -> [N, 1, d]; 0 where there are none."""
        count = torch.bincount(self.nodes.flatten(), minlength=total_nodes).clamp(min=1)
        total = h.new_zeros(total_nodes, *h.shape[1:])
        for node in self.nodes.T:
            total = total.index_add(0, node, h)
        return total / count[:, None, None]


class Level(nn.Module):
    """The GNN over sets of one size."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.sum = config.jk == "sum"
        self.kind = FeatureEmbedding(FeatureSpec(categories=(2,)), config.hidden)
        self.below = nn.Linear(config.hidden, config.hidden, bias=False)  # each kind has a bias of its own
        self.layers = nn.ModuleList(GINLayer(config, FeatureSpec()) for _ in range(config.num_layers))

    def forward(self, below: Tensor, sets: Sets, bonds: Tensor | None = None) -> Tensor:
        """From the level below, [rows, 1, d], and what is known of each set's bonds, [S, d]: [S, 1, d]."""
        if not len(sets.nodes):  # norms have no statistics of no rows
            return below.new_zeros(0, *below.shape[1:])
        parts = self.below(below).index_select(0, sets.below.flatten()).unflatten(0, sets.below.shape)  # [S, k, 1, d]
        h = parts.sum(dim=1) + self.kind(sets.kind)[:, None]
        h = h if bonds is None else h + bonds[:, None]
        total = h
        for layer in self.layers:
            h = layer(h, sets.graphs)
            total = total + h if self.sum else h
        return total


class GNN123(Baseline):
    """GNNs over nodes, pairs and connected triples; pairs always know their bond, whatever `encoder.conv` is."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.g = self.inner()
        self.bonds = bond_embedding(config, edge_features)
        self.pairs, self.triples = Level(config), Level(config)
        self.read = nn.Linear(3 * config.hidden, config.hidden)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        pairs, triples = sets_of(graphs)
        one = self.g(graphs, tuples[:, :1])  # [N, 1, d]
        two = self.pairs(one, pairs, self._bonds(graphs, pairs))  # [S, 1, d]
        three = self.triples(two, triples)
        means = [sets.mean_node(h, graphs.total_nodes) for sets, h in ((pairs, two), (triples, three))]
        return self.read(torch.cat([one, *means], dim=-1))

    def _bonds(self, graphs: GraphBatch, pairs: Sets) -> Tensor | None:
        """What the edges of each pair are, both directions together, [S, d]; None: nothing is known of edges."""
        if self.bonds is None:
            return None
        edge, pair = graphs.derived("edges and their pairs", lambda: _edges_and_pairs(graphs, pairs))
        bonds = self.bonds(self.bonds.of(graphs)[edge])
        return bonds.new_zeros(len(pairs.nodes), bonds.shape[1]).index_add(0, pair, bonds)


def sets_of(graphs: GraphBatch) -> tuple[Sets, Sets]:
    """The pairs and the connected triples of a batch."""
    return cached(graphs, "pairs and triples", lambda: _pairs_and_triples(neighbours(graphs)))


def _pairs_and_triples(near: Neighbours) -> tuple[Sets, Sets]:
    pairs = pairs_of(near)
    return pairs, triples_of(near, pairs)


def _edges_and_pairs(graphs: GraphBatch, pairs: Sets) -> Tensor:
    """An edge of the batch and the pair of its ends, [2, .]; self-loops and padding have none."""
    source, target = graphs.edge_index
    proper = (source != target).nonzero()[:, 0]  # padding, too, joins a row to itself
    ends = graphs.edge_index[:, proper].T.sort(dim=1).values
    return torch.stack([proper, torch.searchsorted(_key(pairs.nodes, graphs), _key(ends, graphs))])


def pairs_of(near: Neighbours) -> Sets:
    """All sets of two nodes of a graph."""
    graphs = near.graphs
    graph, i, j = (graphs.is_node[:, :, None] & graphs.is_node[:, None]).triu(1).nonzero(as_tuple=True)
    nodes = torch.stack([i, j], dim=1) + graphs.first_node[graph][:, None]
    return Sets(nodes, nodes, near.joined(nodes[:, 0], nodes[:, 1]).long()[:, None], _graphs_of(nodes, near))


def triples_of(near: Neighbours, pairs: Sets) -> Sets:
    """All sets of three nodes that are connected: a node and two of its neighbours."""
    graphs = near.graphs
    middle, first = near.pairs
    row, second = near.of(middle)
    path = torch.stack([middle[row], first[row], second], dim=1)[first[row] < second]
    nodes = path.sort(dim=1).values
    nodes = nodes[_first_of_each(_key(nodes, graphs))]  # a triangle has three middles
    within = [nodes[:, kept] for kept in ([0, 1], [0, 2], [1, 2])]
    below = torch.stack([torch.searchsorted(_key(pairs.nodes, graphs), _key(two, graphs)) for two in within], dim=1)
    num_edges = pairs.kind[below, 0].sum(dim=1, keepdim=True)
    return Sets(nodes, below, num_edges - 2, _graphs_of(nodes, near))


def _key(nodes: Tensor, graphs: GraphBatch) -> Tensor:
    """One number for each row of ascending nodes of one graph, [S, k] -> [S]; in the order of the rows."""
    key = nodes[:, 0]
    for column in range(1, nodes.shape[1]):
        key = key * graphs.max_num_nodes + graphs.local_id[nodes[:, column]]
    return key


def _first_of_each(key: Tensor) -> Tensor:
    """One row for every different key, in the order of keys."""
    ordered, row = key.sort()
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[1:] = ordered[1:] != ordered[:-1]
    return row[new]


def _graphs_of(nodes: Tensor, near: Neighbours) -> GraphBatch:
    """Graphs of sets [S, k], with edges where one node is changed for a neighbour of it."""
    graphs, total = near.graphs, len(nodes)
    source, target = torch.cat([_changed(nodes, column, near) for column in range(nodes.shape[1])], dim=1)
    order = torch.argsort(target * total + source)
    source, target = source[order], target[order]
    num_sets = torch.bincount(graphs.node_graph[nodes[:, 0]], minlength=graphs.num_graphs)
    return batch_of_edges(num_sets, torch.stack([source, target]))


def _changed(nodes: Tensor, column: int, near: Neighbours) -> Tensor:
    """Sets that differ from each set in the node of a column, which is joined to the other's: [2, .] (other, set)."""
    row, node = near.of(nodes[:, column])
    new = (nodes[row] != node[:, None]).all(dim=1)
    row, node = row[new], node[new]
    other = nodes[row]
    other[:, column] = node
    keys, key = _key(nodes, near.graphs), _key(other.sort(dim=1).values, near.graphs)
    place = torch.searchsorted(keys, key).clamp(max=max(len(keys) - 1, 0))
    there = keys[place] == key  # the other one may not be connected
    return torch.stack([place[there], row[there]])
