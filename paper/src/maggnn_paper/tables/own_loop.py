"""The training loop of the tutorial `own_training_loop.md`: what its code reaches on SR25 with all of its steps.

The code is read from the page and executed as printed, with another number of steps and other seeds, so that the page
quotes figures of the very loop that it shows. The controls use the same predictor: random moves from the same starts,
and two that cost as many encoder passes as the agent, the most confident of the t + 1 states of a random walk and the
mean answer of t + 1 random starts.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator
from maggnn.model.saving import load_model, save_model
from maggnn.training.evaluate import evaluate
from maggnn_paper.jobs.job import mean_of
from maggnn_paper.ledger import LedgerRow

PAGE = Path(__file__).resolve().parents[4] / "docs" / "tutorials" / "own_training_loop.md"
TESTS = 100
MOVES = 2


def reproduce(folder: Path, runs: int = 5) -> list[LedgerRow]:
    """Accuracy after 0, 1 and 2 moves of agents and random moves, and of the mean of 3 starts, over `runs` seeds."""
    folder.mkdir(parents=True, exist_ok=True)
    trained = [_trained(folder / f"own_loop-{seed}.safetensors", seed) for seed in range(runs)]
    models, seconds = [model for model, _ in trained], [taken for _, taken in trained]
    rows = []
    for method, epsilon in (("random-moves", 1.0), ("mag-gnn", 0.0)):
        found = [_accuracies(model, epsilon, seed) for seed, model in enumerate(models)]
        for keep in ("last", "confident"):
            scores = torch.stack([one[keep] for one in found])  # [runs, t + 1]
            rows += [_row(method, keep, moves, scores[:, moves], models[0], seconds) for moves in range(MOVES + 1)]
    means = torch.stack([_mean_of_starts(model, seed) for seed, model in enumerate(models)])
    return [*rows, _row("random-marks", mean_of(MOVES + 1), 0, means, models[0], seconds)]


def loop_code(page: str, steps: int | None = None, seed: int = 0) -> str:
    """The first block of Python on the page, which trains a model.

    Args:
        page: The text of the page.
        steps: In place of the page's own number of steps; by default the number that the page names for the whole run.
        seed: In place of the page's own seed.
    """
    code = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0]
    named = re.search(r"^steps = [\d_]+  # ([\d_]+) ", code, re.MULTILINE)
    if named is None:
        raise InputError(f"{PAGE.name}: its first block sets `steps` and names the whole number in a comment")
    code = re.sub(r"^steps = [\d_]+", f"steps = {named[1] if steps is None else steps}", code, flags=re.MULTILINE)
    return code.replace("torch.manual_seed(0)", f"torch.manual_seed({seed})")


def _trained(path: Path, seed: int) -> tuple[MagGNN, float | None]:
    """The model of a seed and the seconds of its training; a file that is there is read again."""
    if path.exists():
        return load_model(path)[0], None
    namespace: dict[str, Any] = {"__name__": PAGE.stem}
    began = time.monotonic()
    exec(compile(loop_code(PAGE.read_text(encoding="utf-8"), seed=seed), str(PAGE), "exec"), namespace)
    taken = time.monotonic() - began
    save_model(path, namespace["model"])
    return namespace["model"], taken


def _accuracies(model: MagGNN, epsilon: float, seed: int) -> dict[str, Tensor]:
    """In percent after 0, 1, ... moves, mean over tests, by keep rule."""
    packed = registry.load("sr25").graphs
    generator = make_generator(1_000 + seed)
    result = evaluate(
        model.eval(), packed, torch.arange(len(packed)), "classification", MOVES, TESTS, epsilon, generator
    )
    assert result.confident is not None
    return {"last": result.last.mean(dim=0), "confident": result.confident.mean(dim=0)}


def _mean_of_starts(model: MagGNN, seed: int) -> Tensor:
    """In percent, the accuracy of the mean answer of t + 1 random starts, mean over tests."""
    packed = registry.load("sr25").graphs
    ids, generator = torch.arange(len(packed)), make_generator(1_000 + seed)
    return evaluate(model.eval(), packed, ids, "classification", 0, TESTS, 1.0, generator, starts=MOVES + 1).last.mean()


def _row(method: str, keep: str, moves: int, scores: Tensor, model: MagGNN, seconds: list[float | None]) -> LedgerRow:
    agent = model.agent
    known = [taken for taken in seconds if taken is not None]
    # Each move of the agent is a pass of the Q-network; the most confident state needs the predictor at every state.
    answers = {"last": 1, "confident": moves + 1}.get(keep, MOVES + 1)
    return LedgerRow(
        table="own_loop",
        dataset="sr25",
        method=method,
        metric="accuracy",
        mean=round(float(scores.mean()), 4),
        std=round(float(scores.std()), 4) if len(scores) > 1 else None,
        runs=len(scores),
        tests_per_run=TESTS,
        m=agent.num_tuples,
        k=agent.tuple_order,
        t=moves,
        keep=keep,
        marking=model.predictor.encoder.config.marking,
        passes=agent.num_tuples * (answers + (moves if method == "mag-gnn" else 0)),
        params=sum(weight.numel() for weight in model.parameters()),
        train_s=round(sum(known) / len(known), 1) if known else None,
        config="docs/tutorials/own_training_loop.md",
        note=f"least of {len(scores)} runs: {float(scores.min()):.2f}",
    )
