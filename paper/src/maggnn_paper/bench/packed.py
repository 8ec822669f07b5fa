"""How fast a device predicts from packed graphs, without RDKit, with the default network of `maggnn fit`.

    packed          graphs in the memory of the host: copied, structural features computed, predicted
    packed-ready    the same graphs on the device with their structural features, predicted again

Time does not depend on the weights, so the predictor is untrained. The molecules are ZINC-FULL's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from maggnn.apps.fit.own_settings import own_config
from maggnn.data import registry
from maggnn.inference.engine import Engine
from maggnn.training.paradigms import make_model
from maggnn_paper.bench.rows import milliseconds_row
from maggnn_paper.bench.timing import median_ms
from maggnn_paper.ledger import LedgerRow

REPEATS, WARM_UP = 5, 3


def bench(device: torch.device, limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """Rows of the table `people`, in milliseconds for 1,000 molecules.

    Args:
        limit: molecules; all of ZINC-FULL if not given.
        tell: is called with one line for each row.
    """
    dataset = registry.load("zinc_full")
    graphs = dataset.graphs if limit is None else dataset.graphs.select(torch.arange(min(limit, len(dataset.graphs))))
    engine = Engine(make_model(own_config(dataset, predictor_steps=1), dataset), device)
    ready = engine.precomputed(graphs)
    rows = []
    for name, what in (("packed", graphs), ("packed-ready", ready)):
        took = median_ms(partial(engine.predict, what), device, REPEATS, WARM_UP)
        rate = 1000 * len(graphs) / took
        note = f"{rate:,.0f} molecules a second, {len(graphs)} of ZINC-FULL; {device.type}, float32"
        rows.append(milliseconds_row(f"predict-{name}", 1000 * took / len(graphs), note))
        tell(f"{name:14} {rows[-1].mean:8.3f} ms for 1,000 molecules  {note}")
    return rows
