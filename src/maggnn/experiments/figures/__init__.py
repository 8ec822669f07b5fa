"""The paper's figures, as numbers first (`sorted_scores`, `reward_curve`, `trajectory`), then as pictures.

Importing needs torch and numpy alone; matplotlib and networkx are imported where a picture is drawn.
Pictures are PNG files, drawn without a display.
"""

from maggnn.experiments.figures.curves import (
    RewardCurve,
    plot_accuracy_against_moves,
    plot_reward,
    reward_curve,
)
from maggnn.experiments.figures.drawing import draw_trajectories, draw_trajectory
from maggnn.experiments.figures.layouts import (
    Layout,
    block_circle,
    components_apart,
    layout_of,
    torus_grid,
)
from maggnn.experiments.figures.scores import plot_sorted_scores, sorted_scores
from maggnn.experiments.figures.walk import Trajectory, trajectory

__all__ = [
    "Layout",
    "RewardCurve",
    "Trajectory",
    "block_circle",
    "components_apart",
    "draw_trajectories",
    "draw_trajectory",
    "layout_of",
    "plot_accuracy_against_moves",
    "plot_reward",
    "plot_sorted_scores",
    "reward_curve",
    "sorted_scores",
    "torus_grid",
    "trajectory",
]
