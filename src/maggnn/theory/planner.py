"""Suggests m, k and t for a data set by colour refinement, before any training.

The rule:

- k is the smallest order that distinguishes all graphs of different labels that any tried order distinguishes. If it
  is 0, plain message passing distinguishes everything that marks could.
- A tuple is *informative* if its copy occurs in no graph of another label that k - 1 marks do not distinguish from its
  graph. Let p be the mean share of informative tuples. All of m random tuples are uninformative with probability
  (1 - p)^m; if that is below `MISS` for some m up to `MOST_RANDOM`, random marks suffice, and t = 0.
- Otherwise the marks have to be moved. A move puts one mark on any node, so t = k moves lead from a tuple to any other,
  and one tuple is enough.

All |V|^k tuples are tried. If that takes hours, `too_many_tuples` suggests a proof with few of them instead
(`maggnn.theory.proof`).

The result says what is possible, not what will be learned: a network may fail to distinguish what refinement does, and
for graphs that are distinguished without marks, marks can still make a target easier to learn.

Shapes: G graphs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.theory.refinement import all_copy_hashes, evenly_spaced, graph_hashes

MOST_RANDOM = 8
"""The largest number of random tuples that the rule suggests."""

MISS = 0.01
"""The largest accepted probability that all random tuples are uninformative."""

GROUPS, CELLS_A_GROUP = 20, 20_000_000
"""The numbers of groups of confused graphs, and of colours (nodes of copies) in each, to count informative tuples."""

MOST_TRIED = 1 << 33
"""The number of colours (nodes of copies) of one graph beyond which trying all tuples takes hours on a core."""


def too_many_tuples(graphs: PackedGraphs, max_order: int) -> str | None:
    """Return advice if trying all tuples of up to `max_order` marks would take hours; None if it is quick."""
    size = graphs.largest_graph
    if size ** (max_order + 1) <= MOST_TRIED:
        return None
    return (
        f"{size:,} nodes have {size**max_order:,} tuples of order {max_order}: trying all of them takes hours; "
        "--agent greedy (or --agent any) searches for a proof that two graphs differ with few of them"
    )


@dataclass(frozen=True)
class Partitions:
    """The classes of graphs that tuples of order 0, 1, ... do not distinguish.

    Attributes:
        classes: the class of each graph for each order, [G] each.
        settled: graphs known to be isomorphic to all others of their last class, [G].
        kinds: a number for each graph, by which graphs are to be distinguished: its label, or without labels a number
            that is equal for graphs known to be isomorphic, [G].
    """

    classes: list[Tensor]
    settled: Tensor
    kinds: Tensor

    @property
    def duplicates(self) -> int:
        """The number of graphs known to be isomorphic to another one, which no marks distinguish."""
        return int((_shared(self.classes[-1]) & self.settled).sum())

    @property
    def undecided(self) -> int:
        """The number of graphs that one more mark might distinguish from one of another kind."""
        return int((_confused(self.classes[-1], self.kinds) & ~self.settled).sum())


def partitions(graphs: PackedGraphs, labels: Tensor | None, max_order: int) -> Partitions:
    """Partition the graphs by order 0, 1, ... up to `max_order`, or until graphs of different labels are distinguished.

    Only graphs that are not distinguished yet are refined with one more mark, without isomorphic ones.

    Args:
        graphs: the graphs of a data set.
        labels: [G] or [G, columns]; without them all graphs that are not isomorphic are to be distinguished.
        max_order: the largest number of marks that is tried.

    Returns:
        The classes that each order does not distinguish.
    """
    if not len(graphs):
        raise InputError("no graphs to compare")
    if labels is not None and len(labels) != len(graphs):
        raise InputError(f"{len(labels)} labels for {len(graphs)} graphs: give one for each graph")
    each = torch.arange(len(graphs))
    kinds = each if labels is None else labels.reshape(len(labels), -1).unique(dim=0, return_inverse=True)[1]
    classes, settled = torch.zeros_like(each), torch.zeros(len(graphs), dtype=torch.bool)
    by_order: list[Tensor] = []
    for order in range(max_order + 1):
        ids = (_shared(classes) & ~settled).nonzero()[:, 0] if order else each
        hashes = torch.zeros_like(classes)
        found = graph_hashes(graphs.select(ids), order)
        hashes[ids], settled[ids] = found.hashes, found.discrete
        classes = torch.stack([classes, hashes]).unique(dim=1, return_inverse=True)[1]
        by_order.append(classes)
        if not (_confused(classes, kinds) & ~settled).any():
            break
    if labels is None:
        kinds = torch.where(settled, len(graphs) + classes, each)
    return Partitions(by_order, settled, kinds)


def _shared(classes: Tensor) -> Tensor:
    """Return which graphs are not alone in their class, [G]."""
    return classes.bincount()[classes] > 1


def _confused(classes: Tensor, kinds: Tensor) -> Tensor:
    """Return which graphs share their class with one of another kind, [G]."""
    return _range_of(kinds, classes)[classes] > 0


def _range_of(kinds: Tensor, groups: Tensor) -> Tensor:
    """Return the largest minus the smallest kind in each group, which is 0 if a group has one kind."""
    empty = kinds.new_zeros(int(groups.max()) + 1)
    largest = empty.scatter_reduce(0, groups, kinds, "amax", include_self=False)
    return largest - empty.scatter_reduce(0, groups, kinds, "amin", include_self=False)


# ---- the plan -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Level:
    """What k marks distinguish.

    Attributes:
        order: k.
        classes: the number of classes that such tuples distinguish.
        together: the number of graphs that share their class with another one.
        confused: the number of graphs that share it with one of another label; without labels, with one not known to
            be isomorphic.
    """

    order: int
    classes: int
    together: int
    confused: int


@dataclass(frozen=True)
class Plan:
    """The suggestion for a data set.

    Attributes:
        levels: the results for order 0, 1, ... as far as they were tried.
        duplicates: the number of graphs known to be isomorphic to another one, which no marks distinguish.
        undecided: the number of graphs that a larger order might distinguish from one of another label.
        num_tuples: the suggested m.
        tuple_order: the suggested k.
        num_moves: the suggested t.
        informative_share: p, the mean share of informative tuples; None for k = 0.
        copies: the number of marked copies that are read for a graph, m (t + 1).
        all_copies: the number of copies that full enumeration reads, the mean of |V|^k.
        reason: the reason for the suggestion.
    """

    levels: tuple[Level, ...]
    duplicates: int
    undecided: int
    num_tuples: int
    tuple_order: int
    num_moves: int
    informative_share: float | None
    copies: int
    all_copies: float
    reason: str


def plan(graphs: PackedGraphs, found: Partitions) -> Plan:
    """Suggest m, k and t by the rule of this module.

    Args:
        graphs: the graphs of a data set.
        found: their `partitions`.

    Returns:
        The suggestion with its reasons.
    """
    levels = tuple(_level(order, classes, found.kinds) for order, classes in enumerate(found.classes))
    order = next(level.order for level in levels if level.confused == levels[-1].confused)
    share = None if order == 0 else informative_share(graphs, found, order)
    num_tuples, num_moves, reason = (1, 0, _why_no_marks(levels, found)) if share is None else _search(share, order)
    return Plan(
        levels=levels,
        duplicates=found.duplicates,
        undecided=found.undecided,
        num_tuples=num_tuples,
        tuple_order=order,
        num_moves=num_moves,
        informative_share=share,
        copies=num_tuples * (num_moves + 1),
        all_copies=float((graphs.num_nodes.double() ** order).mean()),
        reason=reason,
    )


def informative_share(graphs: PackedGraphs, found: Partitions, order: int) -> float:
    """Return the mean share of informative tuples, over graphs that order k distinguishes and order k - 1 does not.

    If there are very many such graphs, the share is estimated from some graphs of some groups; in a part of a group, a
    few more tuples are informative than in the whole.
    """
    before, after, shares = found.classes[order - 1], found.classes[order], []
    gained = _confused(before, found.kinds) & ~_confused(after, found.kinds)  # [G]
    for group in evenly_spaced(before[gained].unique(), GROUPS).tolist():
        ids = (before == group).nonzero()[:, 0]
        size = int(graphs.num_nodes[ids[0]])
        by_kind = ids[found.kinds[ids].argsort(stable=True)]  # sorted, so that a part of them has more than one kind
        ids = evenly_spaced(by_kind, max(CELLS_A_GROUP // size ** (order + 1), 2))
        _, copy = all_copy_hashes(graphs.select(ids), order).unique(return_inverse=True)  # [b, |V|^k]
        kinds = found.kinds[ids, None].expand_as(copy)
        is_informative = _range_of(kinds.flatten(), copy.flatten())[copy] == 0
        shares.append(is_informative[gained[ids]].double().mean(1))
    return float(torch.cat(shares).mean())


def _level(order: int, classes: Tensor, kinds: Tensor) -> Level:
    together, confused = int(_shared(classes).sum()), int(_confused(classes, kinds).sum())
    return Level(order, int(classes.max()) + 1, together, confused)


def _search(share: float, order: int) -> tuple[int, int, str]:
    """Return m, t and the reason if marks distinguish more graphs than no marks do."""
    tuples = f"{share:.0%} of all tuples of order {order} are informative by themselves"
    moves = "one move reaches" if order == 1 else f"{order} moves reach"
    if share == 1.0:
        return 1, 0, f"every tuple of order {order} is informative by itself: any tuple is enough"
    if share == 0.0:
        reason = f"no tuple of order {order} is informative by itself: copies have to be counted, with many tuples"
        return MOST_RANDOM, 0, reason
    needed = math.ceil(math.log(MISS) / math.log1p(-share))
    if needed <= MOST_RANDOM:
        miss = (1 - share) ** needed
        return needed, 0, f"{tuples}: this many random ones are all uninformative in {miss:.1%} of cases"
    found = "; agent.pretrained = any finds them without training an agent" if order == 2 else ""
    return 1, order, f"{tuples}: they are rare and have to be found, and {moves} every tuple{found}"


def _why_no_marks(levels: tuple[Level, ...], found: Partitions) -> str:
    if levels[-1].confused == 0:
        return "message passing without marks distinguishes all graphs with different labels"
    if found.undecided == 0:
        return "message passing without marks distinguishes all but isomorphic graphs with different labels"
    return f"tuples up to order {levels[-1].order} distinguish no more graphs than no marks do: try a larger order"
