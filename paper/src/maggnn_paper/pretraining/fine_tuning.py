"""What initial weights and marks contribute to `maggnn fit`: variants of its networks on practice tables.

    random       random initial weights; the agent moves the marks, from the most central atoms
    pretrained   the initial weights of the package
    central      as random, but the marks stay on the most central atoms
    unmarked     as random, but without marks: a plain GNN

Nothing is tested here. The errors are those of the out-of-fold predictions of the training and validation rows, from
which `maggnn fit` chooses the weights of its parts, so the test splits of the practice tables stay unread. Networks
have the same seeds and otherwise the same settings. `own_config` takes the initial weights only where they helped here.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maggnn.apps.fit.blend import NETWORK, WITH_DESCRIPTORS
from maggnn.apps.fit.card.metrics import number_metrics, two_class_metrics
from maggnn.apps.fit.ensemble import OutOfFold, fit_blend, fold_set
from maggnn.apps.fit.fitting import learned_folds, table_facts
from maggnn.apps.fit.own_settings import INITIAL_WEIGHTS, own_config
from maggnn.apps.fit.own_table import OwnTable, read_own_table
from maggnn.data.files import whole_file
from maggnn.errors import InputError
from maggnn_paper.bench.practice_sets import SETS, TARGET, PracticeSet
from maggnn_paper.bench.rows import mean_row
from maggnn_paper.ledger import LedgerRow, commit_name

TABLE = "pretraining"
RANDOM = {"training": {"initial_weights": ""}}
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "random": RANDOM,
    "pretrained": {"training": {"initial_weights": INITIAL_WEIGHTS}},
    "central": {**RANDOM, "agent": {"num_moves": 0}},
    "unmarked": {
        "training": {"initial_weights": "", "paradigm": "ord"},
        "agent": {"tuple_order": 0, "num_moves": 0, "pretrained": ""},
    },
}
"""The settings that differ from those of `maggnn fit`, by section."""

METHODS = {NETWORK: "networks", WITH_DESCRIPTORS: "network+descriptors", "blend": "blend"}
CHOSEN = (
    "zinc-qed-300", "zinc-soluble-300", "qm9-gap-600", "molhiv-active-600", "zinc-plogp-1000", "qm7-1000",
    "clintox-1478", "sider-1427",
)  # fmt: skip
FOLDS = 5

Scores = dict[str, dict[str, float]]
"""Of each method each metric, in the ledger's units."""


def reproduce(
    folder: Path, runs: int = 2, workers: int = 2, datasets: Sequence[str] = CHOSEN, methods: Sequence[str] = ()
) -> list[LedgerRow]:
    """Fit what is not in `folder` yet, and return the means over `runs` random splits.

    Args:
        datasets: names of practice sets.
        methods: of `VARIANTS`; all if none are given.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name in datasets:
        if name not in SETS:
            raise InputError(f"no practice set {name!r}: there are {', '.join(SETS)}")
        for variant in methods or VARIANTS:
            found = [_measured(folder, SETS[name], seed, variant, workers) for seed in range(runs)]
            rows += _rows(name, variant, [cell["scores"] for cell in found], sorted({cell["commit"] for cell in found}))
    return rows


def _measured(folder: Path, one: PracticeSet, seed: int, variant: str, workers: int) -> dict[str, Any]:
    """Return the scores of one split, from their file if it was measured before."""
    path = folder / f"{one.name}-{seed}-{variant}.json"
    if not path.exists():
        cell = {"scores": out_of_fold(one, seed, VARIANTS[variant], workers), "commit": commit_name()}
        with whole_file(path) as waiting:
            waiting.write_text(json.dumps(cell, indent=1) + "\n", encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def out_of_fold(one: PracticeSet, seed: int, changes: Mapping[str, Mapping[str, Any]], workers: int) -> Scores:
    """Fit the parts of a blend to a practice table as `maggnn fit` does, and return their out-of-fold scores.

    Args:
        changes: settings to replace, by section.
    """
    with tempfile.TemporaryDirectory() as name:
        own = read_own_table(one.write(Path(name) / "table.csv"), "smiles", [TARGET], one.task, "random", seed, workers)
        folds = learned_folds(own, FOLDS, seed)
        config = own_config(fold_set(own.dataset, folds, 0), seed).replaced(**changes)
        facts, folder = table_facts(own, "smiles"), Path(name) / "training"
        found = fit_blend(own.dataset, facts, config, folds, own.table.canonical, folder, workers, quiet=False)[1]
    return _scores(own, found)


def _scores(own: OwnTable, found: OutOfFold) -> Scores:
    y = own.dataset.y.numpy()[found.rows]
    scores = {}
    for part, name in METHODS.items():
        answers = found.answers if part == "blend" else found.parts[part]
        if own.dataset.task == "regression":
            values = number_metrics(y[:, 0], answers[:, 0])
            scores[name] = {"mae": values["mae"], "rmse": values["rmse"]}
        else:
            values = two_class_metrics(y, answers[:, 1])
            scores[name] = {"auroc": 100 * values["roc_auc"]}
    return scores


def _rows(dataset: str, variant: str, found: Sequence[Scores], commits: Sequence[str]) -> list[LedgerRow]:
    note = f"out-of-fold predictions of the training and validation rows; measured at {', '.join(commits)}"
    return [
        mean_row(TABLE, dataset, f"{variant}-{method}", metric, [scores[method][metric] for scores in found], note)
        for method, metrics in found[0].items()
        for metric in metrics
    ]
