"""The style of all figures: palette, sizes, axes, and how a PNG is written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DPI = 150
WIDTH = 8.0
"""The width of figures in inches: 1,200 pixels at `DPI`."""

INK = "#212529"
SOFT_INK = "#6c757d"
GRID = "#e9ecef"
PALE = "#ced4da"
GREYS = ("#868e96", "#adb5bd", "#495057")
COLOURS = ("#1c6fb8", "#e8890c", "#2a9d8f", "#8e5bb5", "#c2577a", "#7a8b2f")
"""Blue, orange, teal, violet, rose, olive: most colour-blind readers can distinguish them too."""

EDGE_GREEN = "#2b9a3e"
LIGHT_GREEN = "#a3d9a5"


LONGEST_NAME = 60
"""The largest number of characters of a column's or class's name in a figure."""


def new_figure(height: float, width: float = WIDTH) -> Figure:
    """Return a figure that is independent of matplotlib's global state."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06)
    return Figure(figsize=(width, height), dpi=DPI, facecolor="white", layout=engine)


def tidy(axes: Axes, x_label: str, y_label: str, title: str = "") -> None:
    """Set labels, a faint horizontal grid, and no frame except the two axes."""
    axes.set_xlabel(x_label, color=INK, fontsize=11)
    axes.set_ylabel(y_label, color=INK, fontsize=11)
    if title:
        axes.set_title(title, color=INK, fontsize=13, loc="left", pad=10)
    axes.tick_params(colors=SOFT_INK, labelsize=10, length=3)
    axes.grid(axis="y", color=GRID, linewidth=0.9)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(PALE)


def literal(name: str) -> str:
    """Escape a user's name for matplotlib: no formulas, no line ends, and a limited length."""
    line = " ".join(name.split())
    return (line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 3] + "...").replace("$", r"\$")


def save(figure: Figure, path: Path) -> None:
    """Write a PNG, and create its folder if necessary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png", dpi=DPI)
