"""The explanation of a search on one graph: the agent's trace, random walks from the same start, and the best moves.

Everything is plain values, so that a picture, a page and JSON have the same numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from maggnn.apps.explain.depiction import Depicted, depicted
from maggnn.apps.explain.graph import Subject
from maggnn.apps.explain.trace import MOST_MOVES, Step, Trace, node_gains, trace, true_gains
from maggnn.apps.explain.words import score_unit
from maggnn.errors import InputError
from maggnn.model.agent import TIE

RANDOM_WALKS = 20
"""The number of random walks for comparison: enough for a mean and a band."""

BEST_MOVES = 5
SHOWN_OUTPUTS = 3
"""The largest number of an answer's values in a line of text."""


@dataclass(frozen=True)
class BestMove:
    """A move that has a large Q-value: mark `slot` of tuple `number` goes from node `old` to node `new`.

    Attributes:
        expected: the gain that Q predicts.
        true: the gain in the environment (Eq. 8); None if the target is unknown.
        made: whether the agent made it.
    """

    number: int
    slot: int
    old: int
    new: int
    expected: float
    true: float | None
    made: bool


@dataclass(frozen=True)
class Explanation:
    """An explained search.

    Attributes:
        name: the name of the graph.
        outputs: the names of an answer's values.
        target: the true class (its index in `outputs`) or the true number of each output; empty if unknown.
        agent, random: the agent's walk, and random ones from the same start.
        best_moves: the most promising moves from each step of the agent.
        answer_step: the step whose answer the model gives: the last, or the most confident (`agent.keep`).
    """

    name: str
    graph: Depicted
    task: str
    outputs: list[str]
    target: list[float]
    agent: Trace
    random: list[Trace]
    best_moves: list[list[BestMove]]
    answer_step: int
    notes: list[str]

    @property
    def q_range(self) -> tuple[float, float]:
        """The lowest and the highest gain of a node, over all steps that are drawn."""
        values = [value for step in [*self.agent.steps, *self.random[0].steps] for value in node_gains(step)]
        return min(values), max(values)

    def answer_text(self, step: Step) -> list[str]:
        """Return the answer in a few lines: the most probable classes, or the values of the first targets."""
        named = list(zip(self.outputs, step.answer, strict=True))
        if self.task == "classification":
            likeliest = sorted(named, key=lambda pair: -pair[1])[:1]
            true = [named[int(self.target[0])]] if self.target else []
            shown = dict([*true, *likeliest])
            return [f"p({name}) = {value:.3f}" for name, value in shown.items()]
        return [f"{name} = {value:.4g}" for name, value in named[:SHOWN_OUTPUTS]]

    def target_text(self) -> str:
        """Return the true target as text; empty if unknown."""
        if not self.target:
            return ""
        if self.task == "classification":
            return f"class {self.outputs[int(self.target[0])]}"
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.outputs, self.target, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return asdict(self)

    def __repr__(self) -> str:
        first, last = (", ".join(self.answer_text(self.agent.steps[number])) for number in (0, self.answer_step))
        return f"Explanation({self.name!r}, {len(self.agent.steps) - 1} moves: {first} -> {last})"

    def _repr_svg_(self) -> str:
        """Return the picture, for notebooks."""
        from maggnn.apps.draw.shapes import to_svg
        from maggnn.apps.explain.picture import picture

        return to_svg(picture(self), self.name)


def explain_subject(subject: Subject, num_moves: int | None = None, seed: int = 0) -> Explanation:
    """Search on the subject's graph with the agent and at random, `num_moves` moves or the model's own t."""
    model, packed, reward = subject.model, subject.model.precomputed(subject.packed), subject.reward
    num_moves = model.agent.num_moves if num_moves is None else num_moves
    if num_moves > MOST_MOVES:
        raise InputError(f"{num_moves} moves: at most {MOST_MOVES} can be shown; give fewer with --moves")
    subject = replace(subject, packed=packed)  # structural features are computed once for all walks
    agent = trace(model, packed, 0, num_moves, "agent", seed, reward=reward)
    start = torch.tensor(agent.steps[0].tuples)
    # Other seeds than the agent's, whose random numbers drew the start and would also draw the first move.
    seeds = range(seed + 1, seed + 1 + RANDOM_WALKS)
    random = [trace(model, packed, 0, num_moves, "random moves", other, start, reward) for other in seeds]
    return Explanation(
        name=subject.name,
        graph=depicted(packed, subject.original),
        task=model.task,
        outputs=list(subject.outputs),
        target=[] if packed.y is None else [float(value) for value in packed.y.flatten()],
        agent=agent,
        random=random,
        best_moves=_best_moves(subject, agent),
        answer_step=_answer_step(agent, model.agent.keep),
        notes=[*subject.notes, *_indifference(agent), *_units(subject)],
    )


def expected_gains(before: Step, after: Step) -> list[float]:
    """Return the gain that Q expected from each of the moves between two steps."""
    table = before.q_table or []
    return [table[node][number][slot] for number, slot, node in after.moved]


def _answer_step(agent: Trace, keep: str) -> int:
    if keep == "last":
        return len(agent.steps) - 1
    sureness = [max(step.answer) for step in agent.steps]
    return sureness.index(max(sureness))


def _indifference(agent: Trace) -> list[str]:
    """Return a note if the marks cannot move, or if Q does not distinguish the moves of this graph."""
    if len(agent.steps[0].q_table or []) == 1:
        return ["The graph has one node: all marks are on it and cannot move."]
    for step in agent.steps:
        gains = [gain for node in step.q_table or [] for row in node for gain in row]
        if max(gains) - min(gains) > TIE:
            return []
    return ["Q is the same for every move of this graph, so the agent's own moves are random too."]


def _units(subject: Subject) -> list[str]:
    """Return a note about the unit of scores, if there are any."""
    unit = "" if subject.packed.y is None else score_unit(subject.model)
    return [f"Scores are {unit}."] if unit else []


def _best_moves(subject: Subject, agent: Trace) -> list[list[BestMove]]:
    following = [step.moved for step in agent.steps[1:]] + [[]]
    return [_best_of(subject, step, made) for step, made in zip(agent.steps, following, strict=True)]


def _best_of(subject: Subject, step: Step, made: list[tuple[int, int, int]]) -> list[BestMove]:
    """Return the moves with the largest Q-values from one step, without moves that change nothing."""
    true = true_gains(subject.model, subject.packed, 0, step.tuples, subject.reward)
    moves = [
        BestMove(
            number, slot, step.tuples[number][slot], node, gain,
            None if true is None else true[node][number][slot], (number, slot, node) in made,
        )
        for node, rows in enumerate(step.q_table or [])
        for number, row in enumerate(rows)
        for slot, gain in enumerate(row)
        if (number, slot, node) in made or step.tuples[number][slot] != node
    ]  # fmt: skip
    # Among ties, the move that was made comes first.
    return sorted(moves, key=lambda move: (-round(move.expected / TIE), not move.made))[:BEST_MOVES]
