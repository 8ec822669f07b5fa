"""Theorem 2, executable: on super graphs the agent needs one move where random moves need about 4n - 1.

The task: is each block's direct opposite of the same type (positive) or of the other (negative)? Only tuples whose two
marks lie on opposite blocks are informative. For n >= 3 the tested sequences are of classes never seen in training.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.data.synthetic.expressivity import BLOCK_NODES
from maggnn.model.agent import epsilon_greedy
from maggnn.model.runtime import make_generator, pick_device
from maggnn.model.saving import load_model
from maggnn.model.state import State
from maggnn.training.evaluate import TEST_SEED
from maggnn_paper.jobs.job import Job, Result, run_jobs
from maggnn_paper.jobs.summary import least_of_runs, score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe

SIZES = (2, 3, 4)
TESTS = 50
MAX_MOVES = 8
LONGEST_WALK = 200
"""Walks are followed this far to find out how many moves they need; one that never arrives counts this many."""


def jobs(n: int, runs: int) -> list[Job]:
    """One training for each run; the run's seed also chooses the classes held out."""
    name = f"supergraph{n}"
    config = recipe(name)
    seeded = [config.replaced(runtime={"seed": run}, data={"split_seed": run}) for run in range(runs)]
    return [Job(name, one, max_moves=MAX_MOVES, tests=TESTS, keep_model=True) for one in seeded]


def reproduce(folder: Path, runs: int = 10, workers: int = 1, sizes: Sequence[int] = SIZES) -> list[LedgerRow]:
    """Rows of all sizes: accuracy after 0, 1, 2, ... moves and the number of moves until the marks lie opposite."""
    rows = []
    for n in sizes:
        todo = jobs(n, runs)
        results = run_jobs(todo, folder, workers)
        for moves in range(MAX_MOVES + 1):
            for method in ("random-moves", "mag-gnn"):
                note = least_of_runs(results, method, moves)
                rows.append(score_row("theorem2", method, results, moves, note=note))
        rows += [moves_row(method, todo, results, folder) for method in ("random-moves", "mag-gnn")]
    return rows


def moves_row(method: str, todo: Sequence[Job], results: Sequence[Result], folder: Path) -> LedgerRow:
    """How many moves a walk takes until its marks lie on opposite blocks, mean over walks and runs."""
    needed = torch.stack([moves_needed(job, method, folder) for job in todo])
    base = score_row("theorem2", method, results, moves=0)
    n = int(base.dataset.removeprefix("supergraph"))
    note = f"4n - 1 = {4 * n - 1}; walks followed for {LONGEST_WALK} moves, starts on opposite blocks count as 0"
    changes = {
        "metric": "moves",
        "mean": round(float(needed.mean()), 4),
        "std": round(float(needed.std()), 4) if len(needed) > 1 else None,
        "tests_per_run": TESTS,
        "t": None,
        "note": note,
    }
    return LedgerRow(**{**base.__dict__, **changes})


def moves_needed(job: Job, method: str, folder: Path) -> Tensor:
    """Mean first time at which the marks of a kept model's walks lie opposite, over `TESTS` walks a test graph."""
    model, config = load_model(folder / job.name / "model.safetensors")
    device = pick_device(config.runtime.device)
    dataset = registry.load(config.data.name)
    ids = dataset.split(config.data.split_seed, config.data.fold).test.repeat(TESTS)
    graphs = dataset.graphs.to(device)[ids]
    generator = make_generator(TEST_SEED + config.runtime.seed, device)
    epsilon = 1.0 if method == "random-moves" else 0.0
    state = model.to(device).walk(graphs, num_moves=0, generator=generator)[0]
    arrived = opposite(state)
    needed = torch.zeros(len(arrived), dtype=torch.float64, device=device)
    for _ in range(LONGEST_WALK):
        if bool(arrived.all()):
            break
        needed += ~arrived
        _, state = epsilon_greedy(model.scores, state, config.agent.actions, epsilon, generator)
        arrived = arrived | opposite(state)
    return needed.mean().cpu()


def opposite(state: State) -> Tensor:
    """Whether a tuple's two marks lie on opposite blocks, [B]."""
    block = state.tuples[:, 0] // BLOCK_NODES  # [B, 2]
    num_blocks = state.graphs.num_nodes // BLOCK_NODES
    return (block[:, 0] - block[:, 1]) % num_blocks == num_blocks // 2
