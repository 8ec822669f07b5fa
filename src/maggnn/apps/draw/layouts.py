"""Layouts: positions of the nodes and edges of one graph in a drawing.

`positions` places the nodes of any graph or molecule in the unit square, for `maggnn explain` and `maggnn show`. For
figures, the paths of edges are needed too: a layout function takes a graph and its most important nodes, and places
nodes and edges in a box from -1 to 1; `layout_of` chooses one for a data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from maggnn.data.molecules.smiles import parsed
from maggnn.data.synthetic.expressivity import BLOCK_NODES
from maggnn.errors import InputError
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.conversions import to_networkx
from maggnn.graphs.packed import PackedGraphs

if TYPE_CHECKING:
    import networkx as nx

Edge = tuple[int, int]
"""An undirected edge, the smaller node first."""

MARGIN = 0.06
"""The margin on all four sides, so that marks around the outermost nodes are not cut."""

MOST_BY_DISTANCES = 80
"""The largest number of nodes for which all pairs of distances are fitted; for more, springs are much faster."""

ROUNDS = 60
"""The number of iterations of springs; more have no visible effect."""


@dataclass(frozen=True)
class Layout:
    """The layout of one graph.

    Attributes:
        positions: the positions of nodes, [n, 2].
        lines: the polylines [points, 2] of each edge.
        bands: pairs of points [2, 2]: a wide pale band between groups of nodes that are completely joined.
        node_radius: the radius of a node.
        note: a remark for the bottom of the picture.
    """

    positions: np.ndarray
    lines: dict[Edge, list[np.ndarray]]
    node_radius: float
    bands: list[np.ndarray] = field(default_factory=list)
    note: str = ""

    @property
    def reach(self) -> np.ndarray:
        """The extent of nodes and edges from the centre in x and y, [2]."""
        lines = [line for parts in self.lines.values() for line in parts]
        nodes = np.abs(self.positions) + self.node_radius
        return np.concatenate([nodes, *map(np.abs, lines)]).max(axis=0)

    def in_one_piece(self, edge: Edge) -> list[np.ndarray]:
        """Return the lines of a highlighted edge: two separate ends become one arc between its nodes."""
        lines = self.lines.get(edge, [])
        start, end = self.positions[list(edge)]
        return lines if len(lines) < 2 else [_bent(start, end, 0.22)]


LayoutFunction = Callable[[GraphBatch, Sequence[int]], Layout]
"""A function of one graph, and the nodes to keep in the centre if there is a choice, that returns a layout."""


def layout_of(dataset_name: str) -> LayoutFunction:
    """Return the layout function for the graphs of a data set."""
    if dataset_name == "shrikhande_rook":
        return torus_grid
    return block_circle if dataset_name.startswith("supergraph") else components_apart


def undirected_edges(graph: GraphBatch) -> list[Edge]:
    """Return each edge once, the smaller node first, without loops."""
    return sorted({(u, v) for u, v in graph.edge_index.T.tolist() if u < v})


# ---- nodes in the unit square ---------------------------------------------------------------------------


def positions(packed: PackedGraphs, graph: int, smiles: str | None = None) -> list[tuple[float, float]]:
    """Return a point in [0, 1]^2 for each node, with y downwards; equal graphs get equal points.

    Args:
        smiles: the SMILES of the graph, if any; atoms are in the order of its nodes.
    """
    single = packed.select(torch.tensor([graph]))[torch.tensor([0])]
    if smiles is not None:
        points = _drawn(smiles, single.total_nodes)
    elif single.total_nodes <= MOST_BY_DISTANCES:
        points = components_apart(single).positions
    else:
        points = _by_springs(single)
    return [(float(x), float(y)) for x, y in 0.5 + _fit(points * np.array([1.0, -1.0]), 0.5 - MARGIN)]


def _drawn(smiles: str, num_nodes: int) -> np.ndarray:
    """Return RDKit's two-dimensional coordinates, [n, 2]; with hydrogens if the graph has them as nodes."""
    from rdkit import Chem
    from rdkit.Chem import rdDepictor
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        mol = parsed(smiles)
        if mol.GetNumAtoms() != num_nodes:
            mol = Chem.AddHs(mol)
        if mol.GetNumAtoms() != num_nodes:
            raise InputError(f"SMILES {smiles!r}: has {mol.GetNumAtoms()} atoms, the graph {num_nodes} nodes")
        rdDepictor.SetPreferCoordGen(False)
        rdDepictor.Compute2DCoords(mol, canonOrient=True)
    return np.array(mol.GetConformer().GetPositions())[:, :2]


