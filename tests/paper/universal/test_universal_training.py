"""The universal agent learns in seconds to beat random moves on graphs it has not seen, and its file is an agent's."""

from dataclasses import replace

import pytest
import torch

from maggnn import AgentConfig, EncoderConfig, MagGNN
from maggnn.errors import InputError
from maggnn.model import weights_file
from maggnn.model.pretrained import pretrained_agent
from maggnn.model.state import State
from maggnn_paper.universal import training
from maggnn_paper.universal.curriculum import CurriculumSettings
from maggnn_paper.universal.exclusion import hashes_of, packed
from maggnn_paper.universal.families import generated
from maggnn_paper.universal.game import ValueTable
from maggnn_paper.universal.training import UniversalSettings, fresh_network, row_loss, save, train, validate

TINY = UniversalSettings(
    encoder=EncoderConfig(num_layers=5, hidden=32, residual=True, marking="distance"),
    steps=400,
    walkers=4,
    batches=6,
    fixed_norms=0.3,
    curriculum=CurriculumSettings(most_nodes=40, batch_nodes=200, graphs=60),
)
FAMILY = "cfi_cubic8"


@pytest.fixture(autouse=True)
def _forbid_our_own_families(monkeypatch):
    """Published sets need not be here; those that these tests use are made by code."""
    ours = hashes_of([graph for graphs in generated().values() for graph in graphs])
    monkeypatch.setattr(training, "forbidden_hashes", lambda: ours)


def test_a_short_training_beats_random_moves_on_fresh_graphs(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(training, "TELL_EVERY", TINY.steps)
    network = train(TINY, told=said.append)
    assert len(said) == 1 and "step 400" in said[0]
    checked = validate(network, TINY, draws=1)
    untrained = validate(fresh_network(TINY).eval(), TINY, draws=1)
    assert checked.fineness[0] == untrained.fineness[0] < checked.most
    assert checked.gains[1] > 0.2 and checked.gains[4] > 0.2, "random moves gain nothing"
    assert untrained.gains[1] < 0.1
    save(tmp_path / "any.safetensors", network, TINY, {"note": "a test"})
    agent = pretrained_agent(str(tmp_path / "any.safetensors"))
    assert agent.tuple_order == 2 and agent.shape.encoder.marking == "distance"
    assert all(torch.equal(value, agent.weights[name]) for name, value in network.state_dict().items())


def test_tuples_move_one_by_one():
    """With any number of tuples each moves as it would alone, so a model may have as many as it likes."""
    network = fresh_network(TINY).eval()
    torch.nn.init.normal_(network.node.weight)
    graphs = packed(generated()[FAMILY][:2])[torch.arange(2)]
    tuples = torch.tensor([[[0, 1], [5, 6], [9, 3]]]).expand(2, -1, -1)
    with torch.no_grad():
        together = network(State.start(graphs, tuples, 0))[0]
        alone = torch.cat([network(State.start(graphs, tuples[:, i : i + 1], 0))[0] for i in range(3)], dim=1)
    assert torch.allclose(together, alone, atol=1e-5)


def test_one_and_three_marks_train_too():
    for order in (1, 3):
        settings = replace(TINY, tuple_order=order, steps=4, curriculum=replace(TINY.curriculum, most_nodes=16))
        network = train(settings, told=print)
        assert network.head[-1].out_features == order


def test_time_ends_a_training_with_its_schedule_complete():
    limited = replace(TINY, steps=10**9, seconds=0.2)
    progress = [now.progress for now in training._positions(limited, training.Position())]
    assert progress[-1] > 0.9 and progress == sorted(progress)
    half = training.Position(step=2, seconds=5.0)
    assert [now.progress for now in training._positions(replace(TINY, steps=4), half)] == [0.5, 0.75]


def test_a_stopped_training_goes_on(tmp_path, monkeypatch):
    """From the weights, the optimiser's state and the place in the schedules of its checkpoint."""
    monkeypatch.setattr(training, "CHECKPOINT_S", 0.0)
    monkeypatch.setattr(training, "TELL_EVERY", 3)
    path, settings = tmp_path / "checkpoint.safetensors", replace(TINY, steps=6)

    def stop(line: str) -> None:
        raise KeyboardInterrupt(line)

    with pytest.raises(KeyboardInterrupt, match="step 3, "):
        train(settings, told=stop, checkpoint=path)
    _, facts = weights_file.load(path)
    assert facts["position"]["step"] == 2, "the third step was told of before it was written"
    said = []
    train(settings, told=said.append, checkpoint=path)
    assert [line.split(",")[0] for line in said] == ["step 3", "step 6"]
    with pytest.raises(InputError, match="other settings"):
        train(replace(settings, seed=1), checkpoint=path)


def test_a_training_goes_on_from_given_weights():
    begin = fresh_network(replace(TINY, seed=5)).state_dict()
    still = train(replace(TINY, steps=1, peak_rate=1e-12), told=print, begin=begin)
    for name, value in still.named_parameters():
        assert torch.allclose(value, begin[name], atol=1e-6), name


def test_some_walkers_begin_on_one_node():
    graphs = packed(generated()[FAMILY][:2])[torch.arange(2)]
    tuples = training.starts(graphs, replace(TINY, walkers=8, one_node=0.25), torch.Generator().manual_seed(0))
    same = tuples[..., 0] == tuples[..., 1]
    assert tuples.shape == (2, 8, 2) and bool(same[:, :2].all()) and not bool(same[:, 2:].all())


def test_losses_are_least_where_q_is_right():
    graphs = packed(generated()[FAMILY][:2])[torch.arange(2)]
    table = ValueTable.of(graphs, 2)
    values = table.outcomes(torch.zeros(2, 1, 2, dtype=torch.long))  # [B, 1, V, k]
    right = values.transpose(1, 2)[graphs.is_node]  # [N, 1, k]
    for loss, scale in (("regression", 1.0), ("imitation", 100.0)):
        standard = (right - right.mean()) / right.std() * scale
        assert row_loss(standard, values, graphs, loss) < 0.2
        assert row_loss(-standard, values, graphs, loss) > 1.0


def test_a_model_uses_the_agent_with_any_number_of_tuples(tmp_path, recwarn):
    path = tmp_path / "any.safetensors"
    save(path, fresh_network(TINY).eval(), TINY, {})
    agent = pretrained_agent(str(path))
    settings = AgentConfig(num_tuples=3, tuple_order=2, num_moves=2)
    agent.check(settings)
    assert not recwarn.list, "its tuples move one by one, so there is nothing to warn of"
    model = MagGNN(2, agent=settings, pretrained=agent.shape).eval()
    model.q_network.load_state_dict(agent.weights)
    graphs = packed(generated()[FAMILY][:2])[torch.arange(2)]
    assert model(graphs).shape == (2, 2)
