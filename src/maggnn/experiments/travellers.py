"""The agents that come with the package: trained by ORD on bare graphs, tested at home, saved with that row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from maggnn.experiments.jobs import Job, run_jobs
from maggnn.experiments.ledger import LedgerRow
from maggnn.experiments.recipes import recipe
from maggnn.experiments.summary import score_row
from maggnn.training.checkpoint import load_model
from maggnn.training.pretrained import AGENTS, save_agent

RECIPES = {"cycles3": "cycle3", "cycles6": "cycle6", "sr25": "sr25_pair"}
TESTS = {"cycles3": 10, "cycles6": 10, "sr25": 100}


def agent_jobs(names: Sequence[str] = AGENTS) -> list[Job]:
    """One training an agent."""
    configs = {name: recipe(RECIPES[name]) for name in names}
    return [
        Job(RECIPES[name], config, config.agent.num_moves, TESTS[name], keep_model=True)
        for name, config in configs.items()
    ]


def reproduce(folder: Path, workers: int = 1, agents: Path | None = None) -> list[LedgerRow]:
    """Train what is not in `folder` yet and save the agents, in the package unless `agents` names another folder.

    Rows: each agent at home after its moves, beside random moves and no move.
    """
    jobs = agent_jobs()
    target = Path(__file__).parents[1] / "agents" if agents is None else agents
    rows: list[LedgerRow] = []
    for name, job, result in zip(AGENTS, jobs, run_jobs(jobs, folder, workers), strict=True):
        table = "moves" if name == "sr25" else "cycles"
        moves = job.config.agent.num_moves
        row = score_row(table, "mag-gnn", [result], moves, note=f"the agent {name} at home")
        rows.append(row)
        for control, after in (("random-moves", moves), ("random-marks", 0)):
            rows.append(score_row(table, control, [result], after, note=f"the predictor that agent {name} learned in"))
        model, config = load_model(folder / job.name / "model.safetensors")
        save_agent(target / f"{name}.safetensors", model, config, json.loads(row.to_json()))
    return rows
