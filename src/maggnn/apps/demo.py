"""The demo: two generated data sets, four methods and one picture, in less than three minutes on two cores."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from maggnn import config as configs
from maggnn.apps.draw.drawing import draw_walks_of
from maggnn.apps.terminal import tell
from maggnn.config import Config
from maggnn.errors import require
from maggnn.model.runtime import make_generator, pick_device
from maggnn.training.evaluate import TEST_SEED, evaluate
from maggnn.training.run import Trained, train

SETS = {"super graphs (Theorem 2)": "demo_supergraph1", "Shrikhande / rook (3-WL)": "demo_shrikhande_rook"}
PICTURE = "demo_supergraph1"
TESTS = 100


def run_demo(folder: Path) -> dict[str, Any]:
    """Train, test and draw. Returns the accuracies of all methods in percent, the seconds and the picture's path."""
    require("matplotlib")
    began = time.monotonic()
    accuracy, picture = {}, folder / "marks.png"
    for title, name in SETS.items():
        config = configs.load(name)
        tell(f"training on {config.data.name}")
        marked = train(config, folder / name, quiet=True)
        accuracy[title] = _accuracies(config, marked)
        if name == PICTURE:
            draw_walks_of(marked.model, config, marked.dataset, picture, graph_ids=[0, 1], seed=3)
    return {"accuracy": accuracy, "seconds": time.monotonic() - began, "picture": str(picture)}


def _accuracies(config: Config, marked: Trained) -> dict[str, float]:
    """Return the accuracies of a plain GIN and of the trained model without moves, after random and learned moves."""
    without_marks = _without_marks(config)
    plain = train(without_marks, quiet=True)
    moves = config.agent.num_moves
    random_moves = accuracies_after_moves(marked, config, TESTS, epsilon=1.0)
    return {
        "GIN": accuracies_after_moves(plain, without_marks, tests=1, epsilon=1.0)[0],
        "random marks": random_moves[0],
        f"random moves, t = {moves}": random_moves[moves],
        f"MAG-GNN, t = {moves}": accuracies_after_moves(marked, config, TESTS, epsilon=0.0)[moves],
    }


def _without_marks(config: Config) -> Config:
    """Return the settings of the same predictor with the same budget, but without marks (k = 0)."""
    return config.replaced(
        agent={"num_tuples": 1, "tuple_order": 0, "num_moves": 0, "keep": "last"},
        training={"agent_steps": 0, "starts_per_graph": 1},
    )


def accuracies_after_moves(trained: Trained, config: Config, tests: int, epsilon: float) -> list[float]:
    """Return the mean test accuracy in percent after 0, 1, ..., t moves; epsilon = 1 moves at random."""
    device = pick_device(config.runtime.device)
    graphs = trained.model.precomputed(trained.dataset.graphs.to(device))
    generator = make_generator(TEST_SEED + config.runtime.seed, device)
    moves, task = config.agent.num_moves, trained.dataset.task
    result = evaluate(trained.model, graphs, trained.split.test, task, moves, tests, epsilon, generator)
    return result.last.mean(dim=0).tolist()
