"""A proof that two graphs differ, or that they are isomorphic, without trying all |V|^k tuples.

An informative tuple of the first graph is proposed (`maggnn.theory.proposals`), and the search tries to find it in the
second, mark by mark. Candidates for a mark are the nodes with the colour of its node; each is marked in a separate copy
and dropped in the first round of refinement in which its colours differ from those of the first graph
(`maggnn.theory.individualisation`). The remaining candidates continue with the next mark, depth first, so that memory
stays bounded.

- No candidate remains: the graphs differ. An isomorphism would map the tuple to some candidate, and every one was tried
  or is excluded by checked symmetries (`maggnn.theory.symmetries`). Nothing else counts as a proof of difference.
- A candidate remains and every node has a unique colour: the nodes correspond by colour. If edges and features agree
  under this correspondence, the graphs are isomorphic.
- A candidate remains after the last mark: undecided. The search is then repeated for a tuple of the second graph.

A bad proposal costs time or leads to "undecided", but it cannot make a proof wrong. Different hashes prove that colours
differ, and no proof relies on equal hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.theory.individualisation import Level, OneGraph, Path, isomorphism
from maggnn.theory.symmetries import AT_ONCE, GROWTH, Symmetries

MOST_CELLS = 1 << 29
"""The largest number of colours (nodes times candidates) in one search: several minutes on a core."""

Proposer = Callable[[PackedGraphs, int], tuple[int, ...]]
"""A function from one graph and the largest number of marks to an informative tuple of its nodes."""

Verdict = Literal["differ", "isomorphic", "undecided"]


@dataclass(frozen=True)
class Proof:
    """The result of a search for a proof about two graphs.

    Attributes:
        verdict: differ, isomorphic or undecided.
        order: the number of marks that were needed, or used if undecided; 0 if colours without marks decide.
        witness: the marks whose copy was not found in the other graph; None unless the graphs differ.
        witness_graph: the graph, 0 or 1, that `witness` belongs to.
        candidates: the number of marked copies that were compared, in both directions.
        symmetries: the number of automorphisms that excluded candidates, each checked edge by edge.
        exhausted: whether a search stopped because there were too many candidates.
        mapping: for isomorphic graphs, the node of the second that corresponds to each node of the first.
    """

    verdict: Verdict
    order: int
    witness: tuple[int, ...] | None = None
    witness_graph: int = 0
    candidates: int = 0
    symmetries: int = 0
    exhausted: bool = False
    mapping: tuple[int, ...] | None = None


def prove(
    first: PackedGraphs,
    second: PackedGraphs,
    propose: Proposer,
    max_order: int = 2,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Proof:
    """Search for a proof that two graphs differ or are isomorphic, with tuples of up to `max_order` marks.

    Args:
        first, second: one graph each, with features of nodes and edges or without.
        propose: returns the tuple of one graph that is searched for in the other; if it has fewer than `max_order`
            marks, marks on nodes of the most frequent colours are added.
        progress: called with the number of completed candidates for the first mark, 0 at the start, and their total.
    """
    if len(first) != 1 or len(second) != 1:
        raise InputError(f"{len(first)} and {len(second)} graphs to compare: give one graph each")
    if max_order < 0:
        raise InputError(f"tuples of order {max_order}: give 0 or more")
    if int(first.num_nodes) != int(second.num_nodes):
        return Proof("differ", 0, ())
    pair = OneGraph(first), OneGraph(second)
    without_marks = _without_marks(*pair)
    if without_marks.verdict != "undecided" or max_order == 0:
        return without_marks
    found: list[Proof] = []
    for witness_graph in (0, 1):
        path = Path(pair[witness_graph])
        for node in propose(pair[witness_graph].graph, max_order)[:max_order]:
            if path.shares_colour(node):  # otherwise a mark adds nothing
                path.mark(node)
        path.extend(max_order)
        found.append(_Search(path, pair[1 - witness_graph], witness_graph, progress).run())
        if found[-1].verdict != "undecided":
            break
    return _combined(found)


def _without_marks(first: OneGraph, second: OneGraph) -> Proof:
    path = Path(first)
    colours = path.refine_unmarked(second)
    if colours is None:
        return Proof("differ", 0, ())
    if path.last.discrete:
        image = isomorphism(first, path.last.colours, second, colours)
        return Proof("differ", 0, ()) if image is None else Proof("isomorphic", 0, mapping=tuple(image.tolist()))
    return Proof("undecided", 0)


def _combined(found: list[Proof]) -> Proof:
    """Return the last proof, with the candidates of all."""
    last = found[-1]
    counts = {name: sum(getattr(one, name) for one in found) for name in ("candidates", "symmetries")}
    exhausted = last.verdict == "undecided" and any(one.exhausted for one in found)
    return Proof(
        last.verdict, last.order, last.witness, last.witness_graph, **counts, exhausted=exhausted, mapping=last.mapping
    )


class _Search:
    """The search for the marks of a path in another graph, depth first.

    Args:
        path: at least one mark.
        witness_graph: the graph of the path, 0 or 1.
    """

    def __init__(self, path: Path, other: OneGraph, witness_graph: int, progress: Callable[[int, int], None]) -> None:
        self.path, self.other, self.witness_graph, self.progress = path, other, witness_graph, progress
        self.symmetries = Symmetries(path)
        self.candidates, self.excluded = 0, False  # whether symmetries excluded candidates

    def run(self) -> Proof:
        colours = self.path.refine_unmarked(self.other)
        assert colours is not None, "graphs that are distinguished without marks are not searched"
        levels, deepest = self.path.levels, 0
        branches, followed = [self._survivors(levels[1], colours, report=True)], [0]  # of each mark so far
        while branches:
            order = len(branches)
            if self.candidates * self.other.num_nodes > MOST_CELLS:
                return self._proof("undecided", len(levels) - 1, exhausted=True)
            colours = next(branches[-1], None)
            excluded = colours is not None and followed[-1] > 0 and self.symmetries.interchangeable(order)
            self.excluded |= excluded
            if colours is None or excluded:
                branches.pop()
                followed.pop()
                continue
            followed[-1] += 1
            deepest = max(deepest, order)
            if levels[order].discrete:
                mapping = self._isomorphism(colours)
                if mapping is not None:
                    return self._proof("isomorphic", order, mapping=mapping)
            elif order == len(levels) - 1:
                return self._proof("undecided", order)
            else:
                branches.append(self._survivors(levels[order + 1], colours))
                followed.append(0)
        order = min(deepest + 1, len(levels) - 1)
        return self._proof("differ", order, witness=self.path.nodes[:order])

    def _survivors(self, level: Level, colours: Tensor, report: bool = False) -> Iterator[Tensor]:
        """Yield the colours [n] of each copy of the other graph with the same trace as the path at `level`.

        Few copies are refined at first, because one is enough if all are equivalent.
        """
        nodes, done, size = level.candidates(colours), 0, 1
        if report:
            self.progress(0, len(nodes))
        while done < len(nodes):
            part = nodes[done : done + size]
            self.candidates += len(part)
            done += len(part)
            yield from level.survivors(self.other, colours, part)[1].unbind(1)
            if report:
                self.progress(done, len(nodes))
            size = min(size * GROWTH, max(AT_ONCE // self.other.num_nodes, 1))

    def _isomorphism(self, colours: Tensor) -> tuple[int, ...] | None:
        """Return the nodes of the second graph, in the order of the first's nodes, if they are an isomorphism."""
        image = isomorphism(self.path.own, self.path.last.colours, self.other, colours)
        if image is None:
            return None
        return tuple((image if self.witness_graph == 0 else image.argsort()).tolist())

    def _proof(
        self,
        verdict: Verdict,
        order: int,
        witness: tuple[int, ...] | None = None,
        mapping: tuple[int, ...] | None = None,
        exhausted: bool = False,
    ) -> Proof:
        symmetries = self.symmetries.found if self.excluded else 0
        return Proof(verdict, order, witness, self.witness_graph, self.candidates, symmetries, exhausted, mapping)
