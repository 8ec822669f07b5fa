"""CIN: messages between nodes, edges and rings, all of which have embeddings of their own.

Bodnar, Frasca, Otter, Wang, Liò, Montúfar and Bronstein, "Weisfeiler and Lehman Go Cellular: CW Networks", NeurIPS
2021.

    b_x  = D( (1 + eps) h_x + sum of h_y over the cells y that bound x )     edges by nodes, rings by edges
    u_x  = D( (1 + eps) h_x + sum of relu(W h_y + W' h_z) )     x and y bound z together: nodes an edge, edges a ring
    h_x' = D( [ u_x, b_x ] )     D a linear map, norm and relu; nodes have no boundary, and rings bound nothing

A node's embedding is W [ itself, the mean of its edges, the mean of its rings ].

Departures: the paper pools each kind of cell over the graph, here cells reach the graph through their nodes; edges
start from their atoms and their bond, where the paper takes the bond alone if there is one; one layer and not two
before the parts are joined; rings have up to `largest_ring` nodes, in the config for ZINC 8, where the paper
takes 18.

Sums over cells add to one row from many threads of a GPU, so that they do not repeat there bit for bit.

Shapes: N nodes; C edges as cells (each once), R rings, [N, d], [C, d] and [R, d] their embeddings.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.config import BaselineConfig, EncoderConfig
from maggnn.graphs.batch import GraphBatch
from maggnn.model.features import FeatureSpec
from maggnn_paper.baselines.baseline import Baseline
from maggnn_paper.baselines.copies import cached
from maggnn_paper.baselines.parts import Dense, bond_embedding
from maggnn_paper.cycles import Neighbours, between, chordless_cycles, neighbours

Embeddings = tuple[Tensor, Tensor, Tensor]
"""Of nodes, edges and rings."""


@dataclass(frozen=True)
class Cells:
    """Who bounds whom, and who bounds something together; columns are relations.

    Attributes:
        bonds: an edge of the batch and its cell, [2, .]; self-loops and padding are no cells.
        boundary: a cell and one that it bounds: nodes and edges, then edges and rings, [2, .] each.
        corners: a node and a ring that it lies in, [2, .].
        upper: a cell, another, and what both bound: nodes and their edge, then edges and their ring, [3, .] each.
    """

    num_edges: int
    num_rings: int
    bonds: Tensor
    boundary: tuple[Tensor, Tensor]
    corners: Tensor
    upper: tuple[Tensor, Tensor]


class Update(nn.Module):
    """D((1 + eps) h + total)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.dense = Dense(config.hidden, config)

    def forward(self, h: Tensor, total: Tensor, num_real: Tensor | None = None) -> Tensor:
        return self.dense((1 + self.eps) * h + total, num_real)


class CellLayer(nn.Module):
    """One round of messages between cells."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        d = config.hidden
        self.sent = nn.ModuleList(nn.Linear(d, d) for _ in range(2))  # by nodes, by edges
        self.through = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(2))  # edges, rings
        self.up = nn.ModuleList(Update(config) for _ in range(2))  # of nodes, of edges
        self.from_boundary = nn.ModuleList(Update(config) for _ in range(2))  # of edges, of rings
        self.join = nn.ModuleList(Dense(width, config) for width in (d, 2 * d, d))
        self.residual, self.dropout = config.residual, config.dropout

    def forward(self, h: Embeddings, cells: Cells, num_real: Tensor | None) -> Embeddings:
        nodes, edges, rings = h
        node_parts = self.up[0](nodes, self._from_beside(0, h, cells), num_real)
        edge_parts = [
            self.up[1](edges, self._from_beside(1, h, cells)),
            self.from_boundary[0](edges, _sum(nodes, cells.boundary[0], len(edges))),
        ]
        ring_parts = self.from_boundary[1](rings, _sum(edges, cells.boundary[1], len(rings)))
        return (
            self._finished(0, nodes, node_parts, num_real),
            self._finished(1, edges, torch.cat(edge_parts, dim=1)),
            self._finished(2, rings, ring_parts),
        )

    def _from_beside(self, dimension: int, h: Embeddings, cells: Cells) -> Tensor:
        """What cells of a dimension hear from those that bound something with them."""
        to, other, both = cells.upper[dimension]
        sent, through = self.sent[dimension](h[dimension]), self.through[dimension](h[dimension + 1])
        message = sent.index_select(0, other) + through.index_select(0, both)
        return torch.zeros_like(h[dimension]).index_add(0, to, message.relu())

    def _finished(self, dimension: int, h: Tensor, parts: Tensor, num_real: Tensor | None = None) -> Tensor:
        out = functional.dropout(self.join[dimension](parts, num_real), self.dropout, self.training)
        return h + out if self.residual else out


class CIN(Baseline):
    """Messages between nodes, edges and rings; always reads bonds, whatever `encoder.conv` is."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.atoms = self.inner(num_layers=0)
        self.bonds = bond_embedding(config, edge_features)
        self.layers = nn.ModuleList(CellLayer(config) for _ in range(config.num_layers))
        self.read = nn.Linear(3 * config.hidden, config.hidden)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        cells = cells_of(graphs, self.baseline.largest_ring)
        h = self._initial(graphs, cells, self.atoms(graphs, tuples[:, :1])[:, 0])
        total = h
        for layer in self.layers:
            h = layer(h, cells, graphs.num_real)
            total = (total[0] + h[0], total[1] + h[1], total[2] + h[2]) if self.config.jk == "sum" else h
        nodes, edges, rings = total
        of_edges = _mean(edges, cells.boundary[0].flip(0), len(nodes))
        of_rings = _mean(rings, cells.corners.flip(0), len(nodes))
        return self.read(torch.cat([nodes, of_edges, of_rings], dim=1))[:, None]

    def _initial(self, graphs: GraphBatch, cells: Cells, atoms: Tensor) -> Embeddings:
        """Edges and rings start as the sums of their atoms; an edge also has its bond, the mean of both directions."""
        edges, rings = _sum(atoms, cells.boundary[0], cells.num_edges), _sum(atoms, cells.corners, cells.num_rings)
        if self.bonds is not None:
            edges = edges + _mean(self.bonds(self.bonds.of(graphs)), cells.bonds, cells.num_edges)
        return atoms, edges, rings


