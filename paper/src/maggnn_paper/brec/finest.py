"""The finest tuples of BREC's graphs (`maggnn.model.refined.finest`), found once for each, kept in a run's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from maggnn.data import registry
from maggnn.data.files import locked, whole_file
from maggnn.model.refined.copies import refine
from maggnn.model.refined.finest import finest_tuples
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.brec.rpc import RpcSettings


def with_finest(graphs: Pairs, pairs: Sequence[int], settings: RpcSettings, folder: Path) -> Pairs:
    """The same graphs with the m finest tuples of order k of each, `Pairs.marked` [P, 2, m, k].

    Args:
        graphs: as in the file (G = 2), before any relabelling.
        pairs: their numbers in BREC.
        settings: m and k.
        folder: of the run; tuples that an earlier job found are read from there.
    """
    m, k = settings.num_tuples, settings.tuple_order
    digest = hashlib.sha256(str(tuple(pairs)).encode()).hexdigest()[:8]
    path = folder / "finest" / f"k{k}-m{m}-{pairs[0]}-{digest}.safetensors"
    with locked(path.with_suffix(".lock")):  # jobs of other seeds ask for the same
        if not path.exists():
            with whole_file(path) as waiting:
                save_file({"tuples": _found(pairs, m, k)}, waiting)
    return replace(graphs, marked=load_file(path)["tuples"])


@cache
def alike_at_finest(pairs: tuple[int, ...], tuple_order: int) -> frozenset[int]:
    """Those of some of BREC's pairs whose two graphs have the same copy at their finest tuple.

    No model that reads this copy alone distinguishes them; another copy, or one mark more, may.
    """
    graphs = registry.load("brec").graphs
    tuples = _found(pairs, 1, tuple_order)  # [P, 2, 1, k]
    ids = 2 * torch.tensor(pairs)[:, None] + torch.arange(2)
    alike = [
        len(set(refine(graphs[own], tuple_of).hashes[:, 0].tolist())) == 1
        for own, tuple_of in zip(ids, tuples, strict=True)
    ]
    return frozenset(pair for pair, same in zip(pairs, alike, strict=True) if same)


def _found(pairs: Sequence[int], num_tuples: int, tuple_order: int) -> Tensor:
    """[P, 2, m, k]."""
    ids = (2 * torch.tensor(pairs)[:, None] + torch.arange(2)).flatten()
    return finest_tuples(registry.load("brec").graphs.select(ids), num_tuples, tuple_order).unflatten(0, (-1, 2))
