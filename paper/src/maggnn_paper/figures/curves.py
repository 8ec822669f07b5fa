"""Two curves of the paper: accuracy against the number of moves, and the agent's reward while it learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from maggnn.apps.draw.style import COLOURS, GREYS, INK, PALE, SOFT_INK, new_figure, save, tidy
from maggnn.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REWARD = "agent/reward"
EPSILON = "agent/epsilon"


@dataclass(frozen=True)
class RewardCurve:
    """The reward in windows of steps: where each lies, mean and standard deviation in it, mean epsilon.

    Shapes:
        steps, mean, std, epsilon: [windows]; epsilon is NaN where none was logged.
    """

    steps: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    epsilon: np.ndarray


def reward_curve(log_entries: Sequence[Mapping[str, float]], window: int = 500) -> RewardCurve:
    """Gather a run's log (`training.progress.read_log`) in windows of steps, the paper's figure of rewards.

    Entries without a reward (the predictor's) are skipped. A run that logs every n-th step has window / n
    values in a window; a single value has a deviation of zero.
    """
    entries = [entry for entry in log_entries if REWARD in entry]
    if not entries:
        raise InputError(f"the log has no {REWARD}: was the agent trained (training.agent_steps)?")
    names = ("step", REWARD, EPSILON)
    step, reward, epsilon = np.array([[entry.get(name, np.nan) for name in names] for entry in entries]).T
    number = step // window
    inside = [number == wanted for wanted in np.unique(number)]
    return RewardCurve(
        steps=np.array([step[mask].mean() for mask in inside]),
        mean=np.array([reward[mask].mean() for mask in inside]),
        std=np.array([reward[mask].std() for mask in inside]),
        epsilon=np.array([epsilon[mask].mean() for mask in inside]),
    )


def plot_reward(curve: RewardCurve, path: Path, title: str = "Reward of a move while the agent learns") -> None:
    """The paper's figure "Reward increases over time": mean and shaded deviation, epsilon in light grey."""
    figure = new_figure(height=4.2)
    axes = figure.add_subplot()
    colour = COLOURS[0]
    axes.axhline(0.0, color=PALE, linewidth=1.0)
    axes.fill_between(
        curve.steps, curve.mean - curve.std, curve.mean + curve.std, color=colour, alpha=0.18, linewidth=0
    )
    axes.plot(curve.steps, curve.mean, color=colour, linewidth=2.4)
    axes.margins(x=0.0)
    tidy(axes, "step of the agent's training", "mean reward", title)
    axes.yaxis.label.set_color(colour)
    if not np.isnan(curve.epsilon).all():
        right = axes.twinx()
        right.plot(curve.steps, curve.epsilon, color=PALE, linewidth=1.6)
        right.set_ylim(0.0, 1.04)
        right.margins(x=0.0)
        right.set_ylabel("ε, share of random moves", color=SOFT_INK, fontsize=10)
        right.tick_params(colors=SOFT_INK, labelsize=9, length=3)
        right.spines[:].set_visible(False)
        right.set_zorder(axes.get_zorder() - 1)  # epsilon behind the reward
        axes.patch.set_visible(False)
    save(figure, path)


def plot_accuracy_against_moves(
    series: Mapping[str, tuple[Tensor, Tensor]],
    path: Path,
    title: str = "Accuracy against the number of moves",
) -> None:
    """The paper's figure "Performance versus the number of RL steps": mean and deviation over tests.

    Series whose name begins with "random" are controls and drawn grey and dashed. Of the others the earlier
    lie on top of the later, which are broader, so that equal curves can be distinguished.

    Shapes:
        each series: mean and std in percent, [t + 1].
    """
    figure = new_figure(height=4.8)
    axes = figure.add_subplot()
    colours, greys = iter(COLOURS), iter(GREYS)
    for number, (name, (mean, std)) in enumerate(series.items()):
        control = name.startswith("random")
        colour = next(greys if control else colours, INK)
        width = 2.0 if control else 2.2 + 2.4 * number
        moves = np.arange(len(mean))
        top = 100.0 if bool((mean <= 100.0).all()) else np.inf
        _error_bars(axes, moves + 0.05 * number, mean.numpy(), std.numpy(), top, colour)
        axes.plot(
            moves, mean.numpy(), color=colour, label=name, marker="o", markersize=5 + width / 2,
            markeredgecolor="white", linewidth=width, linestyle=(0, (4, 2)) if control else "-",
            zorder=20 - number,
        )  # fmt: skip
    most = max(len(mean) for mean, _ in series.values()) - 1
    axes.set_xlim(-0.2, most + 0.3)
    axes.set_xticks(range(most + 1))
    tidy(axes, "moves t (0: random marks)", "accuracy, percent", title)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=10, labelcolor=INK, handlelength=3)
    save(figure, path)


def _error_bars(axes: Axes, x: np.ndarray, mean: np.ndarray, std: np.ndarray, top: float, colour: str) -> None:
    """Thin bars of one standard deviation, not above `top`."""
    reach = np.stack([std, np.minimum(mean + std, top) - mean])  # [2, t + 1]: below, above
    axes.errorbar(x, mean, yerr=reach, fmt="none", ecolor=colour, elinewidth=1.3, capsize=2.5, alpha=0.55)
