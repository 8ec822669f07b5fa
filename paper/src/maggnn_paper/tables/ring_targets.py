"""Errors on the molecules of ZINC whose target is determined: models that are kept in a folder are tested again.

A few molecules have a target that depends on the order in which their atoms were written
(`maggnn_paper.datasets.ring_targets`). No model can predict it, and an error there may exceed 20 where the mean error
is .03. Rows are of the table `molecules`, and their data set is named `zinc_full:determined`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator, pick_device
from maggnn.model.saving import load_model
from maggnn.training.evaluate import TEST_SEED, evaluate
from maggnn_paper.datasets.ring_targets import undetermined
from maggnn_paper.jobs.job import Job
from maggnn_paper.jobs.side_by_side import Result
from maggnn_paper.jobs.summary import paired_note, run_means, score_row
from maggnn_paper.ledger import LedgerRow, commit_name, hardware_name, torch_version
from maggnn_paper.tables import molecules

DATASETS = tuple(name for name in molecules.DATASETS if name.startswith("zinc"))
METHODS = ("random-marks", "mag-gnn", "mag-gnn-pre")
TESTS = 3


def reproduce(
    folder: Path, runs: int = 1, datasets: Sequence[str] = DATASETS, methods: Sequence[str] = METHODS
) -> list[LedgerRow]:
    """Test the models that `maggnn-paper reproduce molecules` kept in `folder`, without training any.

    Args:
        folder: results of jobs and their models; methods without a model there have no row.
        runs: the first so many runs.
        datasets: rows of the table of molecules.
        methods: who placed the marks.
    """
    rows: list[LedgerRow] = []
    for dataset in datasets:
        jobs = {method: molecules.method_jobs(dataset, method, runs) for method in methods}
        kept = {method: [job for job in own if _model(job, folder).exists()] for method, own in jobs.items()}
        if any(kept.values()):
            rows += _rows({method: own for method, own in kept.items() if own}, folder)
    if not rows:
        raise InputError(f"{folder} has no model of {', '.join(methods)}: run maggnn-paper reproduce molecules before")
    return rows


def _model(job: Job, folder: Path) -> Path:
    return folder / job.name / "model.safetensors"


def _rows(kept: dict[str, list[Job]], folder: Path) -> list[LedgerRow]:
    """One row for each method, of the same molecules."""
    config = next(iter(kept.values()))[0].config
    dataset = registry.load(config.data.name)
    test = dataset.split(config.data.split_seed, config.data.fold).test
    unclear = undetermined(dataset.graphs, test)
    name = f"{config.data.name}:determined"
    rows = []
    for method, jobs in kept.items():
        results = [_tested(job, folder, dataset.graphs, test, unclear) for job in jobs]
        moves = 0 if method == "random-marks" else jobs[0].max_moves
        own, others = (run_means(results, method, keep)[:, moves] for keep in ("last", "undetermined"))
        note = f"{int((~unclear).sum())} of {len(test)} test molecules; "
        if unclear.any():
            note += f"on the others, whose target depends on the order of their atoms, {float(others.mean()):.4f}; "
        note += f"trained on {results[0]['trained_on']}, tests ran here"
        if method != "random-marks":
            random = run_means(results, "random-moves", "last")[:, moves]
            note += f"; against random moves in the same predictor {paired_note(own, random)}"
        row = score_row("molecules", method, results, moves, "last", note, name)
        rows.append(replace(row, train_s=None, infer_ms=None, peak_mb=None))  # of the machine that trained
    return rows


def _tested(job: Job, folder: Path, packed: PackedGraphs, test: Tensor, unclear: Tensor) -> Result:
    """Return a job's result with scores on molecules whose target is determined (`last`) and on the others."""
    result = json.loads((folder / f"{job.name}.json").read_text())
    model, _ = load_model(_model(job, folder))
    device = pick_device(job.config.runtime.device)
    packed = model.to(device).precomputed(packed.to(device))
    parts = {"last": test[~unclear], "undetermined": test[unclear]}
    scores = {
        policy: {keep: _scores(model, packed, ids, job, epsilon) for keep, ids in parts.items()}
        for policy, epsilon in (("mag-gnn", 0.0), ("random-moves", 1.0))
    }
    here = {"hardware": hardware_name(), "torch": torch_version(), "commit": commit_name()}
    return result | here | {"scores": scores, "trained_on": result["hardware"]}


def _scores(model: MagGNN, packed: PackedGraphs, ids: Tensor, job: Job, epsilon: float) -> list[list[float]]:
    if not len(ids):
        return [[float("nan")] * (job.max_moves + 1)]
    generator = make_generator(TEST_SEED + job.config.runtime.seed, packed.device)
    with torch.no_grad():
        seen = evaluate(model, packed, ids, "regression", job.max_moves, TESTS, epsilon, generator)
    return seen.last.tolist()
