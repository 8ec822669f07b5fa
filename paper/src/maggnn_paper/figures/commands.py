"""Figures of the paper from a run folder: what `maggnn-paper figure` draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from maggnn.apps.draw.drawing import draw_walks_of
from maggnn.config import Config
from maggnn.data import registry
from maggnn.data.registry import Dataset
from maggnn.errors import InputError, did_you_mean
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.runtime import make_generator
from maggnn.model.saving import load_model
from maggnn.training.evaluate import TEST_SEED, evaluate
from maggnn.training.progress import read_log
from maggnn_paper import ledger
from maggnn_paper.figures.curves import plot_accuracy_against_moves, plot_reward, reward_curve
from maggnn_paper.figures.learners import draw_learners
from maggnn_paper.figures.passes import draw_passes
from maggnn_paper.figures.scores import plot_sorted_scores, sorted_scores
from maggnn_paper.figures.screening import draw_screening

MAX_MOVES = 8
TESTS = 20


def draw(what: str, run: Path, path: Path, graph_ids: Sequence[int], seed: int) -> None:
    """Draw figure `what` of the run in folder `run` (of the ledger `run` where the figure needs no more) to `path`."""
    if what == "reward":
        draw_reward(run, path)
        return
    if what in FROM_LEDGER:
        if not run.is_file():
            raise InputError(f"{run}: no such ledger")
        for line in FROM_LEDGER[what](ledger.read(run), path) or ():
            print(line)
        return
    if what not in FIGURES:
        raise InputError(f"no figure {what!r}{did_you_mean(what, [*FIGURES, 'reward', *FROM_LEDGER])}")
    model, config = load_model(run / "model.safetensors")
    if model.q_network is None and what != "scores":
        raise InputError(f"{run}: a plain GNN (k = 0) has no moves to draw")
    dataset = registry.load(config.data.name)
    outside = [number for number in graph_ids if not 0 <= number < len(dataset.graphs)]
    if outside:
        raise InputError(f"--graph {outside[0]}: {dataset.name} has graphs 0 to {len(dataset.graphs) - 1}")
    FIGURES[what](model, config, dataset, path, graph_ids, seed)


def draw_reward(run: Path, path: Path) -> None:
    """Appendix figure 'Reward increases over time'."""
    log = read_log(run)
    if not any("agent/reward" in entry for entry in log):
        raise InputError(f"{run}: no logged rewards; train an agent into this folder first")
    plot_reward(reward_curve(log), path)


def draw_scores(
    model: MagGNN, config: Config, dataset: Dataset, path: Path, graph_ids: Sequence[int], seed: int
) -> None:
    """Motivation figure 'Sorted scores': every marked graph of every test graph, at most 15 of them."""
    ids = dataset.split(config.data.split_seed, config.data.fold).test[:15]
    plot_sorted_scores(sorted_scores(model, dataset.graphs, ids), path)


def draw_moves(
    model: MagGNN, config: Config, dataset: Dataset, path: Path, graph_ids: Sequence[int], seed: int
) -> None:
    """Figure 'Performance versus the number of RL steps', beside random moves."""
    ids = dataset.split(config.data.split_seed, config.data.fold).test
    series = {}
    for name, epsilon in (("MAG-GNN", 0.0), ("random moves", 1.0)):
        generator = make_generator(TEST_SEED + seed)
        task, metric = dataset.task, dataset.metric
        result = evaluate(model, dataset.graphs, ids, task, MAX_MOVES, TESTS, epsilon, generator, metric=metric)
        spread = result.last.std(dim=0) / TESTS**0.5  # of the mean: single tests of few graphs scatter by counting
        series[name] = (result.last.mean(dim=0), spread)
    plot_accuracy_against_moves(series, path, title=f"{METRIC_NAMES[dataset.metric]} against moves, {dataset.name}")


def draw_walks(
    model: MagGNN, config: Config, dataset: Dataset, path: Path, graph_ids: Sequence[int], seed: int
) -> None:
    """Figures of the Shrikhande and rook graphs and of an EXP graph: where the marks went."""
    draw_walks_of(model, config, dataset, path, graph_ids, seed)


METRIC_NAMES = {"accuracy": "Accuracy", "auroc": "Area under the ROC curve", "mae": "Mean absolute error"}

Draw = Callable[[MagGNN, Config, Dataset, Path, Sequence[int], int], None]
FIGURES: dict[str, Draw] = {"scores": draw_scores, "moves": draw_moves, "trajectory": draw_walks}
"""By the name that `maggnn-paper figure` uses; `reward` needs only the log."""

FROM_LEDGER: dict[str, Callable[[list[ledger.LedgerRow], Path], list[str] | None]] = {
    "passes": draw_passes,
    "learners": draw_learners,
    "screening": draw_screening,
}
"""Those that are drawn from the ledger; lines that one returns are printed."""
