"""A search whose result does not depend on how nodes are numbered: an agent proposes, colour refinement breaks ties.

A greedy search depends on the numbering in two places: where it starts, and which of several equally promising moves
it makes. Here all of them are followed at once. Tuples whose marked copies have equal hashes under colour refinement
(`maggnn.model.refined.copies`) form a *kind*, an equivalence class: no message-passing network distinguishes their
copies, so the Q-network reads one of them for all. But moves from them may lead to different copies, as in strongly
regular graphs, so all tuples of a kind stay in the search:

    starts    all marks on one node; the kinds of these tuples, at most C of them, in the order (most colours first,
              rarest hash first, value of the hash)
    moves     the Q-network reads one copy of each kind; its best moves lead to nodes of certain stable colours, and
              every tuple of the kind tries all nodes of these colours. The search goes on from the outcomes with the
              hash that comes first in the same order, all of them together
    result    of all tuples on the way, m that come first in that order and have different hashes

The Q-network reads no more than C * t marked copies, and the predictor m. Refinement is applied to |V| copies to find
the starts, and to all outcomes; a kind whose best moves have more than `MOST_OUTCOMES` outcomes goes no further. No
step depends on the numbering, except where rounding decides between values of Q that are not quite equal.

Tuples are held as places in the list of all |V|^k tuples (`maggnn.model.tuples.all_tuples`).

Shapes: B graphs, V nodes of the largest; C kinds; M tuples of one graph or kind; k nodes of a tuple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.colours import Edges, class_sizes, mix, next_colours, readout, until_stable
from maggnn.model.agent import Scores, q_rows
from maggnn.model.refined.copies import CELLS, first_colours, refine_in_parts
from maggnn.model.state import State
from maggnn.model.tuples import tuples_at

TIE = 1e-4
"""Q-values that are closer than this count as equal: Q is computed in single precision, by many layers of sums."""

MOST_OUTCOMES = 1 << 12
"""Of the best moves of one kind, the bound of what is refined: all pairs of 64 nodes."""


EMPTY = torch.zeros(0, dtype=torch.long)
"""No tuples."""


class Found(NamedTuple):
    """Different tuples of one graph, with their copies under colour refinement.

    Shapes:
        places, hashes, colours: [M].
    """

    places: Tensor
    hashes: Tensor
    colours: Tensor


class Searched(NamedTuple):
    """What a search found and what it cost.

    Attributes:
        tuples: the result, [B, m, k], node ids local to their graph.
        passes: marked copies of each graph that the Q-network read, [B].
        refined: different tuples of each graph that refinement looked at, [B].
    """

    tuples: Tensor
    passes: Tensor
    refined: Tensor


@torch.no_grad()
def invariant_search(
    scores: Scores, graphs: GraphBatch, num_tuples: int, tuple_order: int, starts: int, num_moves: int
) -> Searched:
    """The m tuples that the rule above chooses.

    Args:
        scores: a Q-network that judges each tuple by itself, or anything that acts like one.
        graphs: without padding, prepared for the network's marking.
        num_tuples, tuple_order: m and k.
        starts, num_moves: C and t.
    """
    width = graphs.max_num_nodes
    on_one_node = sum(width**slot for slot in range(tuple_order))
    seen = refined_sets(graphs, [torch.arange(size) * on_one_node for size in graphs.num_nodes.tolist()], tuple_order)
    kinds = [_of_hashes(own, own.hashes[first_in_order(own.hashes, own.colours, starts)].tolist()) for own in seen]
    passes = torch.zeros(graphs.num_graphs, dtype=torch.long)
    for _ in range(num_moves):
        if not any(kinds):
            break
        passes += torch.tensor([len(own) for own in kinds])
        outcomes = best_outcomes(scores, graphs, kinds, tuple_order)
        refined = refined_sets(graphs, [_distinct(own) for own in outcomes], tuple_order)
        kinds = [_next_kinds(own, after) for own, after in zip(outcomes, refined, strict=True)]
        seen = [_joined(before, after) for before, after in zip(seen, refined, strict=True)]
    chosen = torch.stack([own.places[first_in_order(own.hashes, own.colours, num_tuples)] for own in seen])  # [B, m]
    tuples = tuples_at(chosen.flatten(), width, tuple_order).view(*chosen.shape, tuple_order)
    return Searched(tuples, passes, torch.tensor([len(own.places) for own in seen]))


# ---- kinds ----------------------------------------------------------------------------------------------


def first_in_order(hashes: Tensor, colours: Tensor, count: int) -> Tensor:
    """One tuple for each of the first hashes: most colours first, then the rarest hash, then its value.

    Args:
        hashes, colours: of different tuples, [M].
        count: how many; where there are fewer hashes, it begins again.

    Returns:
        Which tuples, [count].
    """
    distinct, which, times = hashes.unique(return_inverse=True, return_counts=True)  # in order of value
    first = torch.full_like(distinct, len(which)).scatter_reduce(0, which, torch.arange(len(which)), "amin")
    order = times.argsort(stable=True)
    order = order[colours[first[order]].argsort(descending=True, stable=True)]
    return first[order[torch.arange(count) % len(order)]]


def _of_hashes(found: Found, hashes: Iterable[int]) -> list[Tensor]:
    """All tuples of each of these hashes, the kinds, [M] each."""
    return [found.places[found.hashes == value] for value in dict.fromkeys(hashes)]


def _next_kinds(outcomes: Sequence[Tensor], refined: Found) -> list[Tensor]:
    """Where the kinds of one graph go on, from the outcomes of each; kinds that come to the same hash are one."""
    hashes: list[int] = []
    for own in outcomes:
        which = torch.searchsorted(refined.places, own)
        first = which[first_in_order(refined.hashes[which], refined.colours[which], 1)]
        hashes += refined.hashes[first].tolist()
    return _of_hashes(refined, hashes)


def _distinct(parts: Sequence[Tensor]) -> Tensor:
    """The different tuples of all parts, in order, [M]."""
    return torch.cat([EMPTY, *parts]).unique()


def _joined(first: Found, second: Found) -> Found:
    """All tuples of both, each once: how rare a hash is must not depend on how often its tuples were met."""
    is_new = ~torch.isin(second.places, first.places)
    return Found(*(torch.cat([old, new[is_new]]) for old, new in zip(first, second, strict=True)))


def refined_sets(graphs: GraphBatch, sets: Sequence[Tensor], order: int) -> list[Found]:
    """Refine the copies of different tuples of each graph, M of its own."""
    refined = refine_in_parts(graphs, _side_by_side(graphs, sets, order))
    return [
        Found(own, hashes[: len(own)], colours[: len(own)]) for own, hashes, colours in zip(sets, *refined, strict=True)
    ]


def _side_by_side(graphs: GraphBatch, sets: Sequence[Tensor], order: int) -> Tensor:
    """Tuples of each graph as [B, M, k]; graphs with fewer of them have all marks on their first node there."""
    places = torch.nn.utils.rnn.pad_sequence(list(sets), batch_first=True)  # [B, M]
    return tuples_at(places.flatten(), graphs.max_num_nodes, order).view(*places.shape, order)


# ---- moves ----------------------------------------------------------------------------------------------


def best_outcomes(
    scores: Scores, graphs: GraphBatch, kinds: Sequence[Sequence[Tensor]], order: int
) -> list[list[Tensor]]:
    """What the best moves of each kind lead to, all of equally promising ones and from all its tuples.

    Args:
        kinds: of each graph, the tuples [M] of each kind, which have equal hashes.

    Returns:
        Of each graph the outcomes [M] of each kind, without kinds that have more than `MOST_OUTCOMES`.
    """
    sets = [torch.cat([EMPTY, *(own[:1] for own in per_graph)]) for per_graph in kinds]
    read = _side_by_side(graphs, sets, order)  # [B, C, k], one tuple of each kind
    q_table, _ = scores(State.start(graphs, read, history_width=0))
    rows = q_rows(q_table, graphs)  # [B, C, V * k]
    tied = (rows >= rows.amax(dim=-1, keepdim=True) - TIE).unflatten(-1, (-1, order))  # [B, C, V, k]
    flat, rounds = _stable_colours(graphs, read)  # [N, C]
    colours = graphs.padded(flat, 0)  # [B, V, C]
    every = _side_by_side(graphs, [torch.cat([EMPTY, *per_graph]) for per_graph in kinds], order)
    nodes = _colours_after(graphs, every, rounds)  # [B, V, M]
    result: list[list[Tensor]] = []
    for graph, (per_graph, size) in enumerate(zip(kinds, graphs.num_nodes.tolist(), strict=True)):
        lengths = [len(own) for own in per_graph]
        of_kinds = nodes[graph, :size, : sum(lengths)].split(lengths, dim=1) if lengths else ()
        result.append([])
        for kind, (own, theirs) in enumerate(zip(per_graph, of_kinds, strict=True)):
            promising = [colours[graph, tied[graph, kind, :, slot], kind] for slot in range(order)]
            moves = [torch.isin(theirs, best) for best in promising]  # [V, M] for each slot
            if sum(int(some.sum()) for some in moves) <= MOST_OUTCOMES:
                result[-1].append(_moved(own, moves, graphs.max_num_nodes))
    return result


def random_scores(seed: int) -> Scores:
    """The control of an agent in this search: values of moves that say nothing, and depend on no numbering.

    A move's value is drawn by the stable colour of its node, by its slot and by the number of moves before, so that all
    nodes of a colour are equally promising, as they are to a Q-network. A colour is the best with a probability in
    proportion to its nodes (the exponential race: the largest of log(u) / size), so a move goes to a random node, as
    random moves do.

    Args:
        seed: of the draws. Graphs that are to be compared need the same one: other draws lead to other marks, and these
            differ also where the graphs are isomorphic.
    """
    draws = count(seed << 32)

    def scores(state: State) -> tuple[Tensor, Tensor]:
        graphs = state.graphs
        colours = until_stable(graphs, first_colours(graphs, state.tuples))  # [N, C]
        sizes = class_sizes(graphs, colours)  # [N, C]
        slots = [_uniform(colours, next(draws)).log() / sizes for _ in range(state.tuples.shape[2])]
        return torch.stack(slots, dim=2), state.history

    return scores


def _uniform(hashes: Tensor, seed: int) -> Tensor:
    """Numbers in (0, 1) that are drawn by 64-bit hashes and a seed; equal hashes have equal ones."""
    drawn = mix(hashes ^ mix(torch.tensor([seed + 1])))
    return ((drawn & (2**52 - 1)).double() + 0.5) / 2**52


def _moved(places: Tensor, moves: Sequence[Tensor], width: int) -> Tensor:
    """The different tuples that some [M] lead to by the moves that `moves` allows for each slot, [V, M] each."""
    outcomes = []
    for slot, allowed in enumerate(moves):
        node, which = allowed.nonzero(as_tuple=True)
        power = width ** (len(moves) - 1 - slot)
        before = places[which]
        outcomes.append(before + (node - before // power % width) * power)
    return _distinct(outcomes)


def _stable_colours(graphs: GraphBatch, tuples: Tensor) -> tuple[Tensor, int]:
    """Stable colours of copies [B, C, k], all after the same number of rounds: [N, C], and that number."""
    edges, colours, rounds = Edges.of(graphs), first_colours(graphs, tuples), 0
    counts, before = readout(graphs, colours).num_colours, None
    while before is None or not torch.equal(counts, before):
        colours, rounds, before = next_colours(edges, colours), rounds + 1, counts
        counts = readout(graphs, colours).num_colours
    return colours, rounds


def _colours_after(graphs: GraphBatch, tuples: Tensor, rounds: int) -> Tensor:
    """Colours of copies [B, M, k] after so many rounds, a few copies at a time: [B, V, M]."""
    edges, parts = Edges.of(graphs), []
    for part in tuples.split(max(CELLS // max(graphs.total_nodes, 1), 1), dim=1):
        colours = first_colours(graphs, part)
        for _ in range(rounds):
            colours = next_colours(edges, colours)
        parts.append(graphs.padded(colours, 0))
    return torch.cat(parts, dim=2)
