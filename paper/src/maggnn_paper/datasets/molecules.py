"""The paper's benchmarks of molecules: ZINC, QM9 and MOLHIV, from packed files (`official` makes them).

ZINC and MOLHIV have their official splits; QM9 has none, so each seed deals its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from maggnn.data.dataset import Dataset, DatasetEntry, Fact
from maggnn.data.own_file import official_split
from maggnn.data.splits import Split
from maggnn.graphs.rings import NUM_CATEGORIES as RING_CATEGORIES
from maggnn.graphs.rings import with_rings
from maggnn_paper.datasets.packed_sets import facts_of_parts, facts_of_sizes, packed_file, with_targets

ZINC_MAX_PARAMETERS = 500_000
"""The budget of the benchmark (Dwivedi et al. 2023)."""

HARTREE = 27.211386246
"""In eV: the packed file has energies in eV, the paper in hartree."""

QM9_TARGETS = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv")
"""In the paper's order, which is that of the file's first columns. U0, U, H and G are totals, in hartree."""

QM9_ENERGIES = ("homo", "lumo", "gap", "zpve", "u0", "u", "h", "g")
QM9_TRAIN, QM9_VAL = 0.8, 0.1


def _qm9_split(dataset: Dataset, generator: torch.Generator) -> list[Split]:
    """80 / 10 / 10 at random, as in the paper."""
    order = torch.randperm(len(dataset.graphs), generator=generator)
    bounds = [round(share * len(order)) for share in (QM9_TRAIN, QM9_TRAIN + QM9_VAL)]
    train, val, test = order.tensor_split(bounds)
    return [Split(train.sort().values, val.sort().values, test.sort().values)]


def _zinc(name: str, file: str) -> Dataset:
    graphs, extra = packed_file(file)
    assert graphs.y is not None
    graphs = with_targets(graphs, graphs.y)
    most = ZINC_MAX_PARAMETERS if name == "zinc" else None
    return Dataset(name, graphs, "regression", 1, official_split, metric="mae", max_parameters=most, extra=extra)


def _zinc_rings() -> Dataset:
    """The molecules of ZINC without atoms and bonds, and no label: how many bonds have a smallest ring of each size.

    What an agent learns here it learns from structure alone, so it can place marks in any molecule (PRE).
    """
    graphs, extra = packed_file("zinc12k")
    graphs = with_rings(replace(graphs, x=None, edge_attr=None))
    assert graphs.rings is not None
    owner = torch.repeat_interleave(torch.arange(len(graphs)), graphs.num_edges)
    in_ring = graphs.rings > 0
    y = torch.zeros(len(graphs), RING_CATEGORIES - 1)
    y.index_put_((owner[in_ring], graphs.rings[in_ring] - 1), torch.tensor(0.5), accumulate=True)  # edges go both ways
    names = tuple(f"bonds_in_rings_of_{size}" for size in range(3, RING_CATEGORIES + 2))
    graphs = replace(graphs, y=y, rings=None)
    return Dataset(
        "zinc_rings", graphs, "regression", len(names), official_split, metric="mae", target_names=names, extra=extra
    )


def _molhiv() -> Dataset:
    graphs, extra = packed_file("molhiv")
    names = ("inactive", "active")
    return Dataset("molhiv", graphs, "classification", 2, official_split, names, metric="auroc", extra=extra)


def _qm9(name: str, targets: tuple[str, ...]) -> Dataset:
    """Atoms and bonds only, no geometry."""
    graphs, extra = packed_file("qm9")
    assert graphs.y is not None and graphs.x is not None and graphs.edge_attr is not None
    columns = [QM9_TARGETS.index(target) for target in targets]
    unit = torch.tensor([HARTREE if target in QM9_ENERGIES else 1.0 for target in targets])
    graphs = with_targets(graphs, graphs.y[:, columns] / unit)
    return Dataset(
        name, graphs, "regression", len(targets), _qm9_split, metric="mae", target_names=targets, extra=extra
    )


def _molhiv_facts(dataset: Dataset) -> list[Fact]:
    split = dataset.split(0, 0)
    positive = tuple(int(dataset.y[part].sum()) for part in (split.train, split.val, split.test))
    return [
        ("1232 / 81 / 130 active molecules", positive == (1232, 81, 130)),
        *facts_of_parts(32901, 4113, 4113, 25.51, 27.47)(dataset),
    ]


def _qm9_entry(name: str, targets: tuple[str, ...], what: str) -> DatasetEntry:
    return DatasetEntry(
        what, 130_831, "data root", lambda: _qm9(name, targets), facts_of_sizes(18.03, 18.65), "qm9", targets
    )


ENTRIES: dict[str, DatasetEntry] = {
    "zinc": DatasetEntry(
        "12,000 molecules, penalised logP, at most 500k parameters",
        12_000,
        "data root",
        lambda: _zinc("zinc", "zinc12k"),
        facts_of_parts(10_000, 1000, 1000, 23.16, 24.92),
        features="zinc",
    ),
    "zinc_rings": DatasetEntry(
        "the bare graphs of ZINC: bonds in rings of 3, 4, ..., 8 atoms; trains agents without labels",
        12_000,
        "data root",
        _zinc_rings,
        facts_of_parts(10_000, 1000, 1000, 23.16, 24.92),
    ),
    "zinc_full": DatasetEntry(
        "250k molecules, penalised logP",
        249_456,
        "data root",
        lambda: _zinc("zinc_full", "zinc_full"),
        facts_of_parts(220_011, 24_445, 5000, 23.15, 24.90),
        features="zinc",
    ),
    "molhiv": DatasetEntry(
        "molecules that inhibit HIV or do not, scaffold split, ROC-AUC",
        41_127,
        "data root",
        _molhiv,
        _molhiv_facts,
        features="ogb",
    ),
    "qm9": _qm9_entry("qm9", QM9_TARGETS, "small molecules, twelve properties at once, no geometry"),
    **{
        f"qm9_{name}": _qm9_entry(f"qm9_{name}", (name,), f"small molecules, only the target {name}")
        for name in QM9_TARGETS
    },
}
"""Rows of the visible table."""