def _by_springs(single: GraphBatch) -> np.ndarray:
    """Place nodes by Fruchterman and Reingold, deterministically from a circle: [n, 2]."""
    import networkx as nx

    plain = nx.Graph()
    plain.add_nodes_from(range(single.total_nodes))
    plain.add_edges_from(single.edge_index.T.tolist())
    places = nx.spring_layout(plain, pos=nx.circular_layout(plain), iterations=ROUNDS, seed=0, method="force")
    return np.array([places[node] for node in range(single.total_nodes)])


# ---- a grid on a torus ----------------------------------------------------------------------------------


def torus_grid(graph: GraphBatch, focus: Sequence[int] = ()) -> Layout:
    """Place node r * s + c at row r and column c of an s by s grid whose opposite sides are identified.

    An edge across a side is drawn as two ends that leave the grid; one longer than a step is bent around the nodes
    between. The grid is shifted on the torus so that the nodes of `focus` are close together.
    """
    side = math.isqrt(graph.total_nodes)
    if side * side != graph.total_nodes:
        raise InputError(f"a torus grid needs a square number of nodes, not {graph.total_nodes}")
    cells = _turned_cells(side, focus)  # [n, 2]
    lines = {edge: _torus_lines(cells[edge[0]], cells[edge[1]], side) for edge in undirected_edges(graph)}
    scale = 2 / (side - 1)
    placed = {edge: [_to_box(line, side) for line in parts] for edge, parts in lines.items()}
    note = "Lines that leave the grid return on the opposite side."
    return Layout(_to_box(cells, side), placed, 0.15 * scale, note=note)


def _turned_cells(side: int, focus: Sequence[int]) -> np.ndarray:
    """Return row and column of each node, shifted so that `focus` spans the fewest rows and columns, [n, 2]."""
    cells = np.stack(np.divmod(np.arange(side * side), side), axis=1)
    nodes = list(focus)
    for axis in (0, 1) if nodes else ():
        turns = [(cells[nodes, axis] + turn) % side for turn in range(side)]
        # The smallest span is preferred, then a centred one.
        costs = [(np.ptp(turned), abs(turned.mean() - (side - 1) / 2)) for turned in turns]
        cells[:, axis] = (cells[:, axis] + costs.index(min(costs))) % side
    return cells.astype(float)


def _torus_lines(start: np.ndarray, end: np.ndarray, side: int) -> list[np.ndarray]:
    straight = end - start
    shift = np.where(np.abs(straight) > side / 2, straight - np.sign(straight) * side, straight)
    if (shift != straight).any():
        reach = 0.42 * shift / max(1.0, np.abs(shift).max())
        return [np.stack([start, start + reach]), np.stack([end, end - reach])]
    if np.abs(shift).max() > 1:
        outward = 1.0 if min(start.sum(), end.sum()) % 2 else -1.0  # neighbouring arcs bend to opposite sides
        return [_bent(start, end, 0.17 * outward)]
    return [np.stack([start, end])]


def _bent(start: np.ndarray, end: np.ndarray, bend: float) -> np.ndarray:
    """Return a parabola from start to end that deviates from the straight line by `bend` of its length, [17, 2]."""
    t = np.linspace(0, 1, 17)[:, None]
    across = np.array([-(end - start)[1], (end - start)[0]])
    return start + t * (end - start) + 4 * t * (1 - t) * bend * across


def _to_box(cells: np.ndarray, side: int) -> np.ndarray:
    """Convert (row, column) to (x, y), with row 0 at the top."""
    centred = (cells - (side - 1) / 2) * 2 / (side - 1)
    return np.stack([centred[..., 1], -centred[..., 0]], axis=-1)


# ---- components side by side ----------------------------------------------------------------------------


