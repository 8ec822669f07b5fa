"""`maggnn explain`: where the marks went on one graph and why, as a page, a picture and a short table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from maggnn.apps.explain.explanation import Explanation, explain_subject, promised
from maggnn.apps.explain.graph import read_subject
from maggnn.apps.explain.page import write_page
from maggnn.apps.explain.picture import write_png, write_svg
from maggnn.apps.explain.trace import Step
from maggnn.data.files import whole_file
from maggnn.errors import InputError

WRITERS: dict[str, Callable[[Explanation, Path], None]] = {".html": write_page, ".svg": write_svg, ".png": write_png}
"""What writes a file, by its ending."""

HEADER = ["moves", "marks", "answer", "promised gain", "random moves", "answer"]


def explain(
    model: Path,
    graph: str,
    outs: Sequence[Path],
    num_moves: int | None = None,
    seed: int = 0,
    target: Sequence[str] = (),
) -> tuple[Explanation, dict[str, Any]]:
    """Search on one graph, write the files `outs`, and return what there is to say, also as plain values."""
    for path in outs:
        if path.suffix not in WRITERS:
            raise InputError(f"{path}: what is written is told by its ending, which may be {', '.join(WRITERS)}")
    subject = read_subject(model, graph, target)
    explanation = explain_subject(subject, num_moves, seed)
    for path in outs:
        with whole_file(path) as waiting:
            WRITERS[path.suffix](explanation, waiting)
    return explanation, {"model": str(model), "out": [str(path) for path in outs], **explanation.to_json()}


def table_rows(explanation: Explanation) -> list[list[str]]:
    """A row a step under `HEADER`: the agent's marks, answer and the promise that led there, beside random moves."""
    agent, random = explanation.agent.steps, explanation.random[0].steps
    rows = []
    for number, (step, other) in enumerate(zip(agent, random, strict=True)):
        gains = promised(agent[number - 1], step) if number else []
        own = [str(number), _marks(explanation, step), _answer(explanation, step), " ".join(f"{g:+.3g}" for g in gains)]
        rows.append([*own, _marks(explanation, other), _answer(explanation, other)])
    return rows


def _marks(explanation: Explanation, step: Step) -> str:
    """As (C3 N7) (O1 C2), a bracket a tuple."""
    return " ".join(f"({' '.join(map(explanation.graph.node_name, row))})" for row in step.tuples)


def _answer(explanation: Explanation, step: Step) -> str:
    score = "" if step.score is None else f", score {step.score:.3g}"
    return ", ".join(explanation.answer_text(step)) + score
