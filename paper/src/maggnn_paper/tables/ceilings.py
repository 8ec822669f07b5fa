"""What marks can distinguish without any training: BREC's pairs with k marks, and the speed of refining molecules.

Nothing is trained or drawn at random here, so one run is enough. Colour refinement is exact up to collisions of 64-bit
hashes.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

from maggnn.data import registry
from maggnn.theory.refinement import graph_hashes
from maggnn_paper.brec.ceiling import distinguished_by
from maggnn_paper.brec.pairs import CATEGORIES, pair_ids
from maggnn_paper.ledger import LedgerRow

MOST_MARKS = 2
MOLECULES = 10_000


def reproduce(folder: Path) -> list[LedgerRow]:
    """Rows of BREC's categories for 0, 1 and 2 marks, then the time that one mark takes on molecules of ZINC."""
    return [*(row for marks in range(MOST_MARKS + 1) for row in _pairs_of_brec(marks)), _time_of_molecules()]


def _pairs_of_brec(marks: int) -> list[LedgerRow]:
    graphs, every = registry.load("brec").graphs, pair_ids(["all"])["all"]
    began = time.perf_counter()
    told = distinguished_by(graphs, every, marks)
    seconds = time.perf_counter() - began
    return [
        LedgerRow(
            table="ceilings",
            dataset=f"brec_{name}",
            method="refinement",
            metric="pairs",
            mean=float(told[ids].sum()),
            k=marks,
            config="all copies of both graphs of a pair",
            note=f"of {len(ids)} pairs; all 400 in {seconds:.0f} s",
        )
        for name, ids in pair_ids(tuple(CATEGORIES)).items()
    ]


def _time_of_molecules() -> LedgerRow:
    molecules = registry.load("zinc").graphs.select(torch.arange(MOLECULES))
    began = time.perf_counter()
    hashes = graph_hashes(molecules, order=1).hashes
    milliseconds = 1000 * (time.perf_counter() - began)
    return LedgerRow(
        table="ceilings",
        dataset=f"zinc_{MOLECULES}",
        method="refinement",
        metric="ms",
        mean=round(milliseconds, 1),
        k=1,
        config="all copies with one mark",
        note=f"{60_000 * MOLECULES / milliseconds:,.0f} molecules a minute; {len(hashes.unique()):,} different ones",
    )