def cells_of(graphs: GraphBatch, largest: int) -> Cells:
    """The nodes, the edges and the chordless rings of up to `largest` nodes of a batch, and how they meet."""
    return cached(graphs, f"cells of rings up to {largest}", lambda: _cells(graphs, largest))


def _cells(graphs: GraphBatch, largest: int) -> Cells:
    near = neighbours(graphs)
    number = _edge_numbers(near)
    a, b = near.pairs
    edge = between(number, graphs, a, b)
    rings = chordless_cycles(near, largest)
    corners, sides, beside = _of_rings(rings, number, graphs)
    source, target = graphs.edge_index
    proper = (source != target).nonzero()[:, 0]  # padding, too, joins a row to itself
    return Cells(
        num_edges=len(a) // 2,
        num_rings=sum(len(ring) for ring in rings),
        bonds=torch.stack([proper, between(number, graphs, source[proper], target[proper])]),
        boundary=(torch.stack([a, edge]), sides),
        corners=corners,
        upper=(torch.stack([a, b, edge]), beside),
    )


def _edge_numbers(near: Neighbours) -> Tensor:
    """Which cell the edge of two nodes is, [B, V, V]."""
    number = torch.zeros(near.table.shape, dtype=torch.long, device=near.table.device)
    once = near.table.triu()
    number[once] = torch.arange(near.pairs.shape[1] // 2, device=number.device)
    return number + number.transpose(1, 2)


def _of_rings(rings: list[Tensor], number: Tensor, graphs: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes and their rings [2, .], edges and theirs [2, .], and two edges with a ring of both [3, .]."""
    corners, sides, beside = [], [], []
    first = 0
    for nodes in rings:  # [rings, length]
        count, length = nodes.shape
        ring = torch.arange(first, first + count, device=nodes.device)[:, None]
        edges = between(number, graphs, nodes, nodes.roll(-1, dims=1))  # [rings, length]
        i, j = (~torch.eye(length, dtype=torch.bool, device=nodes.device)).nonzero().T  # sides other than each other
        corners.append(torch.stack([nodes, ring.expand_as(nodes)]).flatten(1))
        sides.append(torch.stack([edges, ring.expand_as(edges)]).flatten(1))
        beside.append(torch.stack([edges[:, i], edges[:, j], ring.expand(-1, len(i))]).flatten(1))
        first += count
    return torch.cat(corners, dim=1), torch.cat(sides, dim=1), torch.cat(beside, dim=1)


def _sum(h: Tensor, relation: Tensor, count: int) -> Tensor:
    """What each of `count` cells gets from those related to it: [rows, d] and [2, .] as (from, to) -> [count, d]."""
    return h.new_zeros(count, h.shape[1]).index_add(0, relation[1], h.index_select(0, relation[0]))


def _mean(h: Tensor, relation: Tensor, count: int) -> Tensor:
    """The same divided by how many there are; 0 where there are none."""
    return _sum(h, relation, count) / torch.bincount(relation[1], minlength=count).clamp(min=1)[:, None]
