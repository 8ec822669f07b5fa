"""The pretrained agents of the package: trained, tested, and saved with the row that evaluates them.

Most of them learn on one data set, by ORD. Those of `UNIVERSAL` are trained on the graphs of a curriculum and evaluated
on families that it excludes (`maggnn_paper.universal`). The agent `any`, the first of that kind, was trained by two
jobs in turn ("one-core", then "one-core-slow" from its weights) and is not trained here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from maggnn.model.pretrained import AGENT_FOLDER, save_agent
from maggnn.model.saving import load_model
from maggnn_paper.jobs.job import Job, run_jobs
from maggnn_paper.jobs.summary import score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe
from maggnn_paper.tables import families
from maggnn_paper.universal.jobs import AGENT, UniversalJob, run_universal

RECIPES = {"cycles3": "cycle3", "cycles6": "cycle6", "sr25": "sr25_pair", "rings": "zinc_rings"}
TESTS = {"cycles3": 10, "cycles6": 10, "sr25": 100, "rings": 10}
_DIRECTED = ("encoder.conv=gine", "encoder.marking=directed")
CANDIDATES: dict[str, tuple[str, tuple[str, ...]]] = {
    "rings_binary": ("zinc_rings", ("encoder.conv=gin", "encoder.marking=binary")),
    "rings_distance": ("zinc_rings", ("encoder.conv=gin", "encoder.marking=distance")),
    "rings_one": ("zinc_rings", ("agent.tuple_order=1", "agent.num_tuples=4")),
    "rings_four": ("zinc_rings", ("agent.num_tuples=4",)),
    "cycles6_directed": ("cycle6", (*_DIRECTED, "predictor.read_marked=true")),
    "cycles6_distance": ("cycle6", ("encoder.marking=distance", "predictor.read_marked=true")),
}
"""Agents that were tried and are not in the package: the recipe and what is set."""

UNIVERSAL = {"colours": UniversalJob("one-core-colours", seconds=1140.0, workers=0, device="cpu")}
"""Agents that are trained on the curriculum; they take so long that they are trained only where they are named."""


def agent_jobs(names: Sequence[str] = tuple(RECIPES)) -> list[Job]:
    """One training for each agent."""
    made = []
    for name in names:
        source, settings = CANDIDATES.get(name, (RECIPES.get(name, ""), ()))
        config = recipe(source).with_settings(settings)
        made.append(Job(source, config, config.agent.num_moves, TESTS.get(name, 10), keep_model=True))
    return made


def reproduce(
    folder: Path, workers: int = 1, agents: Path | None = None, datasets: Sequence[str] = tuple(RECIPES)
) -> list[LedgerRow]:
    """Train what is not in `folder` yet and save the agents, in the package unless `agents` names another folder.

    Rows: each agent on its own data set after its moves, with random moves and with no move for comparison; agents of
    `UNIVERSAL` on all families.

    Args:
        datasets: the agents to train, by name.
    """
    target = AGENT_FOLDER if agents is None else agents
    rows = [row for name in datasets if name in UNIVERSAL for row in _universal(name, folder, target)]
    own = [name for name in datasets if name not in UNIVERSAL]
    jobs = agent_jobs(own)
    for name, job, result in zip(own, jobs, run_jobs(jobs, folder, workers), strict=True):
        table = "cycles" if name.startswith("cycles") else "moves"
        moves = job.config.agent.num_moves
        row = score_row(table, "mag-gnn", [result], moves, note=f"the agent {name} on its own data set")
        rows.append(row)
        for control, after in (("random-moves", moves), ("random-marks", 0)):
            rows.append(
                score_row(table, control, [result], after, note=f"the predictor that agent {name} learned from")
            )
        model, config = load_model(folder / job.name / "model.safetensors")
        save_agent(target / f"{name}.safetensors", model, config, json.loads(row.to_json()))
    return rows


def _universal(name: str, folder: Path, target: Path) -> list[LedgerRow]:
    """Train an agent on the curriculum, judge it on the families and save it."""
    job, judged = UNIVERSAL[name], folder / f"{name}.safetensors"
    run_universal(job, folder)
    shutil.copyfile(folder / job.name / AGENT, judged)
    rows = families.reproduce(folder, families.FAMILIES, (name,))  # writes the agent anew, with its row
    shutil.copyfile(judged, target / judged.name)
    return rows
