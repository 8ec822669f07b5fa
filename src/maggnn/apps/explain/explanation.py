"""What there is to say of a search on one graph: the agent's trace, random walks from the same start, the best moves.

Everything is plain values, so that a picture, a page and JSON are made of the same numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from maggnn.apps.explain.depiction import Depicted, depicted
from maggnn.apps.explain.graph import Subject
from maggnn.apps.explain.trace import MOST_MOVES, Step, Trace, trace, true_gains
from maggnn.apps.explain.words import score_unit
from maggnn.errors import InputError
from maggnn.model.agent import TIE

RANDOM_WALKS = 20
"""Random walks beside the agent: enough for a mean and a band."""

BEST_MOVES = 5
SHOWN_OUTPUTS = 3
"""Numbers of an answer that a line of text shows."""


@dataclass(frozen=True)
class BestMove:
    """A move that has a large Q-value: mark `slot` of tuple `number` goes from node `old` to node `new`.

    Attributes:
        expected: the gain by Q.
        true: the gain by the environment, Eq. 8; None where the target is not known.
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
    """A search explained.

    Attributes:
        name: of the graph.
        outputs: names of the numbers of an answer.
        target: the true class (its place among `outputs`) or the true numbers, one an output; empty if not known.
        agent, random: the agent's walk, and random ones from the same start.
        best_moves: the most promising moves from each step of the agent.
        answer_step: the step whose answer the model gives: the last, or the surest (`agent.keep`).
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
        """The lowest and the highest colour of a node, over all steps that are drawn."""
        values = [value for step in [*self.agent.steps, *self.random[0].steps] for value in node_gains(step)]
        return min(values), max(values)

    def answer_text(self, step: Step) -> list[str]:
        """The answer in a few lines: the likeliest classes, or the values of the first targets."""
        named = list(zip(self.outputs, step.answer, strict=True))
        if self.task == "classification":
            likeliest = sorted(named, key=lambda pair: -pair[1])[:1]
            true = [named[int(self.target[0])]] if self.target else []
            shown = dict([*true, *likeliest])
            return [f"p({name}) = {value:.3f}" for name, value in shown.items()]
        return [f"{name} = {value:.4g}" for name, value in named[:SHOWN_OUTPUTS]]

    def target_text(self) -> str:
        """The true target in words; empty if not known."""
        if not self.target:
            return ""
        if self.task == "classification":
            return f"class {self.outputs[int(self.target[0])]}"
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.outputs, self.target, strict=True))

    def to_json(self) -> dict[str, Any]:
        """Plain values that `json.dumps` takes."""
        return asdict(self)

    def __repr__(self) -> str:
        first, last = (", ".join(self.answer_text(self.agent.steps[number])) for number in (0, self.answer_step))
        return f"Explanation({self.name!r}, {len(self.agent.steps) - 1} moves: {first} -> {last})"

    def _repr_svg_(self) -> str:
        """The picture, where a notebook shows the value of a cell."""
        from maggnn.apps.draw.shapes import to_svg
        from maggnn.apps.explain.picture import picture

        return to_svg(picture(self), self.name)


def explain_subject(subject: Subject, num_moves: int | None = None, seed: int = 0) -> Explanation:
    """Search on the subject's graph with the agent and at random, `num_moves` moves or the model's own t."""
    model, packed, reward = subject.model, subject.model.precomputed(subject.packed), subject.reward
    num_moves = model.agent.num_moves if num_moves is None else num_moves
    if num_moves > MOST_MOVES:
        raise InputError(f"{num_moves} moves: at most {MOST_MOVES} can be shown; give fewer with --moves")
    subject = replace(subject, packed=packed)  # its structure is worked out once, not for every walk
    agent = trace(model, packed, 0, num_moves, "agent", seed, reward=reward)
    start = torch.tensor(agent.steps[0].tuples)
    # Not from the agent's seed: the numbers that drew the start would draw the first move again.
    seeds = range(seed + 1, seed + 1 + RANDOM_WALKS)
    random = [trace(model, packed, 0, num_moves, "random moves", other, start, reward) for other in seeds]
    return Explanation(
        name=subject.name,
        graph=depicted(packed, subject.features, subject.x, subject.edge_attr, subject.smiles, subject.rows),
        task=model.task,
        outputs=list(subject.outputs),
        target=[] if packed.y is None else [float(value) for value in packed.y.flatten()],
        agent=agent,
        random=random,
        best_moves=_best_moves(subject, agent),
        answer_step=_answer_step(agent, model.agent.keep),
        notes=[*subject.notes, *_indifference(agent), *_units(subject)],
    )


def node_gains(step: Step) -> list[float]:
    """The best gain that Q expects of moving any mark to each node, [|V|]."""
    return [max(gain for row in node for gain in row) for node in step.q_table or []]


def expected_gains(before: Step, after: Step) -> list[float]:
    """What Q expected of each of the moves between two steps."""
    table = before.q_table or []
    return [table[node][number][slot] for number, slot, node in after.moved]


def _answer_step(agent: Trace, keep: str) -> int:
    if keep == "last":
        return len(agent.steps) - 1
    sureness = [max(step.answer) for step in agent.steps]
    return sureness.index(max(sureness))


def _indifference(agent: Trace) -> list[str]:
    """Said where an agent has learned nothing that it could use here."""
    for step in agent.steps:
        gains = [gain for node in step.q_table or [] for row in node for gain in row]
        if max(gains) - min(gains) > TIE:
            return []
    return ["Q is the same for every move of this graph, so the agent's own moves are random too."]


def _units(subject: Subject) -> list[str]:
    """Of scores, where there are any."""
    unit = "" if subject.packed.y is None else score_unit(subject.model)
    return [f"Scores are {unit}."] if unit else []


def _best_moves(subject: Subject, agent: Trace) -> list[list[BestMove]]:
    following = [step.moved for step in agent.steps[1:]] + [[]]
    return [_best_of(subject, step, made) for step, made in zip(agent.steps, following, strict=True)]


def _best_of(subject: Subject, step: Step, made: list[tuple[int, int, int]]) -> list[BestMove]:
    """The most promising moves from one step; a move that puts a mark where it is changes nothing and is left out."""
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
    # Among ties the one that was made comes first: it is what happened.
    return sorted(moves, key=lambda move: (-round(move.expected / TIE), not move.made))[:BEST_MOVES]
