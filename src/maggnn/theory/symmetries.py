"""Symmetries of a marked graph, found one by one and checked edge by edge, which save a search from repeating itself.

Let v_1, v_2, ... be the path of a graph G, and suppose that the d-th mark is *interchangeable*: every node whose copy
looks like that of v_d after the first d - 1 marks is the image of v_d under an automorphism of G that fixes v_1, ...,
v_(d-1). Then a search for the path in another graph H may stop after one candidate for the d-th mark:

    Suppose an isomorphism f: G -> H takes v_1, ..., v_(d-1) to the marks so far, and that w survives as d-th mark in H.
    The copy of G at u = f^-1(w) looks like that at v_d, so some automorphism a fixes v_1, ..., v_(d-1) and takes v_d to
    u. Then f a is an isomorphism as well, takes the marks so far to the same places, and takes v_d to w. Hence if w
    leads nowhere, no other candidate leads anywhere.

Graphs whose survivors multiply with every mark, such as those of Cai, Fürer and Immerman, become tractable in this way.
An automorphism is found by following the path once more from another node to colours that all differ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from maggnn.theory.individualisation import Level, Path, isomorphism

MOST_CELLS = 1 << 28
"""Colours (nodes times copies) that may be refined in looking for symmetries: minutes."""

MOST_MARKS = 1024
"""Of an extended path: the colours of all its marks are kept."""

GROWTH = 8
"""Of the number of nodes tried at a time: the first few usually settle it."""

AT_ONCE = 1 << 18
"""Colours (nodes times copies) refined at a time, as in `maggnn.theory.refinement`."""


class Symmetries:
    """Automorphisms of the graph of a path.

    Args:
        path: copied and extended until all colours differ when the first question is asked.

    Attributes:
        found: how many automorphisms were found.
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
        """Whether the mark number `order` (from 1) is known to be interchangeable; False where it takes too long."""
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
                orbit = self._orbit(level.node, order)
            size = min(size * GROWTH, max(AT_ONCE // path.own.num_nodes, 1))
        return True

    def _extended(self) -> Path:
        """The path with more marks, until all colours differ or there are `MOST_MARKS`."""
        if self._whole is None:
            self._whole = Path(self._path.own)
            self._whole.levels = list(self._path.levels)
            self._whole.extend(MOST_MARKS)
        return self._whole

    def _orbit(self, node: int, order: int) -> Tensor:
        """Which nodes the known automorphisms that fix the first `order` - 1 marks take a node to, [n]."""
        fixing = [automorphism for fixed, automorphism in self._automorphisms if fixed >= order]
        orbit = torch.zeros(self._path.own.num_nodes, dtype=torch.bool)
        orbit[node], size = True, 0
        while size < int(orbit.sum()):
            size = int(orbit.sum())
            for automorphism in fixing:
                orbit[automorphism[orbit]] = True
        return orbit

    def _follow(self, colours: Tensor, order: int) -> Tensor | None:
        """Follow the path in another copy, colours [n], from `order` marks to its end: the automorphism there, [n]."""
        path = self._extended()
        for level in path.levels[order + 1 :]:
            found = self._first_survivor(level, colours)
            if found is None:
                return None
            colours = found
        return isomorphism(path.own, path.last.colours, path.own, colours)

    def _first_survivor(self, level: Level, colours: Tensor) -> Tensor | None:
        """The colours [n] of the first copy that has the trace of `level`."""
        own = self._path.own
        for node in level.candidates(colours):
            self._cells += own.num_nodes
            _, found = level.survivors(own, colours, node[None])
            if found.shape[1]:
                return found[:, 0]
            if self._cells > MOST_CELLS:
                break
        return None
