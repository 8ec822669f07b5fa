"""The agents that come with the package: small files, with the config and the ledger row that made them."""

import json
from pathlib import Path

import pytest
import torch

from maggnn import pretrained_agent
from maggnn.data.registry import load
from maggnn.model import pretrained
from maggnn.model.state import State
from maggnn_paper.recipes import recipe
from maggnn_paper.tables.families import UNIVERSAL
from maggnn_paper.tables.travellers import RECIPES

LEDGER = Path(__file__).parents[3] / "results" / "ledger.jsonl"


@pytest.mark.parametrize("name", pretrained.AGENTS)
def test_a_shipped_agent_says_where_it_comes_from(name):
    assert pretrained._path(name).stat().st_size < 3_000_000
    agent = pretrained_agent(name)
    assert agent.ledger in [json.loads(line) for line in LEDGER.read_text().splitlines()]
    if name == UNIVERSAL:
        assert agent.ledger["table"] == "families" and agent.moves_tuples_alone
        return
    assert agent.config == recipe(RECIPES[name])
    assert agent.ledger["dataset"] == agent.config.data.name


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
