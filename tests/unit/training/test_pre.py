"""PRE (Algorithm 4) and agents that travel: trained on bare graphs, saved, and used on graphs with features."""

import warnings
from dataclasses import replace

import pytest
import torch

from maggnn.config import AgentConfig, Config
from maggnn.data.dataset import Dataset
from maggnn.data.registry import load
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model import saving as checkpoint
from maggnn.model.mag_gnn import MagGNN, UntrainedAgentWarning
from maggnn.model.pretrained import pretrained_agent, save_agent
from maggnn.training.paradigms import Pre
from maggnn.training.run import train

pytestmark = pytest.mark.filterwarnings("ignore:agent .* learned with:UserWarning")
CPU = torch.device("cpu")
HOME = Config().replaced(
    data={"name": "shrikhande_rook"},
    encoder={"num_layers": 2, "hidden": 8},
    agent={"num_tuples": 2, "tuple_order": 2, "num_moves": 2},
    replay={"warmup": 16},
    training={"predictor_steps": 2, "agent_steps": 3, "batch_size": 2, "agent_batch_size": 4, "walkers": 4},
    runtime={"device": "cpu"},
)


def molecules(num_graphs=12):
    """Rings with float and integer features, a number to predict each."""
    generator = torch.Generator().manual_seed(1)
    sizes = torch.randint(3, 8, (num_graphs,), generator=generator)
    edges = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n]) for n in sizes.tolist()]
    total = int(sizes.sum())
    graphs = PackedGraphs.build(
        sizes,
        sizes,
        torch.cat(edges, 1),
        x=torch.randint(4, (total, 2), generator=generator),
        edge_attr=torch.randint(1, 4, (total, 1), generator=generator),
        y=5 + 3 * torch.randn(num_graphs, 1, generator=generator),
        undirected_once=True,
    )
    parts = Split(torch.arange(8), torch.arange(8, 10), torch.arange(10, 12))
    return Dataset("rings", graphs, "regression", 1, lambda *_: [parts], metric="mae")


@pytest.fixture(scope="module")
def agent_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("agents") / "small.safetensors"
    save_agent(path, train(HOME, quiet=True).model, HOME, {"table": "moves", "mean": 1.0})
    return path


def away(path, **agent):
    return Config().replaced(
        encoder={"conv": "gine", "num_layers": 2, "hidden": 12, "random_walk": 3, "dropout": 0.1},
        agent={"num_tuples": 3, "tuple_order": 2, "num_moves": 2, "pretrained": str(path), **agent},  # one tuple more
        training={
            "paradigm": "pre",
            "predictor_steps": 6,
            "agent_steps": 0,
            "batch_size": 4,
            "schedule": "constant",
            "validate_every": 2,
        },
        runtime={"device": "cpu", "log_every": 2, "checkpoint_every": 4},
    )


def test_a_saved_agent_scores_as_before(agent_file):
    model = train(HOME, quiet=True).model.eval()
    agent = pretrained_agent(str(agent_file))
    assert agent.config == HOME and agent.tuple_order == 2 and agent.ledger["table"] == "moves"
    state = model.walk(load("shrikhande_rook").graphs[torch.arange(2)], num_moves=1)[-1]
    with torch.no_grad():
        ours, theirs = model.q_network(state)[0], agent.q_network()(state)[0]
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("start", ["random", "central"])
def test_only_the_predictor_learns_and_on_moved_tuples(agent_file, start):
    config, dataset = away(agent_file, start=start), molecules()
    pre = Pre(config, dataset, dataset.split(0, 0), CPU)
    agent_before = {name: value.clone() for name, value in pre.model.q_network.state_dict().items()}
    seen = []
    learn = pre.train_predictor
    pre.train_predictor = lambda graphs, tuples, starts, weights=None: (
        seen.append((graphs, tuples)),
        learn(graphs, tuples, starts),
    )[1]
    before = {name: value.clone() for name, value in pre.predictor.named_parameters()}
    walk_from = pre.random.device.get_state()
    pre.predictor_step(0)
    graphs, tuples = seen[0]
    pre.random.device.set_state(walk_from)
    fresh = Pre(config, dataset, dataset.split(0, 0), CPU).model
    again = fresh.walk(graphs, generator=pre.random.device)
    assert torch.equal(again[-1].tuples, tuples)
    assert any(not torch.equal(value, before[name]) for name, value in pre.predictor.named_parameters())
    for name, value in pre.model.q_network.state_dict().items():
        assert torch.equal(value, agent_before[name]), name


