"""Tests of an agent on families of graphs that it was never trained on.

Each family is a list of graphs, in pairs of equal size. From random tuples the agent makes up to four moves. It is
compared with random moves, with the most central nodes and with the exact greedy teacher, which computes the values of
all moves. Three quantities are measured after each number of moves: the fineness of the tuple's stable colouring
(number of colours over |V|), the share of tuples that are among the finest of all |V|^k, and the share of *informative*
tuples (metric `telling`), whose marked copy never occurs in the other graph of the pair. All three are exact, by colour
refinement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from maggnn.data import registry
from maggnn.data.files import whole_file
from maggnn.errors import InputError, did_you_mean
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.agent import best_index, best_move, random_move
from maggnn.model.q_network import QNetwork
from maggnn.model.refined.copies import refine
from maggnn.model.starts import central_tuples
from maggnn.model.state import State
from maggnn.model.tuples import all_tuples, replace_slot, sample_tuples
from maggnn_paper.universal import random_graphs
from maggnn_paper.universal.cfi import cfi, wheel
from maggnn_paper.universal.classical import Adjacency
from maggnn_paper.universal.exclusion import bare, packed
from maggnn_paper.universal.game import CELLS, ValueTable

NUM_MOVES = 4
STARTS = 16
"""Random starts in each graph."""

MOST_GRAPHS = 40
"""Of one family, evenly spaced, so that a test takes seconds."""

MOST_NODES = 100
"""Of a tested graph: all |V|^2 tuples are refined."""

METHODS = ("mag-gnn", "random-moves", "central-marks", "refinement")
"""The agent, two controls, and the exact greedy teacher."""


# ---- the families ---------------------------------------------------------------------------------------


@cache
def generated() -> dict[str, list[Adjacency]]:
    """CFI graphs over base graphs of kinds and sizes that the curriculum has not, plain and twisted in turn."""
    random = np.random.default_rng(900)
    bases = {
        "cfi_cubic8": [random_graphs.random_regular(8, 3, random) for _ in range(10)],
        "cfi_cubic12": [random_graphs.random_regular(12, 3, random) for _ in range(10)],
        "cfi_wheel": [wheel(spokes) for spokes in (4, 5, 6)],
        "cfi_quartic": [random_graphs.random_regular(n, 4, random) for n in (6, 7)],
    }
    return {name: [cfi(base, twisted) for base in own for twisted in (False, True)] for name, own in bases.items()}


PUBLISHED = ("sr25", "sr26", "sr28", "sr35", "sr36", "sr40")
"""Families of strongly regular graphs, by the names of their data sets."""

BREC = {
    "brec_regular": "regular",
    "brec_strongly": "str",
    "brec_cfi": "cfi",
    "brec_4vertex": "4vtx",
    "brec_distance": "dr",
}
"""Families of BREC, each with the name of its category in the data set."""

FAMILIES = (*PUBLISHED, *BREC, "cfi_cubic8", "cfi_cubic12", "cfi_wheel", "cfi_quartic")

IN_PARTS = "exp"
"""Graphs of two or three sparse parts, the data set EXP: tested where it is named."""


def family(name: str, most_graphs: int = MOST_GRAPHS, most_nodes: int = MOST_NODES) -> PackedGraphs:
    """A family's graphs, evenly spaced pairs of those that are small enough, without features."""
    if name not in (*FAMILIES, IN_PARTS):
        raise InputError(f"no family {name!r}{did_you_mean(name, FAMILIES)}")
    if name in (*PUBLISHED, IN_PARTS):
        graphs = bare(registry.load(name).graphs)
    elif name in BREC:
        graphs = _brec(BREC[name])
    else:
        graphs = packed(generated()[name])
    sizes = graphs.num_nodes[: len(graphs) // 2 * 2].view(-1, 2)
    fitting = ((sizes <= most_nodes).all(1) & (sizes[:, 0] == sizes[:, 1])).nonzero()[:, 0]
    if not len(fitting):
        raise InputError(f"family {name} has no pair of graphs of at most {most_nodes} nodes")
    chosen = fitting[torch.linspace(0, len(fitting) - 1, min(len(fitting), most_graphs // 2)).long()]
    return graphs.select((2 * chosen[:, None] + torch.arange(2)).flatten())


def _brec(category: str) -> PackedGraphs:
    dataset = registry.load("brec")
    names = [str(name) for name in dataset.extra["category_names"]]
    pairs = torch.as_tensor(dataset.extra["pair_category"] == names.index(category)).nonzero()[:, 0]
    return bare(dataset.graphs.select((2 * pairs[:, None] + torch.arange(2)).flatten()))


# ---- exact tables ---------------------------------------------------------------------------------------


def informative(graphs: GraphBatch, order: int) -> Tensor:
    """Which tuples are informative, for pairs of graphs of equal size, [B, V^k].

    A tuple of graph 2i is informative if its refined copy never occurs in graph 2i + 1, and vice versa.
    """
    tuples = all_tuples(graphs.max_num_nodes, order, graphs.device)
    parts = tuples.split(max(1, CELLS[graphs.device.type] // graphs.total_nodes))
    hashes = torch.cat([refine(graphs, part.expand(graphs.num_graphs, -1, -1)).hashes for part in parts], dim=1)
    other = hashes.view(-1, 2, hashes.shape[1]).flip(1).flatten(0, 1).sort(dim=1).values  # of the pair's other graph
    place = torch.searchsorted(other, hashes.contiguous()).clamp(max=hashes.shape[1] - 1)
    return other.gather(1, place) != hashes


@dataclass(frozen=True)
class Judged:
    """Some graphs of one size with everything that is known of their tuples.

    Attributes:
        graphs: the batch.
        values: of all tuples.
        finest, tells: which tuples are among the finest, and which are informative, [B, V, ..., V].
    """

    graphs: GraphBatch
    values: ValueTable
    finest: ValueTable
    tells: ValueTable

    @classmethod
    def of(cls, graphs: GraphBatch, order: int, kept: Path | None = None) -> Judged:
        """Refine all tuples.

        Args:
            kept: a file for what was found, which no agent changes; read where it exists.
        """
        if kept is not None and kept.exists():
            found = {name: table.to(graphs.device) for name, table in load_file(kept).items()}
        else:
            values = ValueTable.of(graphs, order).values
            found = {"values": values, "tells": informative(graphs, order).view(values.shape)}
            if kept is not None:
                kept.parent.mkdir(parents=True, exist_ok=True)
                with whole_file(kept) as waiting:
                    save_file(found, waiting)
        values, tells = (ValueTable(found[name].float(), graphs.num_nodes) for name in ("values", "tells"))
        return cls(graphs, values, ValueTable(values.finest().float(), graphs.num_nodes), tells)

    def figures(self, tuples: Tensor) -> Tensor:
        """Fineness, share of finest and share of informative tuples, of tuples [B, m, k]: [3, B]."""
        return torch.stack([table.at(tuples).mean(dim=1) for table in (self.values, self.finest, self.tells)])


# ---- walks ----------------------------------------------------------------------------------------------

Step = Callable[[State], State]
"""One move of every tuple."""


def _agent_step(network: QNetwork, generator: torch.Generator) -> Step:
    def step(state: State) -> State:
        q_table, history = network(state)
        return state.after(best_move(q_table, state, "simultaneous", generator)[1], history)

    return step


def _random_step(generator: torch.Generator) -> Step:
    return lambda state: state.after(random_move(state, "simultaneous", generator), state.history)


def _teacher_step(values: ValueTable, generator: torch.Generator) -> Step:
    def step(state: State) -> State:
        rows = values.outcomes(state.tuples)  # [B, m, V, k]
        rows = rows.masked_fill(~state.graphs.is_node[:, None, :, None], -1.0)
        choice, order = best_index(rows.flatten(2), generator), rows.shape[-1]
        moved = replace_slot(state.tuples, choice % order, choice // order)
        return State.start(state.graphs, moved, history_width=state.history.shape[-1])

    return step


@dataclass(frozen=True)
class Measured:
    """What one method does in one family.

    Attributes:
        family, method: which.
        graphs: how many were tested.
        fineness, finest, telling: after 0, 1, ... moves, means over graphs and starts.
        most, share_finest, share_informative: of the same family the best fineness that there is, and the shares of all
            tuples that are finest and that are informative.
    """

    family: str
    method: str
    graphs: int
    fineness: list[float]
    finest: list[float]
    telling: list[float]
    most: float
    share_finest: float
    share_informative: float

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self)


@torch.no_grad()
def measure(
    network: QNetwork,
    order: int,
    name: str,
    device: torch.device | str = "cpu",
    num_moves: int = NUM_MOVES,
    starts: int = STARTS,
    seed: int = 0,
    most_graphs: int = MOST_GRAPHS,
    most_nodes: int = MOST_NODES,
    folder: Path | None = None,
) -> list[Measured]:
    """Test an agent and its controls in one family.

    Args:
        network: the agent's Q-network, in evaluation.
        order: k.
        name: of the family, one of `FAMILIES` or `IN_PARTS`.
        starts: random starts in each graph, the same for all methods.
        folder: where the tables of exact values are kept for other agents, if anywhere.
    """
    graphs = family(name, most_graphs, most_nodes)
    network = network.to(device)
    figures: dict[str, list[Tensor]] = {method: [] for method in METHODS}
    whole: list[Tensor] = []
    kept = None if folder is None else folder / f"{name}-k{order}-{most_graphs}-{most_nodes}"
    for number, judged in enumerate(_judged(graphs, order, device, network, kept)):
        generator = torch.Generator(device).manual_seed(seed + number)
        first = sample_tuples(judged.graphs, starts, order, generator)
        central = central_tuples(judged.graphs, 1, order)
        steps: dict[str, tuple[Tensor, Step, int]] = {
            "mag-gnn": (first, _agent_step(network, generator), num_moves),
            "random-moves": (first, _random_step(generator), num_moves),
            "central-marks": (central, _random_step(generator), 0),
            "refinement": (first, _teacher_step(judged.values, generator), num_moves),
        }
        for method, (tuples, step, moves) in steps.items():
            figures[method].append(_walk(judged, tuples, step, moves))
        whole.append(_of_all_tuples(judged))
    most, share_finest, share_informative = torch.cat(whole, dim=1).mean(dim=1).tolist()
    measured = []
    for method, parts in figures.items():
        fineness, finest, tells = torch.cat(parts, dim=2).mean(dim=2).T.tolist()
        measured.append(
            Measured(name, method, len(graphs), fineness, finest, tells, most, share_finest, share_informative)
        )
    return measured


def _judged(
    graphs: PackedGraphs, order: int, device: torch.device | str, network: QNetwork, kept: Path | None
) -> Iterator[Judged]:
    """The pairs of a family, those of one size together."""
    held = graphs.to(device)
    if network.encoder is not None and network.encoder.mark_embedding is not None:
        held = network.encoder.mark_embedding.precomputed(held)
    for size in graphs.num_nodes.unique().tolist():
        ids = (graphs.num_nodes == size).nonzero()[:, 0]
        for number, part in enumerate(ids.split(16)):
            file = None if kept is None else kept / f"{size}-{number}.safetensors"
            yield Judged.of(held[part], order, file)


def _walk(judged: Judged, tuples: Tensor, step: Step, num_moves: int) -> Tensor:
    """The figures after 0, 1, ... moves, [t + 1, 3, B]."""
    state = State.start(judged.graphs, tuples, history_width=0)
    figures = [judged.figures(state.tuples)]
    for _ in range(num_moves):
        state = step(state)
        figures.append(judged.figures(state.tuples))
    return torch.stack(figures).cpu()


def _of_all_tuples(judged: Judged) -> Tensor:
    """The best value of each graph, and the shares of its tuples that are finest and that are informative, [3, B]."""
    best = judged.values.values.flatten(1).amax(dim=1)
    shares = [table.values.flatten(1).mean(dim=1) for table in (judged.finest, judged.tells)]
    return torch.stack([best, *shares]).cpu()


# ---- in words -------------------------------------------------------------------------------------------

HEADINGS = ("family", "graphs", "method", "fineness after 0, 1, ... moves", "finest", "informative")


def lines(measured: Sequence[Measured]) -> list[list[str]]:
    """The cells of a table, one row for each family and method; the first row of a family is that of all tuples."""
    table = []
    for row in measured:
        if row.method == METHODS[0]:
            every = [_number(row.most), _number(row.share_finest), _number(row.share_informative)]
            table.append([row.family, str(row.graphs), "all tuples (best, shares)", *every])
        figures = [" ".join(_number(value) for value in values) for values in (row.fineness, row.finest, row.telling)]
        table.append([row.family, str(row.graphs), row.method, *figures])
    return table


def _number(value: float) -> str:
    return f"{value:.3f}"


def print_families(measured: Sequence[Measured]) -> None:
    """Print a table, by Rich where it is installed and as plain columns where it is not."""
    rows = lines(measured)
    try:
        from rich.console import Console
        from rich.table import Table
    except ModuleNotFoundError:
        widths = [max(map(len, column)) for column in zip(HEADINGS, *rows, strict=True)]
        for row in (HEADINGS, *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), flush=True)
        return
    table = Table(*HEADINGS)
    for row in rows:
        table.add_row(*row)
    Console(width=160).print(table)
