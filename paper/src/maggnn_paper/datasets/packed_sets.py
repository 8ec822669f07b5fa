"""What sets in packed files have in common: one reading of a file for all that share it, facts of sizes and parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from maggnn.data.dataset import Dataset, Fact
from maggnn.data.sources import data_root, read_packed
from maggnn.graphs.packed import PackedGraphs


def packed_file(name: str) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    """The graphs of a file under the data root, and its other arrays."""
    return _remembered(data_root() / f"{name}.npz")


@lru_cache(maxsize=1)  # the four lengths of cycles and QM9's targets share a file
def _remembered(path: Path) -> tuple[PackedGraphs, dict[str, np.ndarray]]:
    return read_packed(path)


def with_targets(graphs: PackedGraphs, y: Tensor) -> PackedGraphs:
    """The same graphs with the targets `y`, as columns of floats."""
    return replace(graphs, y=y.float().reshape(len(y), -1))


def facts_of_sizes(nodes: float, edges: float) -> Callable[[Dataset], list[Fact]]:
    """That graphs have so many nodes and edges on average."""

    def facts(dataset: Dataset) -> list[Fact]:
        graphs = dataset.graphs
        mean_nodes, mean_edges = float(graphs.num_nodes.double().mean()), float(graphs.num_edges.double().mean()) / 2
        return [
            (f"{nodes} nodes a graph", abs(mean_nodes - nodes) < 0.006),
            (f"{edges} edges a graph", abs(mean_edges - edges) < 0.006),
        ]

    return facts


def facts_of_parts(train: int, val: int, test: int, nodes: float, edges: float) -> Callable[[Dataset], list[Fact]]:
    """That the parts have so many graphs and none in common, and `facts_of_sizes`."""
    sizes = facts_of_sizes(nodes, edges)

    def facts(dataset: Dataset) -> list[Fact]:
        split = dataset.split(0, 0)
        counts = (len(split.train), len(split.val), len(split.test))
        apart = len(torch.cat([split.train, split.val, split.test]).unique()) == sum(counts)
        return [
            (f"{train} / {val} / {test} graphs to train, validate, test", counts == (train, val, test)),
            ("no graph in two parts", apart),
            *sizes(dataset),
        ]

    return facts