def test_a_trained_model_can_be_kept_without_the_agents_file(agent_file, tmp_path):
    copy = tmp_path / "agent.safetensors"
    copy.write_bytes(agent_file.read_bytes())
    trained = train(away(copy), tmp_path / "run", quiet=True, dataset=molecules())
    copy.unlink()
    model, _ = checkpoint.load_model(tmp_path / "run" / "model.safetensors")
    graphs = molecules().graphs[torch.arange(4)]
    tuples = trained.model.starts(graphs, torch.Generator().manual_seed(0))
    with torch.no_grad():
        first = trained.model.eval()(graphs, tuples=tuples, generator=torch.Generator().manual_seed(1))
        second = model(graphs, tuples=tuples, generator=torch.Generator().manual_seed(1))
    assert torch.equal(first, second)
    assert 0 < float(first.mean()) < 10  # in the targets' own units


def test_a_model_of_ones_own_takes_a_pretrained_agent():
    """`MagGNN` loads the agent that its settings name: no warning of an untrained one, and the agent's own moves."""
    graphs = load("shrikhande_rook").graphs[torch.arange(2)]
    agent = AgentConfig(num_tuples=1, tuple_order=2, num_moves=2, pretrained="any")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UntrainedAgentWarning)
        model = MagGNN(2, agent=agent).eval()
        model(model.precomputed(PackedGraphs.of_batch(graphs))[torch.arange(2)])
    assert torch.equal(model.q_network.node.weight, pretrained_agent("any").weights["node.weight"])
    with pytest.raises(InputError, match="agent any moves tuples of order 2"):
        MagGNN(2, agent=replace(agent, tuple_order=1))


def test_an_agent_among_more_tuples_than_it_knows_is_warned_of(agent_file):
    with pytest.warns(UserWarning, match=r"learned with agent\.num_tuples = 2"):
        pretrained_agent(str(agent_file)).check(away(agent_file).agent)


def test_mistakes_are_named(agent_file, tmp_path):
    with pytest.raises(InputError, match=r"order 2, the model has agent\.tuple_order = 3"):
        train(away(agent_file, tuple_order=3), quiet=True, dataset=molecules())
    with pytest.raises(InputError, match=r"agent\.history = zero, not mean"):
        train(away(agent_file, history="mean"), quiet=True, dataset=molecules())
    with pytest.raises(InputError, match="did you mean 'cycles6'"):
        pretrained_agent("cycle6")
    with pytest.raises(InputError, match="no such file"):
        pretrained_agent(str(tmp_path / "none.safetensors"))
    truncated = tmp_path / "cut.safetensors"
    truncated.write_bytes(agent_file.read_bytes()[:-100])
    with pytest.raises(InputError, match="truncated or damaged"):
        pretrained_agent(str(truncated))
    run = tmp_path / "run"
    train(away(agent_file), run, quiet=True, dataset=molecules())
    with pytest.raises(InputError, match="contains no agent"):
        pretrained_agent(str(run / "model.safetensors"))
    model, config = checkpoint.load_model(run / "model.safetensors")
    with pytest.raises(InputError, match="features"):
        save_agent(tmp_path / "x.safetensors", model, config, {})
    for settings, words in (
        ({"agent": {"pretrained": ""}}, "must be set together"),
        ({"training": {"paradigm": "ord"}}, "must be set together"),
        ({"training": {"agent_steps": 3}}, "does not train its agent"),
        ({"agent": {"state": "predictor"}}, "agent.state = q_network"),
        ({"training": {"starts_per_graph": 2}}, "searches once"),
    ):
        with pytest.raises(InputError, match=words):
            away(agent_file).replaced(**settings)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_share_of_the_graphs_keeps_its_random_tuples(agent_file, share):
    dataset = molecules()
    config = away(agent_file).replaced(training={"unmoved_share": share})
    pre = Pre(config, dataset, dataset.split(0, 0), CPU)
    graphs, ids = pre.packed[torch.arange(12).repeat(50)], torch.arange(12).repeat(50)
    start = pre.random.state()
    found, sets = pre.sets_to_learn(graphs, ids)
    pre.random.load_state(start)
    states = pre.searcher.walk(graphs, generator=pre.random.device)
    unmoved = (found == states[0].tuples).flatten(1).all(dim=1)
    moved = (found == states[-1].tuples).flatten(1).all(dim=1)
    assert sets == 1 and bool((unmoved | moved).all())
    stayed = float((states[0].tuples == states[-1].tuples).flatten(1).all(dim=1).float().mean())
    assert float(unmoved.float().mean()) == pytest.approx(share + (1 - share) * stayed, abs=0.1)


def test_unmoved_tuples_are_for_agents_that_move_random_ones(agent_file):
    with pytest.raises(InputError, match="unmoved_share mixes random and moved tuples"):
        Config().replaced(training={"unmoved_share": 0.5})
    with pytest.raises(InputError, match="unmoved_share mixes random and moved tuples"):
        away(agent_file, start="central").replaced(training={"unmoved_share": 0.5})
