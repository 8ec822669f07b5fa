"""Marks of Eq. 2: the features X(v) that turn a graph into its marked copy G(v), and their embedding in an encoder.

This is the only place where `tuples` [B, m, k] become copies of the graph. The copies are never materialised: there is
one tensor of marks [N, m, width], and all copies share the edges. A `Marking` defines the features of a marked node:

| `encoder.marking` | X(v) at node u, for each slot j |
|---|---|
| `binary` | c+ where u = v_j, else c- (the paper) |
| `distance` | the distance from v_j to u, one-hot |
| `directed` | the same, and for each edge whether it leads towards v_j, away from it, or neither |
| `colours` | the same, and how many nodes have u's stable colour (not for each slot) |

Another marking is a new class in this file and its name in `MARKINGS` and in `EncoderConfig.marking`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from maggnn.config import EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.distances import FARTHEST, distances_from, with_distances
from maggnn.graphs.packed import PackedGraphs

CLASS_SIZES = (1, 2, 4, 8, 16)
"""The largest sizes of the colour classes that `ColoursMarking` tells apart; one more kind is larger than all."""


class Marking(nn.Module, ABC):
    """Eq. 2 and the linear map from X(v) to h^(0).

    A frozen encoder reads its first layer from tables. For these, a marking numbers the ways in which a node can be
    marked (`kinds`) and gives the values of each (`kind_values`). If `num_kinds` is None, as it is unless a class sets
    it, there is no table, and the frozen encoder calls `forward`.

    Args:
        config: settings of the encoder.
        tuple_order: k, the number of marks of a tuple.
        width: the number of columns of X(v).

    Shapes:
        tuples: [B, m, k]; values: [N, m, width]; result: [N, m, d]; kinds: [N, m]; kind_values: [num_kinds, width].
    """

    num_kinds: int | None = None
    """The number of ways in which a node can be marked, if there is a table of them."""

    edge_ways = 0
    """The number of ways in which a slot can mark an edge; 0 if marks leave edges alone. Layers read `directions`."""

    looks_at_values = False
    """Whether it must look at values to know when it has finished: it is then neither recorded nor exported."""

    def __init__(self, config: EncoderConfig, tuple_order: int, width: int) -> None:
        super().__init__()
        linear = nn.Linear(width, config.hidden)
        self.weight, self.bias = linear.weight, linear.bias
        self.tuple_order = tuple_order

    def forward(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Compute what the marks add to h^(0).

        Args:
            graphs: the batch.
            tuples: the marked nodes, [B, m, k].

        Returns:
            The mapped marks, [N, m, d].
        """
        return functional.linear(self.values(graphs, tuples), self.weight, self.bias)

    @abstractmethod
    def values(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Compute X(v) of each tuple.

        Args:
            graphs: the batch.
            tuples: the marked nodes, [B, m, k].

        Returns:
            The marks, [N, m, width].
        """

    def kinds(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Return the number of the way, of `num_kinds`, in which each node of each copy is marked; needs a table.

        Args:
            graphs: the batch.
            tuples: the marked nodes, [B, m, k].

        Returns:
            Numbers of the ways, [N, m].
        """
        raise NotImplementedError(f"{type(self).__name__} has no table of kinds")

    def kind_values(self) -> Tensor:
        """Return X(v) of a node for each way of being marked; needs a table.

        Returns:
            One row for each way, [num_kinds, width].
        """
        raise NotImplementedError(f"{type(self).__name__} has no table of kinds")

    def directions(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        """Return the number of the way in which each edge of each copy is marked; only with `edge_ways`.

        Args:
            graphs: the batch.
            tuples: the marked nodes, [B, m, k].

        Returns:
            Numbers of the ways, [E, m]: the digits in base `edge_ways` are the slots' ways, the first slot's fastest
            (see `edge_embedding.DirectionEmbedding`).
        """
        raise NotImplementedError(f"{type(self).__name__} does not mark edges")

    def table_rows(self) -> int | None:
        """Count the rows of `table`, and check that the table is that of the marks.

        Returns:
            The number of rows, or None if there is no table.

        Raises:
            InputError: the table would be that of other marks, because the class redefines `values` and inherits
                `kinds` or `kind_values` (or `forward` and `table`), or because it marks edges, which no table of nodes
                knows.
        """
        if self.num_kinds is None:
            return None
        pairs = (("values", "kinds"), ("values", "kind_values"), ("forward", "table"))
        if self.edge_ways or any(self._definer(computed) < self._definer(table) for computed, table in pairs):
            raise InputError(
                f"{type(self).__name__} has no table of its own marks: define kinds and kind_values beside values, "
                "table beside forward, or set num_kinds = None"
            )
        return self.num_kinds

    def _definer(self, method: str) -> int:
        """Return how far up the line of classes a method is defined; 0 is the marking's own class."""
        return next(place for place, cls in enumerate(type(self).__mro__) if method in vars(cls))

    def table(self) -> Tensor:
        """Return what each way of being marked adds to h^(0), in double precision.

        Returns:
            One row for each way, [num_kinds, d].
        """
        values = self.kind_values().to(self.weight.device).double()
        return functional.linear(values, self.weight.double(), self.bias.double())

    @staticmethod
    def precomputed(packed: PackedGraphs) -> PackedGraphs:
        """Precompute what this marking reads of the graphs, once for all batches.

        Args:
            packed: the graphs of a set.

        Returns:
            The same set with these values.
        """
        return packed


class BinaryMarking(Marking):
    """c+ at [v_j, j] and c- elsewhere: the marks of the paper."""

    def __init__(self, config: EncoderConfig, tuple_order: int) -> None:
        super().__init__(config, tuple_order, width=tuple_order)
        self.c_plus, self.c_minus = config.c_plus, config.c_minus
        self.num_kinds = 2**tuple_order

    def values(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        return marks(graphs, tuples, self.c_plus, self.c_minus, self.weight.dtype)

    def kinds(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        return mark_sets(graphs, tuples)

    def kind_values(self) -> Tensor:
        sets = torch.arange(2**self.tuple_order)[:, None] >> torch.arange(self.tuple_order) & 1
        return torch.where(sets.bool(), self.c_plus, self.c_minus)


class DistanceMarking(Marking):
    """The distance of a node from each marked node: 0, 1, ..., FARTHEST - 1, or farther, one-hot for each slot.

    It distinguishes no more than binary marks do. Let c_r be the colour of u after r rounds of refinement of the copy
    with binary marks. c_0 says which slots mark u, and c_r contains c_{r-1} of u and of all nodes with an edge to u,
    so by induction c_r says for each slot whether v_j lies within r edges of u, along the edges. After FARTHEST rounds
    the colour therefore determines u's row of X(v), and so does the stable colour, which is finer, in all copies with
    equal multisets of stable colours (others are distinguished already). Refinement that starts from X(v) hence ends
    no finer than refinement that starts from binary marks, and `theory.refinement` and `theory.planner` hold for both.
    What changes is what a trained network of a few layers reads: it learns to ignore a single 0/1 input among many
    nodes, and does not ignore distances.
    """

    def __init__(self, config: EncoderConfig, tuple_order: int) -> None:
        super().__init__(config, tuple_order, width=tuple_order * (FARTHEST + 1))
        self.num_kinds = (FARTHEST + 1) ** tuple_order

    def values(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        return _one_hot(distances_from(graphs, tuples)).to(self.weight.dtype)

    def kinds(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        distances = distances_from(graphs, tuples).unbind(dim=-1)  # one for each slot; the first varies fastest
        kinds = distances[-1]
        for distance in distances[-2::-1]:
            kinds = kinds * (FARTHEST + 1) + distance
        return kinds

    def kind_values(self) -> Tensor:
        powers = (FARTHEST + 1) ** torch.arange(self.tuple_order)
        distances = torch.arange((FARTHEST + 1) ** self.tuple_order)[:, None] // powers % (FARTHEST + 1)
        return _one_hot(distances)

    @staticmethod
    def precomputed(packed: PackedGraphs) -> PackedGraphs:
        return with_distances(packed)


class DirectedMarking(DistanceMarking):
    """Distances from the marked nodes, and for each edge (u, w) and slot the sign of d(v_j, w) - d(v_j, u).

    The sign says whether the edge leads away from the marked node (+1), towards it (-1), or to a node as far away (0).
    In an undirected graph these are the only differences. A ring closes where a node has two edges from nodes that are
    nearer, or an edge to a node as far away. With distances alone, a layer must learn this once for every distance;
    with signs it looks the same at all distances, so less data is needed to learn it.

    It distinguishes no more than binary marks do. The distances of u and w are functions of their colours after
    FARTHEST rounds of refinement of the copy with binary marks (see `DistanceMarking`), and so is the sign. A round of
    refinement already reads both colours, so a round that also reads the signs is no finer.
    """

    edge_ways = 3

    def __init__(self, config: EncoderConfig, tuple_order: int) -> None:
        if not config.reads_edges:
            raise InputError(
                f"encoder.marking = directed marks edges, which encoder.conv = {config.conv} does not read: use gine"
            )
        super().__init__(config, tuple_order)
        self.num_kinds = None  # messages of the first layer depend on the signs too, so there is no table

    def directions(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        distances = distances_from(graphs, tuples)  # [N, m, k]
        source, target = graphs.edge_index[0], graphs.edge_index[1]
        sign = (distances[target] - distances[source]).clamp(-1, 1) + 1  # [E, m, k] in 0, 1, 2
        return (sign * self.edge_ways ** torch.arange(self.tuple_order, device=sign.device)).sum(dim=-1)


class ColoursMarking(Marking):
    """Distances from the marked nodes, and what the stable colouring of the marked copy says of each node.

    The columns beside the distances are: how many nodes have the node's colour, as one-hot of 1, 2, 3-4, 5-8, 9-16 and
    more; the number of colours over |V|; and whether every node has a colour of its own. Colours are those of colour
    refinement (1-WL) of edges and marks alone, whatever features the graphs have, as distances are of edges alone.

    Solvers of graph isomorphism mark a node of a large class next, because a node that is alone in its class gains
    nothing. The columns show the classes to the Q-network, and they show how fine the present colouring is, so that it
    can stay where there is nothing to gain. A message-passing network cannot easily find this out by itself, because it
    would have to compare the colours of all pairs of nodes.

    The columns do not depend on the numbering of the nodes, because refinement commutes with renumbering. They
    distinguish no more graphs than binary marks do, because they are functions of the stable colour of the node and of
    the multiset of the stable colours of the copy. Where two copies have equal multisets, nodes of equal stable colour
    therefore have equal columns (and equal distances, see `DistanceMarking`), and refinement that starts from X(v) ends
    with equal multisets again.

    The cost is the colour refinement of every copy with integers, which needs a few rounds in most graphs and at most
    |V| (about |V| / 2 in a path). With six layers of width 64 that is two fifths of a pass on a CPU.
    """

    looks_at_values = True

    def __init__(self, config: EncoderConfig, tuple_order: int) -> None:
        super().__init__(config, tuple_order, width=tuple_order * (FARTHEST + 1) + len(CLASS_SIZES) + 3)

    def values(self, graphs: GraphBatch, tuples: Tensor) -> Tensor:
        from maggnn.graphs.colours import class_sizes, mix, until_stable  # few models need it

        distances = _one_hot(distances_from(graphs, tuples))  # [N, m, k * (FARTHEST + 1)]
        bare = replace(graphs, x=None, edge_attr=None)
        sizes = class_sizes(bare, until_stable(bare, mix(mark_sets(graphs, tuples) + 1)))  # [N, m]
        classes = _class_columns(graphs, sizes)  # [N, m, columns]
        return torch.cat([distances.to(self.weight.dtype), classes.to(self.weight.dtype)], dim=-1)

    @staticmethod
    def precomputed(packed: PackedGraphs) -> PackedGraphs:
        return with_distances(packed)


MARKINGS: dict[str, type[BinaryMarking | DistanceMarking | ColoursMarking]] = {
    "binary": BinaryMarking,
    "distance": DistanceMarking,
    "directed": DirectedMarking,
    "colours": ColoursMarking,
}
"""The markings by their names in `encoder.marking`."""


def edge_ways(config: EncoderConfig) -> int:
    """Return the number of ways in which a slot of the marking that a config names marks an edge; 0 for none."""
    return MARKINGS[config.marking].edge_ways


def make_marking(config: EncoderConfig, tuple_order: int) -> Marking | None:
    """Make the marking that a config names, with random weights; None for k = 0, which has no marks."""
    if not tuple_order:
        return None
    marking = MARKINGS[config.marking](config, tuple_order)
    marking.table_rows()  # a marking that could not be frozen is refused before it is trained
    return marking


def _one_hot(distances: Tensor) -> Tensor:
    """Encode distances [..., k] one-hot as [..., k * (FARTHEST + 1)]."""
    place = torch.arange(FARTHEST + 1, device=distances.device)
    return (distances[..., None] == place).flatten(-2)


def _class_columns(graphs: GraphBatch, sizes: Tensor) -> Tensor:
    """Encode the sizes of colour classes [N, m]: their buckets, the share of colours and whether it is 1, [N, m, c]."""
    bucket = torch.bucketize(sizes, torch.tensor(CLASS_SIZES, device=sizes.device))
    one_hot = bucket[..., None] == torch.arange(len(CLASS_SIZES) + 1, device=sizes.device)
    # The nodes of a class share 1 among them, so the sum counts classes.
    num_colours = graphs.padded(1 / sizes.double(), 0.0).sum(dim=1).round()  # [B, m]
    num_nodes = graphs.num_nodes[:, None]
    whole = torch.stack([num_colours / num_nodes, num_colours == num_nodes], dim=-1)  # [B, m, 2]
    return torch.cat([one_hot, whole[graphs.node_graph]], dim=-1)


def marks(graphs: GraphBatch, tuples: Tensor, c_plus: float, c_minus: float, dtype: torch.dtype) -> Tensor:
    """Return c+ at [v_j, j] and c- elsewhere, for each of the m tuples.

    Shapes:
        tuples: [B, m, k]; result: [N, m, k].
    """
    _, num_tuples, tuple_order = tuples.shape
    shape = (graphs.total_nodes, num_tuples, tuple_order)
    result = torch.full(shape, c_minus, dtype=dtype, device=tuples.device)
    node = tuples + graphs.first_node[:, None, None]  # [B, m, k], ids of the batch
    cell = torch.arange(num_tuples * tuple_order, device=tuples.device).reshape(num_tuples, tuple_order)
    result.view(-1).index_fill_(0, (node * cell.numel() + cell).flatten(), c_plus)
    return result


def mark_sets(graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Return which slots mark each node in each copy, as the bits of one number: slot j is 2^j.

    Shapes:
        tuples: [B, m, k]; result: [N, m].
    """
    _, num_tuples, tuple_order = tuples.shape
    result = torch.zeros(graphs.total_nodes, num_tuples, dtype=torch.long, device=tuples.device)
    copy = torch.arange(num_tuples, device=tuples.device)[:, None]
    place = (tuples + graphs.first_node[:, None, None]) * num_tuples + copy  # [B, m, k]
    bit = (1 << torch.arange(tuple_order, device=tuples.device)).expand_as(place)
    result.view(-1).scatter_add_(0, place.flatten(), bit.flatten())
    return result


def marked_nodes(h: Tensor, graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Return the embeddings of the marked nodes, [N, m, d] -> [B, m, k, d]."""
    node = tuples + graphs.first_node[:, None, None]  # [B, m, k]
    copy = torch.arange(tuples.shape[1], device=tuples.device)[None, :, None]
    return h[node, copy]
