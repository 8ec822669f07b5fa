"""PPGN: products of matrices in place of messages, with the expressivity of 3-WL.

Maron, Ben-Hamu, Serviansky and Lipman, "Provably Powerful Graph Networks", NeurIPS 2019.

    H^0_ij   = x_i on the diagonal, the bond where i and j are joined, 0 elsewhere
    H^t+1_ij = MLP( H^t_ij, sum over k of M1(H^t)_ik * M2(H^t)_kj / sqrt n )      channel by channel
    h_i      = W [ H^T_ii, sum over j of H^T_ij ]

Only pairs of nodes of one graph are rows, so norms never see padding; products alone are padded, with zeros.

Departures: the norms and the division by sqrt n, with which it trains at the depths of the other methods; the
embeddings of nodes are read (row by row and on the diagonal) where the paper reads those of the graph; only the last
block is read unless `encoder.jk` is "sum" (the authors' configs read it alone on QM9, and every block for classes).

Shapes: B graphs, N nodes, P pairs of nodes (i, j) of one graph, V the largest graph's nodes.
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
from maggnn_paper.cycles import between


@dataclass(frozen=True)
class Pairs:
    """All pairs of nodes of one graph, graph by graph and row by row.

    Attributes:
        shape: B, V.
        node: where each node is in a table [B, V], by the number of the cell, [real nodes].
        size: the nodes of each pair's graph, [P].
        cell: where each is in a table [B, V, V], by the number of the cell, [P].
        itself: the pairs on the diagonal, in the order of nodes, [real nodes].
        edge: the pair (target, source) of each edge, [real edges].
    """

    shape: tuple[int, int]
    node: Tensor
    size: Tensor
    cell: Tensor
    itself: Tensor
    edge: Tensor

    @classmethod
    def of(cls, graphs: GraphBatch) -> Pairs:
        return cached(graphs, "pairs of nodes", lambda: cls._made(graphs))

    @classmethod
    def _made(cls, graphs: GraphBatch) -> Pairs:
        are_nodes = graphs.is_node[:, :, None] & graphs.is_node[:, None]  # [B, V, V]
        number = are_nodes.flatten().cumsum(0).view_as(are_nodes) - 1  # of the pair, where there is one
        size = graphs.num_nodes[:, None, None].expand_as(number)
        cell = are_nodes.flatten().nonzero()[:, 0]
        node = graphs.is_node.flatten().nonzero()[:, 0]
        itself = number.diagonal(dim1=1, dim2=2).flatten()[node]
        source, target = graphs.edge_index[:, : int(graphs.edge_offsets[-1])]  # what lies beyond is padding
        edge = between(number, graphs, target, source)
        return cls((graphs.num_graphs, graphs.max_num_nodes), node, size[are_nodes], cell, itself, edge)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        """Products of matrices, one for each graph and channel, divided by the root of their size, [P, d]."""
        product = torch.einsum("bikd,bkjd->bijd", self._dense(left), self._dense(right))
        return product.flatten(0, 2).index_select(0, self.cell) / self.size.to(left.dtype).sqrt()[:, None]

    def sum_row(self, h: Tensor) -> Tensor:
        """Over the pairs of each first node, [P, d] -> [real nodes, d]."""
        return self._dense(h).sum(dim=2).flatten(0, 1).index_select(0, self.node)

    def _dense(self, h: Tensor) -> Tensor:
        """[P, d] -> [B, V, V, d] with zeros as padding."""
        count, largest = self.shape
        table = h.new_zeros(count * largest**2, h.shape[1]).index_copy(0, self.cell, h)
        return table.reshape(count, largest, largest, h.shape[1])


class Block(nn.Module):
    """Two MLPs, the product of what they make of a matrix, and a layer over the product beside the matrix itself."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        d = config.hidden
        self.left = nn.Sequential(Dense(d, config), nn.Linear(d, d))
        self.right = nn.Sequential(Dense(d, config), nn.Linear(d, d))
        self.join = Dense(2 * d, config)
        self.residual, self.dropout = config.residual, config.dropout

    def forward(self, h: Tensor, pairs: Pairs) -> Tensor:
        product = pairs.product(self.left(h), self.right(h))
        out = functional.dropout(self.join(torch.cat([h, product], dim=1)), self.dropout, self.training)
        return h + out if self.residual else out


class PPGN(Baseline):
    """Blocks over matrices of pairs; always reads bonds, whatever `encoder.conv` is."""

    def __init__(
        self, baseline: BaselineConfig, config: EncoderConfig, node_features: FeatureSpec, edge_features: FeatureSpec
    ) -> None:
        super().__init__(baseline, config, node_features, edge_features)
        self.atoms = self.inner(num_layers=0)
        self.joined = nn.Parameter(torch.randn(config.hidden))
        self.bonds = bond_embedding(config, edge_features)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.num_layers))
        self.read = nn.Linear(2 * config.hidden, config.hidden)

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        pairs = Pairs.of(graphs)
        h = self._initial(graphs, pairs, self.atoms(graphs, tuples[:, :1])[: len(pairs.itself), 0])  # [P, d]
        total = h
        for block in self.blocks:
            h = block(h, pairs)
            total = total + h if self.config.jk == "sum" else h
        out = self.read(
            torch.cat([total.index_select(0, pairs.itself), pairs.sum_row(total)], dim=1)
        )  # [real nodes, d]
        return functional.pad(out, (0, 0, 0, graphs.total_nodes - len(out)))[:, None]

    def _initial(self, graphs: GraphBatch, pairs: Pairs, atoms: Tensor) -> Tensor:
        """H^0, [P, d]."""
        real = len(pairs.edge)
        edges = self.joined.expand(real, -1)
        if self.bonds is not None:
            edges = edges + self.bonds(self.bonds.of(graphs)[:real])
        h = atoms.new_zeros(len(pairs.cell), atoms.shape[1]).index_copy(0, pairs.itself, atoms)
        return h.index_add(0, pairs.edge, edges)
