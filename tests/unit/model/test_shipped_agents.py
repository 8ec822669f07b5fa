"""The agents that come with the package: small files, with the config and the ledger row that made them."""

import json
from pathlib import Path

import pytest
import torch

from maggnn import pretrained_agent
from maggnn.config import Config
from maggnn.data.registry import load
from maggnn.model import pretrained
from maggnn.model.state import State
from maggnn.training.run import train
from maggnn_paper.recipes import recipe
from maggnn_paper.tables import pretrained_agents
from maggnn_paper.tables.families import UNIVERSAL

LEDGER = Path(__file__).parents[3] / "results" / "ledger.jsonl"


@pytest.mark.parametrize("name", pretrained.AGENTS)
def test_a_shipped_agent_says_where_it_comes_from(name):
    assert pretrained._path(name).stat().st_size < 3_000_000
    agent = pretrained_agent(name)
    assert agent.ledger in [json.loads(line) for line in LEDGER.read_text().splitlines()]
    if name in (UNIVERSAL, *pretrained_agents.UNIVERSAL):
        assert agent.ledger["table"] == "families" and agent.moves_tuples_alone
        return
    assert agent.config == recipe(pretrained_agents.RECIPES[name])
    assert agent.ledger["dataset"] == agent.config.data.name


@pytest.mark.parametrize("name", [UNIVERSAL, *pretrained_agents.UNIVERSAL])
def test_pre_takes_a_universal_agent_with_any_number_of_tuples(name, recwarn):
    """Its weights are the file's after training, whatever m is, and nothing warns of another m."""
    for num_tuples in (1, 3):
        config = Config().replaced(
            data={"name": "shrikhande_rook"},
            encoder={"num_layers": 2, "hidden": 8},
            agent={"pretrained": name, "num_tuples": num_tuples, "tuple_order": 2, "num_moves": 2},
            training={"paradigm": "pre", "agent_steps": 0, "predictor_steps": 2, "batch_size": 2},
        )
        model = train(config, quiet=True).model
        own = pretrained_agent(name).weights
        assert all(torch.equal(value, own[key]) for key, value in model.q_network.state_dict().items())
    assert not [warning for warning in recwarn if "agent" in str(warning.message)]


@pytest.mark.parametrize("name", pretrained.AGENTS)
def test_a_shipped_agent_prefers_some_moves(name):
    """Trained, its Q-table tells nodes of a graph apart; on graphs it has never seen."""
    agent = pretrained_agent(name)
    network = agent.q_network()
    graphs = load("csl8").graphs[torch.tensor([0])]
    state = State.start(graphs, torch.tensor([[[0, 1], [2, 5]]]), 0)
    with torch.no_grad():
        table, _ = network(state)
    assert table.shape == (8, 2, 2) and float(table.std(dim=0).min()) > 1e-4
