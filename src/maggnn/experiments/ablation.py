"""What was tried on ZINC's validation part: base GNNs, structural encodings, readouts, starts and rewards.

Every variant is `configs/zinc.toml` with a few settings changed; the test part is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.config import Config
from maggnn.experiments.jobs import Job, run_jobs
from maggnn.experiments.ledger import LedgerRow
from maggnn.experiments.molecules import method_config
from maggnn.experiments.summary import score_row

FEATURES_ONLY = ("encoder.random_walk=0", "encoder.rings=false")
"""As in the paper: a network then needs its marks to see a ring."""

VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "gin": ("gin", ()),
    "random marks": ("random-marks", ()),
    "PRE": ("mag-gnn-pre", ()),
    "SIMUL": ("mag-gnn", ()),
    "features only, gin": ("gin", FEATURES_ONLY),
    "features only, random marks": ("random-marks", FEATURES_ONLY),
    "features only, PRE": ("mag-gnn-pre", FEATURES_ONLY),
    "features only, SIMUL": ("mag-gnn", FEATURES_ONLY),
    "no rings": ("random-marks", ("encoder.rings=false",)),
    "no random walk": ("random-marks", ("encoder.random_walk=0",)),
    "central starts": ("random-marks", ("agent.start=central",)),
    "one tuple": ("random-marks", ("agent.num_tuples=1",)),
    "no dropout": ("random-marks", ("encoder.dropout=0.0",)),
    "rate 8e-3": ("random-marks", ("training.learning_rate=8e-3",)),
}
"""By name: the method whose config it starts from, and what is set."""


def variant_config(name: str) -> Config:
    """The config of one variant."""
    method, settings = VARIANTS[name]
    return method_config("zinc", method).with_settings(settings)


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
        moves = 0 if method in ("gin", "random-marks") else own[0]["config"]["agent"]["num_moves"]
        steps = own[0]["config"]["training"]["predictor_steps"]
        note = f"{name}; validation part, {steps} steps; {' '.join(settings)}"
        dataset = "zinc_val:" + name.lower().replace(", ", ",").replace(" ", "-")
        rows.append(score_row("ablation", method, own, moves, "last", note, dataset))
    return rows
