"""The trials of the paper's learner, in miniature: shared environments, learning curves and their figure."""

import itertools

import pytest
import torch

from builders import seeded
from maggnn.errors import InputError
from maggnn_paper import ledger, recipes
from maggnn_paper.figures.learners import draw_learners
from maggnn_paper.jobs import learning_curve
from maggnn_paper.tables import learners


def tiny_recipe(name):
    small = {"predictor_steps": 2, "agent_steps": 4, "agent_batch_size": 4, "walkers": 4, "starts_per_graph": 2}
    return recipes.recipe(name).replaced(
        encoder={"num_layers": 2, "hidden": 8},
        replay={"capacity": 50, "warmup": 20},
        training=small,
        runtime={"device": "cpu"},
    )


def test_curves_of_learners_in_one_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")
    monkeypatch.setattr(learners, "recipe", tiny_recipe)
    monkeypatch.setattr(learners, "TESTS", 2)
    monkeypatch.setattr(learners, "LOOKS", 2)
    monkeypatch.setattr(learning_curve, "TESTS_PER_POINT", 2)
    folder = tmp_path / "jobs"
    rows = learners.reproduce(folder, runs=1, methods=["lookahead", "DQN"])
    ledger.append(rows, tmp_path / "ledger.jsonl")
    assert ledger.read(tmp_path / "ledger.jsonl") == rows and len({row.key for row in rows}) == len(rows)
    trials = [row for row in rows if row.table == "ablation" and row.metric == "accuracy"]
    names = ("lookahead", "dqn")
    assert [learners.learner_and_updates(row) for row in trials] == [
        (name, updates) for name in names for updates in (None, 2, 4)
    ]
    assert "2 updates of 4 states, 400 Q-values" in trials[1].note
    assert "2 updates of 4 states, 8 Q-values" in trials[4].note
    moves = [row for row in rows if row.table == "moves"]
    assert {row.method for row in moves} == {"random-moves", "mag-gnn", "mag-gnn-dqn"}
    assert len({row.mean for row in moves if row.t == 0}) == 1  # no move, no difference: one predictor, equal starts
    draw_learners(rows, tmp_path / "learners.png")
    assert (tmp_path / "learners.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="no learning curves"):
        draw_learners(moves, tmp_path / "none.png")


def test_learners_differ():
    trials = [job for name in learners.LEARNERS for job in learners.jobs(2, name)]
    assert len({job.name for job in trials}) == len(trials)


@pytest.mark.parametrize("gamma", [0.0, 0.6])
def test_the_share_between_moves_equals_loops_over_states(gamma):
    loss = torch.rand(2, 3, 3, generator=seeded(), dtype=torch.float64)
    states = list(itertools.product(range(2), range(3), range(3)))
    outcomes = {(g, u, v): [(g, w, v) for w in range(3)] + [(g, u, w) for w in range(3)] for g, u, v in states}
    value = dict.fromkeys(states, 0.0)
    for _ in range(100):
        q = {s: torch.stack([loss[s] - loss[n] + gamma * value[n] for n in outcomes[s]]) for s in states}
        value = {s: q[s].max() for s in states}
    table = torch.stack([q[s] for s in states])
    expected = 100 * table.var(dim=1, unbiased=False).mean() / table.var(unbiased=False)
    assert learners.share_between_moves(loss, gamma) == pytest.approx(float(expected))


def test_the_share_between_moves_falls_with_the_discount():
    loss = torch.rand(1, 5, 5, generator=seeded(), dtype=torch.float64)
    shares = [learners.share_between_moves(loss, gamma) for gamma in learners.DISCOUNTS]
    assert shares == sorted(shares, reverse=True) and shares[-1] < 0.1 < 10 < shares[0]
