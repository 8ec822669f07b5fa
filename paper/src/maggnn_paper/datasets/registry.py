"""The data sets of the paper's tables by name: what the entry point `maggnn.datasets` of this distribution names."""

from __future__ import annotations

from maggnn.data.dataset import DatasetEntry
from maggnn_paper.datasets import cycle_counts, hard_pairs, links, molecules, regular_graphs

DATASETS: dict[str, DatasetEntry] = {
    **regular_graphs.ENTRIES,
    **links.ENTRIES,
    **hard_pairs.ENTRIES,
    **cycle_counts.ENTRIES,
    **molecules.ENTRIES,
}
"""Rows of the visible table."""
