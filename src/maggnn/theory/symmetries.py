"""Symmetries of a marked graph, each checked edge by edge, which save a search from trying equivalent candidates.

Let v_1, v_2, ... be the path of a graph G, and suppose that the d-th mark is *interchangeable*: every node whose copy
has the trace of v_d after the first d - 1 marks is the image of v_d under an automorphism of G that fixes v_1, ...,
v_(d-1). Then a search for the path in another graph H may stop after one candidate for the d-th mark:

    Suppose an isomorphism f: G -> H maps v_1, ..., v_(d-1) to the marks so far, and that w survives as d-th mark in H.
    The copy of G at u = f^-1(w) has the trace of that at v_d, so some automorphism a fixes v_1, ..., v_(d-1) and maps
    v_d to u. Then f a is an isomorphism as well, maps the first marks to the same nodes, and maps v_d to w. Hence if
    the search from w fails, it fails from every other candidate.

Graphs whose survivors multiply with every mark, such as those of Cai, Fürer and Immerman, become tractable in this way.
An automorphism is found by following the path again from another node until all colours are distinct. Once one has been
found, others are searched for from a few nodes of every mark at once, which is several times as fast as one by one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.theory.individualisation import Level, Path, isomorphism, marked

MOST_CELLS = 1 << 27
"""The largest number of colours (nodes times copies) in the search for symmetries one by one: minutes."""

MOST_MARKS = 1024
"""The largest number of marks of an extended path, since the colours of all its marks are stored."""

MOST_AT_ONCE = 1 << 31
"""The largest number of colours (nodes times copies times rounds) of all marks together: half a minute."""

GROWTH = 8
"""The growth of the number of nodes that are tried at a time: the first few are usually enough."""

AT_ONCE = 1 << 18
"""The number of colours (nodes times copies) that are refined at a time."""


class Symmetries:
    """Automorphisms of the graph of a path.

    Args:
        path: the path, which is copied, and extended until all colours are distinct when it is first needed.

    Attributes:
        found: the number of automorphisms found.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._whole: Path | None = None
        self._known: dict[int, bool] = {}
        self._automorphisms: list[tuple[int, Tensor]] = []
        self._cells = 0

    @property
    def found(self) -> int:
        return len(self._automorphisms)

    def interchangeable(self, order: int) -> bool:
        """Whether mark number `order` (from 1) is known to be interchangeable; False if finding out takes too long."""
        if order not in self._known:
            self._known[order] = self._cells < MOST_CELLS and self._find(order)
        return self._known[order]

    def _find(self, order: int) -> bool:
        path = self._extended()
        if not path.last.discrete:
            return False
        before, level = path.levels[order - 1], path.levels[order]
        assert level.node is not None
        orbit = self._orbit(level.node, order)  # [n]
        left, size = level.candidates(before.colours), 1
        while len(left := left[~orbit[left]]):
            nodes, left = left[:size], left[size:]
            self._cells += len(nodes) * path.own.num_nodes
            nodes, colours = level.survivors(path.own, before.colours, nodes)
            for place, node in enumerate(nodes.tolist()):
                if orbit[node]:
                    continue
                automorphism = self._follow(colours[:, place], order)
                if automorphism is None:
                    return False
                self._automorphisms.append((order, automorphism))
                if self.found == 1:
                    self._automorphisms += self._of_all_marks()
                orbit = self._orbit(level.node, order)
            size = min(size * GROWTH, max(AT_ONCE // path.own.num_nodes, 1))
        return True

    def _extended(self) -> Path:
        """Return the path with more marks, until all colours are distinct or there are `MOST_MARKS`."""
        if self._whole is None:
            self._whole = Path(self._path.own)
            self._whole.levels = list(self._path.levels)
            self._whole.extend(MOST_MARKS)
        return self._whole

    def _orbit(self, node: int, order: int) -> Tensor:
        """Return the orbit of a node under the known automorphisms that fix the first `order` - 1 marks, [n]."""
        fixing = [automorphism for fixed, automorphism in self._automorphisms if fixed >= order]
        orbit = torch.zeros(self._path.own.num_nodes, dtype=torch.bool)
        reached = torch.tensor([node])
        while len(reached):
            orbit[reached] = True
            images = torch.cat([reached, *(automorphism[reached] for automorphism in fixing)]).unique()
            reached = images[~orbit[images]]
        return orbit

    def _follow(self, colours: Tensor, order: int) -> Tensor | None:
        """Follow the path in another copy, colours [n], from `order` marks to its end. Returns an automorphism, [n]."""
        path = self._extended()
        for level in path.levels[order + 1 :]:
            found = self._first_survivor(level, colours)
            if found is None:
                return None
            colours = found
        return isomorphism(path.own, path.last.colours, path.own, colours)

    def _first_survivor(self, level: Level, colours: Tensor) -> Tensor | None:
        """Return the colours [n] of the first copy that has the trace of `level`."""
        own = self._path.own
        for node in level.candidates(colours):
            self._cells += own.num_nodes
            _, found = level.survivors(own, colours, node[None])
            if found.shape[1]:
                return found[:, 0]
            if self._cells > MOST_CELLS:
                break
        return None

    def _of_all_marks(self) -> list[tuple[int, Tensor]]:
        """Follow the path from log2 C of the C nodes with the colour of each mark: as many generators may suffice.

        Returns nothing if that would take too long.
        """
        path, found = self._extended(), []
        others = [self._other_nodes(order) for order in range(1, len(path.levels))]
        copies, cost = 0, 0
        for level, nodes in zip(path.levels[1:], others, strict=True):
            copies += len(nodes)
            cost += copies * len(level.trace) * path.own.num_nodes
        if cost > MOST_AT_ONCE:
            return []
        colours, orders = torch.empty(path.own.num_nodes, 0, dtype=torch.long), torch.empty(0, dtype=torch.long)
        for order, (before, level, nodes) in enumerate(zip(path.levels, path.levels[1:], others, strict=False), 1):
            possible = colours == level.colour  # [n, copies so far]
            goes_on = possible.any(0)
            nodes = torch.cat([possible[:, goes_on].byte().argmax(0), nodes])
            new = before.colours[:, None].expand(-1, len(nodes) - int(goes_on.sum()))
            orders = torch.cat([orders[goes_on], torch.full((new.shape[1],), order)])
            orders, colours = level.alike(path.own, marked(torch.cat([colours[:, goes_on], new], 1), nodes), orders)
        for order, copy in zip(orders.tolist(), colours.unbind(1), strict=True):
            automorphism = isomorphism(path.own, path.last.colours, path.own, copy)
            if automorphism is not None:
                found.append((order, automorphism))
        return found

    def _other_nodes(self, order: int) -> Tensor:
        """Return some other nodes that have the colour of a mark's node before the mark."""
        before, level = self._extended().levels[order - 1 : order + 1]
        nodes = level.candidates(before.colours)
        return nodes[nodes != level.node][: (len(nodes) - 1).bit_length()]
