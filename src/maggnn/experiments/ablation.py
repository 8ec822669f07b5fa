"""What was tried on ZINC's validation part: base GNNs, structural encodings, readouts, starts and rewards.

Every variant is `configs/zinc.toml` with a few settings changed and half its steps; the test part is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.config import Config
from maggnn.experiments.jobs import Job, run_jobs
from maggnn.experiments.ledger import LedgerRow
from maggnn.experiments.molecules import method_config
from maggnn.experiments.summary import score_row

STEPS = 20_000

VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "weight decay 0.3": ("random-marks", ("training.weight_decay=0.3",)),
    "weight decay 1": ("random-marks", ("training.weight_decay=1.0",)),
    "dropout 0.1": ("random-marks", ("encoder.dropout=0.1",)),
    "weight decay 0.3, dropout 0.1": ("random-marks", ("training.weight_decay=0.3", "encoder.dropout=0.1")),
    "rate 8e-3": ("random-marks", ("training.learning_rate=8e-3",)),
    "twice the steps": ("random-marks", ("training.predictor_steps=40000",)),
    "PRE": ("mag-gnn-pre", ()),
    "PRE, reading the marked nodes": ("mag-gnn-pre", ("predictor.read_marked=true",)),
    "SIMUL": ("mag-gnn", ()),
}
"""By name: the method whose config it starts from, and what is set."""


def variant_config(name: str) -> Config:
    """The config of one variant."""
    method, settings = VARIANTS[name]
    config = method_config("zinc", method)
    steps = {"predictor_steps": STEPS, "agent_steps": STEPS if config.training.agent_steps else 0}
    return config.replaced(training=steps).with_settings(settings)


def jobs(runs: int, names: Sequence[str] = tuple(VARIANTS)) -> list[Job]:
    """One for each variant and run."""
    made = []
    for name in names:
        config = variant_config(name)
        for run in range(runs):
            own = config.replaced(runtime={"seed": run})
            marked = config.agent.tuple_order > 0
            made.append(Job("zinc", own, config.agent.num_moves, 5 if marked else 1, keep_model=True, part="val"))
    return made


def reproduce(folder: Path, runs: int = 1, workers: int = 1) -> list[LedgerRow]:
    """Run what is not in `folder` yet; one row a variant."""
    results = run_jobs(jobs(runs), folder, workers)
    rows = []
    for number, (name, (method, settings)) in enumerate(VARIANTS.items()):
        own = results[number * runs : (number + 1) * runs]
        moves = 0 if method != "mag-gnn" else own[0]["config"]["agent"]["num_moves"]
        note = f"{name}; validation part, {STEPS} steps; {' '.join(settings)}"
        dataset = "zinc_val:" + name.lower().replace(", ", ",").replace(" ", "-")
        rows.append(score_row("ablation", method, own, moves, "last", note, dataset))
    return rows
