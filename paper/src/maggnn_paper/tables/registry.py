"""The visible table of what `maggnn-paper reproduce` can run, each a table or figure of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maggnn.errors import InputError, did_you_mean
from maggnn_paper.brec import reproduce as brec
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.pretraining import fine_tuning, weights
from maggnn_paper.tables import (
    ablation,
    baselines,
    ceilings,
    cycles,
    demo,
    families,
    learners,
    molecules,
    motivation,
    moves,
    own_loop,
    passes,
    pretrained_agents,
    relabelling,
    ring_targets,
    synthetic,
    theorem1,
    theorem2,
    training_time,
    zero_shot,
)

TABLES = {
    "synthetic": synthetic.reproduce,
    "moves": moves.reproduce,
    "passes": passes.reproduce,
    "theorem1": theorem1.reproduce,
    "theorem2": theorem2.reproduce,
    "ceilings": ceilings.reproduce,
    "families": families.reproduce,
    "zero_shot": zero_shot.reproduce,
    "relabelling": relabelling.reproduce,
    "motivation": motivation.reproduce,
    "brec": brec.reproduce,
    "cycles": cycles.reproduce,
    "edges": cycles.reproduce_edges,
    "credit": cycles.reproduce_credit,
    "molecules": molecules.reproduce,
    "qm9": molecules.reproduce_qm9,
    "ring_targets": ring_targets.reproduce,
    "transfer": molecules.reproduce_transfer,
    "ablation": ablation.reproduce,
    "learners": learners.reproduce,
    "agents": pretrained_agents.reproduce,
    "predictors": weights.reproduce,
    "pretraining": fine_tuning.reproduce,
    "training_time": training_time.reproduce,
    "demo": demo.reproduce,
    "own_loop": own_loop.reproduce,
}


ALONE = ("training_time", "theorem1", "ceilings", "families", "relabelling", "ring_targets", "demo", "own_loop")
"""Measured in one process: no workers to choose."""

ONCE = ("training_time", "theorem1", "ceilings", "families", "relabelling", "agents", "predictors")
"""Trained once: no runs to choose."""


def reproduce_table(
    name: str, folder: Path, runs: int | None, workers: int, rows: Sequence[str], methods: Sequence[str] = ()
) -> list[LedgerRow]:
    """Run table `name`; `runs` None means the table's own number, `rows` and `methods` empty mean all it has."""
    if name not in TABLES:
        raise InputError(f"no table {name!r}{did_you_mean(name, TABLES)}")
    options: dict[str, Any] = {}
    if name not in ALONE:
        options["workers"] = workers
    if name not in ONCE and runs is not None:
        options["runs"] = runs
    if rows:
        options |= _chosen_rows(name, rows)
    if methods:
        options["methods"] = _chosen_methods(name, methods)
    return TABLES[name](folder, **options)


def _chosen_methods(name: str, methods: Sequence[str]) -> Sequence[str]:
    choices = {
        "synthetic": ("gin", "random-marks", "mag-gnn", *baselines.METHODS),
        "moves": ("mag-gnn", *moves.VARIANTS),
        "brec": (*brec.METHODS, *baselines.METHODS),
        "cycles": ("gin", "mag-gnn", *baselines.METHODS),
        "edges": ("gin", "mag-gnn"),
        "molecules": (*molecules.METHODS, "central-marks", molecules.SHARED, "mag-gnn-dqn", *baselines.METHODS),
        "qm9": molecules.METHODS,
        "ring_targets": ring_targets.METHODS,
        "transfer": ("random-marks", "mag-gnn", *molecules.SOURCES),
        "passes": passes.METHODS,
        "families": tuple(dict.fromkeys((families.UNIVERSAL, *families.AGENTS))),
        "zero_shot": tuple(dict.fromkeys((families.UNIVERSAL, *families.AGENTS))),
        "learners": tuple(learners.LEARNERS),
        "pretraining": tuple(fine_tuning.VARIANTS),
        "ablation": tuple(name for variants in ablation.VARIANTS.values() for name in variants),
    }.get(name)
    if choices is None:
        raise InputError(f"table {name} has no choice of methods: leave --methods out")
    unknown = [method for method in methods if method not in choices]
    if unknown:
        raise InputError(f"table {name} cannot run {unknown[0]!r} alone: there are {'; '.join(choices)}")
    return methods


def _chosen_rows(name: str, rows: Sequence[str]) -> dict[str, Any]:
    if name == "brec":
        return {"datasets": rows}  # too many to list: it knows `basic:paper` and the like itself
    choices = {
        "synthetic": {dataset: dataset for dataset in synthetic.DATASETS},
        "moves": {dataset: dataset for dataset in moves.DATASETS},
        "passes": {dataset: dataset for dataset in passes.DATASETS},
        "theorem1": {f"regular{theorem1.DEGREE}_n{n}": n for n in theorem1.SIZES},
        "theorem2": {f"supergraph{n}": n for n in theorem2.SIZES},
        "families": {family: family for family in (*families.FAMILIES, families.IN_PARTS)},
        "zero_shot": {dataset: dataset for dataset in zero_shot.DATASETS},
        "demo": {row: row for row in (demo.TIME, *demo.SETS.values())},
        "cycles": {dataset: dataset for dataset in cycles.SETS},
        "edges": {dataset: dataset for dataset in cycles.EDGE_SETS},
        "molecules": {dataset: dataset for dataset in molecules.DATASETS},
        "qm9": {dataset: dataset for dataset in molecules.QM9_SETS},
        "ring_targets": {dataset: dataset for dataset in ring_targets.DATASETS},
        "transfer": {dataset: dataset for dataset in molecules.TRANSFERRED},
        "ablation": {dataset: dataset for dataset in ablation.VARIANTS},
        "pretraining": {name: name for name in fine_tuning.SETS},
        "agents": {name: name for name in (*pretrained_agents.RECIPES, *pretrained_agents.UNIVERSAL)},
    }.get(name)
    if choices is None:
        raise InputError(f"table {name} has a single row: leave --row out")
    unknown = [row for row in rows if row not in choices]
    if unknown:
        raise InputError(f"table {name} has no row {unknown[0]!r}: there are {', '.join(choices)}")
    return {"sizes" if name in ("theorem1", "theorem2") else "datasets": [choices[row] for row in rows]}
