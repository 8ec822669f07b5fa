"""The visible table of what `maggnn-paper bench` can measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from maggnn.errors import InputError, did_you_mean
from maggnn.model.named_encoders import baseline_type
from maggnn.model.runtime import pick_device
from maggnn_paper.bench import (
    chemist,
    chemprop,
    devices,
    faults,
    floor,
    inference,
    mapped,
    markings,
    motifs,
    packed,
    people,
    predict,
    predict_gpu,
    right_answers,
    scaling,
    screen,
    serve,
    train,
    workers,
)
from maggnn_paper.ledger import LedgerRow

ROWS_CHOSEN = {
    "people": people, "predict": predict, "motifs": motifs, "screen": screen, "serve": serve, "faults": faults,
    "workers": workers,
    "mapped": mapped,
}  # fmt: skip
"""Benches that take a number of rows and nothing else."""

ON_A_DEVICE = {"packed": packed, "predict-gpu": predict_gpu}
"""Benches that take a device and a number of molecules."""

BENCHES = (
    "inference",
    "markings",
    "floor",
    "train",
    "devices",
    "scaling",
    *ON_A_DEVICE,
    *ROWS_CHOSEN,
    "chemist",
    *right_answers.PARTS,
)
OF_ONE_SIZE = (
    "train",
    "devices",
    "scaling",
    *(name for name in right_answers.PARTS if name not in right_answers.SIZED),
)


def run_bench(
    name: str,
    device: str,
    limit: int | None,
    memory_mb: float,
    tell: Callable[[str], None] = print,
    methods: Sequence[str] = (),
    sets: Sequence[str] = (),
) -> list[LedgerRow]:
    """Measure bench `name`.

    Args:
        tell: is called with each line of progress.
        methods: baselines that `inference` times as well, or programs with which `chemist` compares.
        sets: practice sets of `chemist`; all if none are given.
    """
    if name not in BENCHES:
        raise InputError(f"no bench {name!r}{did_you_mean(name, BENCHES)}")
    if limit is not None and name in OF_ONE_SIZE:
        raise InputError(f"bench {name} chooses its own sizes: leave --limit out")
    if sets and name != "chemist":
        raise InputError(f"bench {name} has no practice sets: leave --set out")
    chemist.check_sets(sets)
    if limit == 0 and name != "chemist":
        raise InputError(f"bench {name}: --limit 0 leaves nothing to measure")
    _check_methods(name, methods)
    place = pick_device(device)
    if name == "inference":
        return inference.bench(device=place, limit=limit, memory_mb=memory_mb, tell=tell, methods=methods)
    if name == "markings":
        return markings.bench(place, limit, memory_mb, tell=tell)
    if name == "floor":
        return floor.bench(place, memory_mb, limit=limit or floor.NUM_GRAPHS, tell=tell)
    if name in ON_A_DEVICE:
        return ON_A_DEVICE[name].bench(place, limit, tell)
    if name in ROWS_CHOSEN:
        return ROWS_CHOSEN[name].bench(limit, tell)
    if name == "chemist":
        return chemist.bench(limit, tell, sets=sets, methods=methods)
    if name in right_answers.PARTS:
        return right_answers.bench(name, limit, tell)
    if name == "devices":
        return devices.bench(place, tell)
    if name == "train":
        return train.bench(device=place, tell=tell)
    return scaling.bench(place, memory_mb=memory_mb, tell=tell)


def _check_methods(name: str, methods: Sequence[str]) -> None:
    """Complain about an unknown method before anything is measured."""
    if methods and name not in ("inference", "chemist"):
        raise InputError(f"bench {name} has no baselines: leave --methods out")
    for method in methods:
        if name == "inference":
            baseline_type(method)
        elif method != chemprop.NAME:
            raise InputError(f"bench chemist compares with no program {method!r}: there is {chemprop.NAME}")
