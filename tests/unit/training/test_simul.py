"""SIMUL (Algorithm 3): both networks learn in every step, the predictor on tuples that the agent has moved."""

import pytest
import torch

from maggnn.config import Config
from maggnn.data.registry import load
from maggnn.errors import InputError
from maggnn.model.state import State
from maggnn.training.paradigms import Simul
from maggnn.training.run import train


def make_config(steps=6, **training):
    return Config().replaced(
        data={"name": "shrikhande_rook"},
        encoder={"num_layers": 3, "hidden": 12},
        agent={"tuple_order": 2, "num_moves": 2},
        replay={"warmup": 16},
        training={
            "paradigm": "simul",
            "predictor_steps": steps,
            "agent_steps": steps,
            "batch_size": 2,
            "agent_batch_size": 8,
            "walkers": 8,
            **training,
        },
        runtime={"device": "cpu", "log_every": 2, "checkpoint_every": 4},
    )


def make_simul(config):
    dataset = load("shrikhande_rook")
    return Simul(config, dataset, dataset.split(config.data.split_seed, config.data.fold), torch.device("cpu"))


@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
def test_every_step_changes_both_networks(target):
    simul = make_simul(make_config(target=target, schedule="constant"))
    simul.gather_warmup()
    before = {name: value.clone() for name, value in simul.model.named_parameters()}
    scalars = simul.step(0)
    changed = {
        name.split(".")[0] for name, value in simul.model.named_parameters() if not torch.equal(value, before[name])
    }
    assert changed == {"predictor", "q_network"}
    assert set(scalars) == {"predictor/loss", "agent/reward", "agent/q_loss", "agent/epsilon"}


def test_rewards_are_of_the_environment_as_it_is_now():
    """A loss from before a predictor update would be out of date."""
    simul = make_simul(make_config(schedule="constant", learning_rate=0.05))
    simul.gather_warmup()
    checked = 0
    for step in range(4):
        simul.predictor_step(step)
        walkers = simul.walkers
        if walkers.moves_made >= walkers.walk_length:
            walkers.gather(0.5)
            continue
        graphs = simul.packed[walkers.ids]
        present = State(graphs, walkers.tuples.clone(), walkers.history.clone(), walkers.turn.clone(), walkers.ids)
        expected = simul.environment.loss(present)
        reward = walkers.gather(0.5)
        torch.testing.assert_close(reward, expected - walkers.loss)
        checked += 1
    assert checked


def test_resuming_gives_the_identical_continuation(tmp_path):
    config = make_config(steps=8)
    straight = train(config, tmp_path / "straight", quiet=True).model.state_dict()
    with pytest.raises(KeyboardInterrupt):
        _train_until(config, tmp_path / "killed", 5)
    resumed = train(config, tmp_path / "killed", quiet=True).model.state_dict()
    assert all(torch.equal(value, straight[name]) for name, value in resumed.items())


def _train_until(config, folder, last):
    """A run that is stopped after some steps, past a checkpoint."""
    step = Simul.step

    def stopping(self, number):
        if number == last:
            raise KeyboardInterrupt
        return step(self, number)

    Simul.step = stopping
    try:
        train(config, folder, quiet=True)
    finally:
        Simul.step = step


@pytest.mark.parametrize("agent_steps", [0, 4, 12])
def test_the_agent_steps_must_fit_into_the_predictor_steps(agent_steps):
    with pytest.raises(InputError, match="SIMUL trains both in turn"):
        make_config(agent_steps=agent_steps)


def test_an_agent_may_step_less_often():
    """Half as many steps: after the first, third, ... predictor step; its schedules end with its last."""
    simul = make_simul(make_config(agent_steps=3))
    simul.gather_warmup()
    scalars = [simul.step(step) for step in range(6)]
    assert ["agent/q_loss" in one for one in scalars] == [True, False] * 3
    every_step = make_simul(make_config(steps=3))
    every_step.gather_warmup()
    expected = [every_step.step(step)["agent/epsilon"] for step in range(3)]
    assert [one["agent/epsilon"] for one in scalars[::2]] == expected and len(set(expected)) > 1


def test_one_search_for_each_graph():
    with pytest.raises(InputError, match="starts_per_graph"):
        make_config(starts_per_graph=2)


def test_it_trains_its_own_predictor():
    simul = make_simul(make_config())
    with pytest.raises(InputError, match="trains its own predictor"):
        simul.use_predictor(simul.predictor.state_dict())
