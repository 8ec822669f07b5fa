"""The paper's learner on SR25 with as many transitions as it needs: learning curves, compared with exact lookahead.

Lookahead regresses all 50 Q-values of a state in one update, replay one of them. Under ORD the environment is a table
of 15 x 625 states and 468,750 transitions, so a reward is a look-up and the buffer may hold as many transitions as it
likes. Only passes of the Q-network take time, and both kinds of learner make as many in an update, apart from the
target network's.

All learners of a run train in one environment, whose predictor is trained once. SR25 has no validation part: its 15
graphs are trained and tested on. Settings were therefore chosen with seed 100, another predictor and other random
starts than those of the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.model.saving import load_model
from maggnn_paper.figures.scores import marked_scores
from maggnn_paper.jobs.job import Job, Result, run_jobs
from maggnn_paper.jobs.summary import paired_note, run_means, score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import recipe

RECIPE = "sr25_replay"
MOVES, TESTS, LOOKS = 6, 100, 10
"""Moves before an answer, tests of a finished agent, and points of a curve."""

MOVES_OF_A_STATE = 50
"""Of one tuple of two marks in a graph of 25 nodes."""

EXACT, PAPER, PAPER_LONG = "lookahead", "DQN", "DQN, 4 million states"
LARGE = (
    *("encoder.num_layers=6", "encoder.hidden=128"),
    *("training.starts_per_graph=100", "training.predictor_steps=6000"),
)
"""The networks of sr25.toml, whose predictor is right for more marked copies: for these a GPU is needed."""

_LONG = (*LARGE, "training.agent_steps=5000", "training.agent_batch_size=768", "training.walkers=256")
"""As many updates and states as the lookahead agent of sr25.toml learns from."""

LEARNERS: dict[str, tuple[str, ...]] = {
    EXACT: ("training.target=lookahead", "training.gamma=0.0"),
    PAPER: (),
    "DQN, gamma 0": ("training.gamma=0.0",),
    "DQN, gamma .9": ("training.gamma=0.9",),
    "DQN, replay of 30k": ("replay.capacity=30000", "replay.warmup=1000"),
    "DQN, reward loss": ("training.reward=loss",),
    "DQN, constant rate": ("training.schedule=constant", "training.learning_rate=1e-3"),
    "DQN, returns of 3": ("training.returns=3",),
    "double DQN": ("training.target=double_dqn",),
    PAPER_LONG: _LONG,
    "DQN, gamma 0, 4 million states": (*_LONG, "training.gamma=0.0"),
}
"""What each changes in `sr25_replay`."""

CURVES = f"{RECIPE}:"
"""How the data sets of this table's rows in `ablation` begin."""

DISCOUNTS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99)
"""For which the exact Q-values of the environment are computed."""

METHODS = {"dqn": "mag-gnn-dqn", "double_dqn": "mag-gnn-double-dqn", "lookahead": "mag-gnn"}


def jobs(runs: int, name: str) -> list[Job]:
    """The trainings of one learner."""
    return [_job(name, run) for run in range(runs)]


