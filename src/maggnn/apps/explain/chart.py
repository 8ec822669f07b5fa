"""Small charts against the number of moves: the agent's line, with the mean and the band of random walks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from maggnn.apps.draw.marked import HUES
from maggnn.apps.draw.shapes import Area, Disc, Drawing, Line, Point, Shape, Words
from maggnn.apps.draw.style import GREYS, GRID, INK, PALE, SOFT_INK
from maggnn.apps.explain.explanation import SHOWN_OUTPUTS, Explanation
from maggnn.apps.explain.trace import Step

WIDTH, HEIGHT = 400.0, 235.0
LEFT, RIGHT, TOP, BOTTOM = 62.0, 16.0, 34.0, 40.0
TAIL = 0.1
"""The share of random walks above the band, and below it."""

RANDOM = GREYS[0]


@dataclass(frozen=True)
class Curves:
    """The data of one chart, with [t + 1] values for each walk.

    Attributes:
        target: the true value, drawn as a dashed line; None if it is unknown.
    """

    title: str
    agent: list[float]
    random: list[list[float]]
    target: float | None = None


def charts(explanation: Explanation) -> list[Drawing]:
    """Return a chart for the answer (for each of the first targets) and, if it is known, for the score."""
    return [chart(curves) for curves in _curves(explanation)]


def _curves(explanation: Explanation) -> list[Curves]:
    result = []
    for place in _shown_outputs(explanation):
        name = explanation.outputs[place]
        is_class = explanation.task == "classification"
        target = explanation.target[place] if explanation.target and not is_class else None
        result.append(
            Curves(
                f"p({name})" if is_class else name,
                [step.answer[place] for step in explanation.agent.steps],
                [[step.answer[place] for step in walk.steps] for walk in explanation.random],
                target,
            )
        )
    if all(step.score is not None for step in explanation.agent.steps):
        agent, *random = ([_score(step) for step in walk.steps] for walk in (explanation.agent, *explanation.random))
        result.append(Curves("score", agent, random))
    return result


def _shown_outputs(explanation: Explanation) -> list[int]:
    """Return the first targets; for classes, the true one, else the one that the agent ends with."""
    if explanation.task != "classification":
        return list(range(len(explanation.outputs)))[:SHOWN_OUTPUTS]
    last = explanation.agent.steps[explanation.answer_step].answer
    return [int(explanation.target[0]) if explanation.target else last.index(max(last))]


def _score(step: Step) -> float:
    return math.nan if step.score is None else step.score


def chart(curves: Curves) -> Drawing:
    """Draw one chart."""
    num_moves = len(curves.agent) - 1
    low, high = np.quantile(curves.random, (TAIL, 1 - TAIL), axis=0).tolist()
    mean = np.mean(curves.random, axis=0).tolist()
    known = [] if curves.target is None else [curves.target]
    ticks = nice_ticks(min([*curves.agent, *low, *mean, *known]), max([*curves.agent, *high, *mean, *known]))

    def at(move: float, value: float) -> Point:
        across = move / num_moves if num_moves else 0.5
        up = (value - ticks[0]) / (ticks[-1] - ticks[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    shapes = [*_frame(curves.title, ticks, num_moves, at(0, ticks[0])[1])]
    steps = range(num_moves + 1)
    band = (*(at(move, high[move]) for move in steps), *(at(move, low[move]) for move in reversed(steps)))
    shapes.append(Area(band, RANDOM, 0.22))
    shapes.append(Line(tuple(at(move, mean[move]) for move in steps), RANDOM, 2.0))
    if curves.target is not None:
        ends = ((LEFT, at(0, curves.target)[1]), (WIDTH - RIGHT, at(0, curves.target)[1]))
        shapes.append(Line(ends, INK, 1.2, dashed=True))
    shapes.append(Line(tuple(at(move, curves.agent[move]) for move in steps), HUES[0], 2.6))
    shapes += [Disc(at(move, curves.agent[move]), 3.6, HUES[0]) for move in steps]
    return Drawing(WIDTH, HEIGHT, [*shapes, *_key(len(curves.random), curves.target is not None)])


def _frame(title: str, ticks: Sequence[float], num_moves: int, floor: float) -> list[Shape]:
    inner = WIDTH - LEFT - RIGHT
    shapes: list[Shape] = [Words((LEFT - 48, 14), title, 13, INK, "start", bold=True)]
    for tick in ticks:
        y = floor - (tick - ticks[0]) / (ticks[-1] - ticks[0]) * (HEIGHT - TOP - BOTTOM)
        shapes.append(Line(((LEFT, y), (WIDTH - RIGHT, y)), GRID, 1.0))
        shapes.append(Words((LEFT - 7, y), f"{tick:.5g}", 11, SOFT_INK, "end"))
    shapes.append(Line(((LEFT, floor), (WIDTH - RIGHT, floor)), PALE, 1.2))
    every = max(1, math.ceil(num_moves / 10))
    for move in range(0, num_moves + 1, every):
        x = LEFT + (move / num_moves if num_moves else 0.5) * inner
        shapes.append(Words((x, floor + 13), str(move), 11, SOFT_INK))
    shapes.append(Words((LEFT + inner / 2, floor + 30), "moves", 11, SOFT_INK))
    return shapes


def _key(walks: int, has_target: bool) -> list[Shape]:
    """Draw the legend to the right of the title."""
    entries = [(HUES[0], "agent", 2.6), (RANDOM, f"{walks} random walks", 2.0)]
    entries += [(INK, "true", 1.2)] if has_target else []
    shapes: list[Shape] = []
    x = WIDTH - RIGHT
    for colour, text, width in reversed(entries):
        x -= 6.4 * len(text)
        shapes.append(Words((x, 14), text, 11, SOFT_INK, "start"))
        shapes.append(Line(((x - 22, 14), (x - 6, 14)), colour, width, dashed=text == "true"))
        x -= 34
    return shapes


def nice_ticks(low: float, high: float) -> list[float]:
    """Return three to six round numbers whose range contains both."""
    if high - low < 1e-9 * max(1.0, abs(low), abs(high)):
        reach = max(abs(low) * 1e-3, 1e-6)
        low, high = low - reach, high + reach
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(place * step, 12) for place in range(first, last + 1)]