def components_apart(graph: GraphBatch, focus: Sequence[int] = ()) -> Layout:
    """Place each connected component by its distances (Kamada and Kawai), and components in a row, largest first."""
    import networkx as nx

    whole = nx.Graph(to_networkx(_as_packed(graph))[0])
    parts = sorted(map(sorted, nx.connected_components(whole)), key=lambda part: (-len(part), part))
    positions, corner, shelf_height = np.zeros((graph.total_nodes, 2)), np.zeros(2), 0.0
    width = 1.6 * math.sqrt(sum(_component_size(part) ** 2 for part in parts))
    for part in parts:
        size = _component_size(part)
        if corner[0] > 0 and corner[0] + size > width:
            corner, shelf_height = np.array([0.0, corner[1] - shelf_height]), 0.0
        local = _fit(_component_positions(whole.subgraph(part)), 0.84 * size / 2)
        positions[part] = corner + np.array([size, -size]) / 2 + local
        corner, shelf_height = corner + np.array([size, 0.0]), max(shelf_height, size)
    positions = _fit(positions, 1.0)
    lines = {(u, v): [positions[[u, v]]] for u, v in undirected_edges(graph)}
    radius = float(np.clip(0.3 * _nearest_distance(positions), 0.018, 0.05))
    return Layout(positions, lines, radius)


def _component_positions(component: nx.Graph) -> np.ndarray:
    """Return the positions of nodes in ascending order, [n, 2]."""
    import networkx as nx

    if len(component) == 1:
        return np.zeros((1, 2))
    places = nx.kamada_kawai_layout(component)
    return _parted(np.array([places[node] for node in sorted(component)]), 1.1 / math.sqrt(len(component)))


def _parted(points: np.ndarray, gap: float) -> np.ndarray:
    """Separate nodes that are almost at the same position, until none are closer than about `gap`."""
    spiral = 1e-3 * gap * _circle(np.arange(len(points)), len(points))  # so that equal points have a direction
    points = points + spiral
    for _ in range(60):
        away = points[:, None] - points[None]  # [n, n, 2]
        distance = np.linalg.norm(away, axis=-1, keepdims=True) + np.eye(len(points))[..., None]
        points = points + (0.3 * np.maximum(gap - distance, 0.0) * away / distance).sum(axis=1)
    return points


def _component_size(part: Sequence[int]) -> float:
    return math.sqrt(len(part)) + 0.6


def _fit(points: np.ndarray, half: float) -> np.ndarray:
    """Centre and scale points to a square of side 2 * half, with the same aspect ratio."""
    centred = points - points.mean(axis=0)
    low, high = centred.min(axis=0), centred.max(axis=0)
    span = float((high - low).max())
    return (centred - (low + high) / 2) * (2 * half / span if span > 0 else 1.0)


def _nearest_distance(positions: np.ndarray) -> float:
    """Return a low quantile of distances to the nearest node: one close pair should not shrink all nodes."""
    if len(positions) < 2:
        return 1.0
    apart = np.linalg.norm(positions[:, None] - positions[None], axis=-1) + np.eye(len(positions)) * 9
    return float(np.quantile(apart.min(axis=1), 0.2))


def _as_packed(graph: GraphBatch) -> PackedGraphs:
    """Return one graph without features, which a layout does not need."""
    edges = graph.edge_index.cpu()
    return PackedGraphs.build(graph.num_nodes.cpu(), torch.tensor([edges.shape[1]]), edges)


# ---- blocks on a circle ---------------------------------------------------------------------------------


def block_circle(graph: GraphBatch, focus: Sequence[int] = ()) -> Layout:
    """Place super graphs of Theorem 2: blocks of eight nodes on a circle, with a band between joined blocks."""
    num_blocks, rest = divmod(graph.total_nodes, BLOCK_NODES)
    if rest:
        raise InputError(f"a super graph has a multiple of {BLOCK_NODES} nodes, not {graph.total_nodes}")
    block, place = np.divmod(np.arange(graph.total_nodes), BLOCK_NODES)
    centres = _circle(np.arange(num_blocks), num_blocks)  # [blocks, 2]
    step = 0.36 * float(np.linalg.norm(centres[0] - centres[1 % num_blocks]))
    inner = step / (1 + step) if step > 0 else 0.8  # the radius of a block: neighbours do not touch
    positions = (1 - inner) * centres[block] + inner * _circle(place + 0.5, BLOCK_NODES)
    edges = undirected_edges(graph)
    lines = {(u, v): [positions[[u, v]]] for u, v in edges if block[u] == block[v]}
    joined = sorted({(int(block[u]), int(block[v])) for u, v in edges if block[u] != block[v]})
    bands = [(1 - inner) * centres[list(pair)] for pair in joined]
    note = "A grey band joins every node of a block with every node of the next."
    return Layout(positions, lines, 0.15 * inner, bands, note)


def _circle(number: np.ndarray, total: int) -> np.ndarray:
    """Return points on the unit circle, clockwise from the top, [..., 2]."""
    angle = 2 * np.pi * number / total
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1)