def _job(name: str, run: int) -> Job:
    config = recipe(RECIPE).with_settings(LEARNERS[name]).replaced(runtime={"seed": run})
    every = max(1, config.training.agent_steps // LOOKS)
    environment = environment_job(run, is_large(name))
    return Job(RECIPE, config, MOVES, TESTS, keep_model=True, test_every=every, predictor_of=environment)


def is_large(name: str) -> bool:
    """Whether a learner has the networks `LARGE`."""
    return set(LARGE) <= set(LEARNERS[name])


def environment_job(run: int, large: bool = False) -> Job:
    """The predictor that all learners of a run are judged by, without an agent; its test is that of random moves.

    Args:
        large: the environment of the learners with the networks `LARGE`.
    """
    config = recipe(RECIPE).with_settings(LARGE if large else ())
    return Job(
        RECIPE, config.replaced(training={"agent_steps": 0}, runtime={"seed": run}), MOVES, TESTS, keep_model=True
    )


def reproduce(
    folder: Path, runs: int = 3, workers: int = 1, methods: Sequence[str] = tuple(LEARNERS)
) -> list[LedgerRow]:
    """Run what is not in `folder` yet.

    The learner of the config, lookahead and the DQN with as many states as lookahead has elsewhere have rows in
    `moves`, for every number of moves beside random moves; each learner has one in `ablation`, and one for every point
    of its curve.

    Args:
        methods: learners by name.
    """
    rows: list[LedgerRow] = []
    for large in sorted({is_large(name) for name in methods}):
        environments = [environment_job(run, large) for run in range(runs)]
        rows += _rows_of_moves(run_jobs(environments, folder, workers), "random-moves", set_name(large))
        if not large:
            rows += _shares([folder / job.name for job in environments])
    for name in methods:
        results = run_jobs(jobs(runs, name), folder, workers)
        if name in (EXACT, PAPER, PAPER_LONG):
            rows += _rows_of_moves(results, _method(results), set_name(is_large(name)))
        updates = results[0]["config"]["training"]["agent_steps"]
        rows += [
            _row(name, results, updates),
            *(_row_after(name, results, int(steps)) for steps in results[0]["looks"]),
        ]
    return rows


def _method(results: Sequence[Result]) -> str:
    return METHODS[results[0]["config"]["training"]["target"]]


def set_name(large: bool) -> str:
    """The data set of the rows in `moves` of an environment."""
    return f"{RECIPE}_large" if large else RECIPE


def _rows_of_moves(results: Sequence[Result], method: str, dataset: str) -> list[LedgerRow]:
    rows = []
    for keep in ("last", "confident"):
        score, control = run_means(results, method, keep), run_means(results, "random-moves", keep)
        for moves in range(MOVES + 1):
            own = moves > 0 and method != "random-moves"
            note = f"against random moves {paired_note(score[:, moves], control[:, moves])}" if own else None
            rows.append(score_row("moves", method, results, moves, keep, note, dataset))
    return rows


def _row(name: str, results: Sequence[Result], updates: int, point: str = "") -> LedgerRow:
    """What `results` score after all moves, when `updates` of the Q-network were made."""
    batch = results[0]["config"]["training"]["agent_batch_size"]
    values = updates * batch * (MOVES_OF_A_STATE if name.startswith(EXACT) else 1)
    settings = " ".join(LEARNERS[name]) or f"as configs/{RECIPE}.toml"
    if is_large(name) and not point:
        settings += f"; {_against_random(results)}"
    note = f"{name}; {updates} updates of {batch} states, {values:,} Q-values; {settings}"
    return score_row("ablation", _method(results), results, MOVES, "last", note, f"{CURVES}{variant(name)}{point}")


def _against_random(results: Sequence[Result]) -> str:
    """The agent against random moves in its own environment: last states, and the most confident at equal cost."""
    agent = run_means(results, _method(results), "last")[:, MOVES]
    moved, confident = (run_means(results, "random-moves", keep)[:, MOVES] for keep in ("last", "confident"))
    return (
        f"against random moves in the same environment ({float(moved.mean()):.2f}) {paired_note(agent, moved)}; "
        f"against the most confident of as many random states ({float(confident.mean()):.2f}) "
        f"{paired_note(agent, confident)}; least of {len(agent)} runs {float(agent.min()):.2f}"
    )


def _row_after(name: str, results: Sequence[Result], updates: int) -> LedgerRow:
    """A point of the learning curve, from the tests that were made after so many updates."""
    seen = [{**result, "scores": {"mag-gnn": {"last": result["looks"][str(updates)]}}} for result in results]
    return _row(name, seen, updates, f":{updates}")


def variant(name: str) -> str:
    """A learner as the name of a data set in the ledger spells it."""
    return name.lower().replace(", ", ",").replace(" ", "-")


def learner_and_updates(row: LedgerRow) -> tuple[str, int | None]:
    """Whose row it is, and the updates at that point of its curve; None for the tests of the finished agent."""
    name, _, updates = row.dataset.removeprefix(CURVES).partition(":")
    return name, int(updates) if updates else None


def _shares(trained: Sequence[Path]) -> list[LedgerRow]:
    """For each discount: how much of what a Q-network has to fit says which move of a state is the best."""
    shares = torch.tensor([_shares_in(run) for run in trained])  # [runs, gammas]
    note = "share of the variance of the exact Q* between the moves of a state; the rest lies between states"
    return [
        LedgerRow(
            table="ablation",
            dataset=f"{CURVES}exact-q,gamma-{gamma:g}",
            method="mag-gnn-dqn",
            metric="percent",
            mean=round(float(share.mean()), 4),
            std=round(float(share.std()), 4) if len(trained) > 1 else None,
            runs=len(trained),
            config=f"configs/{RECIPE}.toml",
            note=note,
        )
        for gamma, share in zip(DISCOUNTS, shares.T, strict=True)
    ]


def _shares_in(run: Path) -> list[float]:
    model, config = load_model(run / "model.safetensors")
    dataset = registry.load(config.data.name)
    scores = [marked_scores(model, dataset.graphs[torch.tensor([number])]) for number in range(len(dataset.graphs))]
    loss = 1 - torch.stack(scores).double().reshape(len(scores), 25, 25)
    return [share_between_moves(loss, gamma) for gamma in DISCOUNTS]


def share_between_moves(loss: Tensor, gamma: float, sweeps: int = 2_000) -> float:
    """The share, in percent, of the variance of Q* that lies between the moves of a state, not between states.

    Q*(s, a) = L(s) - L(s') + gamma V(s') by value iteration, with s = (u, v) and s' = (w, v) or (u, w). L(s) and the
    value of the best state that can be reached are common to all moves; what differs shrinks as 1 - gamma.

    Args:
        loss: L of every state, [graphs, V, V].
    """
    value = torch.zeros_like(loss)
    for _ in range(sweeps):
        after = gamma * value - loss  # of the state that a move leads to, up to L(s)
        best = torch.maximum(after.amax(dim=1, keepdim=True), after.amax(dim=2, keepdim=True))
        value, change = loss + best, (loss + best - value).abs().max()
        if change < 1e-12:
            break
    after = gamma * value - loss
    number = loss.shape[1]
    column = after[:, None].expand(-1, number, -1, -1).transpose(2, 3)
    row = after[:, :, None].expand(-1, -1, number, -1)
    moves = torch.cat([column, row], dim=3)  # [graphs, u, v, 2 V]: all outcomes (w, v) and (u, w) of (u, v)
    between_moves = moves.var(dim=3, unbiased=False).mean()
    between_states = (loss + moves.mean(dim=3)).var(unbiased=False)
    return float(100 * between_moves / (between_moves + between_states))
