"""Steps recorded as CUDA graphs are the same steps; a model on a GPU is the same model."""

import copy

import pytest
import torch

from builders import packed_edges, random_edges, random_targets, seeded
from maggnn.config import AgentConfig, Config, EncoderConfig, PredictorConfig
from maggnn.data.registry import Dataset
from maggnn.data.splits import all_in_all
from maggnn.model.features import FeatureSpec
from maggnn.model.kernels import messages, reference
from maggnn.model.kernels.capture import WARM_UP, Captured
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.normalise import Norm
from maggnn.model.state import State
from maggnn.model.tuples import sample_tuples
from maggnn.training.environment import individual_loss, mean_loss
from maggnn.training.paradigms import Ord

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible"),
]
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
STEPS = 10


def make_packed(sizes, task="classification", level="graph", seed=0):
    generator = seeded(seed)
    edges = random_edges(sizes, 0.4, generator)
    y = random_targets(task, level, sizes, 3, generator)
    x = torch.randn(sum(sizes), 3, generator=generator)
    edge_attr = torch.randint(4, (sum(map(len, edges)), 2), generator=generator)
    return packed_edges(sizes, edges, x=x, edge_attr=edge_attr, y=y, level=level)


def random_sizes(count, seed=0):
    return torch.randint(3, 20, (count,), generator=seeded(seed)).tolist()


def make_paradigm(packed, task="classification", seed=0, **sections):
    base = {
        "encoder": {"num_layers": 3, "hidden": 32, "conv": "gine"},
        "predictor": {},
        "agent": {"num_tuples": 2, "tuple_order": 2, "num_moves": 2},
        "replay": {"capacity": 200, "warmup": 40, "walk_length": 3},
        "training": {
            "predictor_steps": STEPS,
            "agent_steps": STEPS,
            "batch_size": 8,
            "agent_batch_size": 16,
            "walkers": 8,
        },
        "runtime": {"seed": seed},
    }
    config = Config().replaced(**{name: base[name] | sections.get(name, {}) for name in base})
    dataset = Dataset("random", packed, task, 3, lambda dataset, generator: [all_in_all(len(packed))])
    return Ord(config, dataset, dataset.splits(0)[0], CUDA)


def recorders(paradigm):
    """Whoever holds a recording, and under which name."""
    walkers = paradigm.walkers
    return [(paradigm, "fit_predictor"), (paradigm, "fit_agent"), (walkers, "move"), (walkers, "restart")]


def unrecorded(paradigm):
    """The same, with every step launched kernel by kernel."""
    for owner, name in recorders(paradigm):
        setattr(owner, name, Captured(getattr(owner, name).function, CPU))
    return paradigm


def counted(paradigm):
    """How often each function runs as Python: while it warms up and when it is recorded."""
    calls = {}
    for owner, name in recorders(paradigm):
        captured = getattr(owner, name)

        def function(shape, *inputs, run=captured.function, name=name):
            calls.setdefault(name, []).append(shape)
            return run(shape, *inputs)

        captured.function = function
    return calls


def train(paradigm, first=0, last=2 * STEPS):
    """Steps `first` to `last` of both phases; what they log is read only at the end."""
    logged = []
    for number in range(first, last):
        phase, step = paradigm.phases[number // STEPS], number % STEPS
        if step == 0:
            phase.begin()
        logged.append(phase.step(step))
    return torch.tensor([[float(value) for value in (*scalars.values(), 0.0, 0.0)][:3] for scalars in logged])


def test_a_shape_is_recorded_after_its_warm_up():
    seen = []

    def double(shape, values):
        seen.append(shape)
        return 2 * values

    captured = Captured(double, CUDA)
    assert captured.records
    inputs = [torch.full((3,), float(number), device=CUDA) for number in range(12)]
    outputs = [captured(number % 2, values) for number, values in enumerate(inputs)]
    assert seen.count(0) == seen.count(1) == WARM_UP + 1
    for values, output in zip(inputs, outputs, strict=True):  # results outlive later calls
        assert torch.equal(output, 2 * values)


def test_recorded_draws_go_on_like_launched_ones():
    ours, theirs = seeded(3, CUDA), seeded(3, CUDA)
    captured = Captured(lambda shape, ones: ones * torch.rand(shape, device=CUDA, generator=ours), CUDA, [ours])
    for number in range(8):
        shape = (4 + number % 2,)
        drawn = captured(shape, torch.ones(shape, device=CUDA))
        assert torch.equal(drawn, torch.rand(shape, device=CUDA, generator=theirs)), number
    assert torch.equal(ours.get_state(), theirs.get_state())


def test_recorded_changes_in_place_stay():
    weight = torch.zeros(2, device=CUDA)

    def step(shape, values):
        weight.add_(values)
        return weight * 1

    captured = Captured(step, CUDA)
    totals = [captured(0, torch.full((2,), 2.0, device=CUDA)) for _ in range(9)]
    assert torch.stack(totals)[:, 0].tolist() == [2.0 * number for number in range(1, 10)]


def test_a_gpu_has_room_for_a_few_sizes():
    mixed, alike = make_packed(random_sizes(50)).to(CUDA), make_packed([2] * 4).select(torch.tensor([0, 0])).to(CUDA)
    ids = torch.tensor([1, 0, 1])
    assert mixed.room_for(ids) == mixed.rounded_size(ids) and mixed.room_for(ids).padding
    assert alike.room_for(ids) == alike.size_of(ids)  # one size is all there is


@pytest.mark.parametrize("target", ["dqn", "double_dqn", "lookahead"])
@pytest.mark.parametrize(("task", "level"), [("classification", "graph"), ("regression", "node")])
def test_recorded_training_equals_launched_training(task, level, target):
    """Every graph in every predictor step: one size, so that most steps replay."""
    packed = make_packed(random_sizes(8), task, level)
    training = {"target": target, "gamma": 0.0 if target == "lookahead" else 0.7}
    training |= {"predictor_steps": STEPS, "agent_steps": STEPS, "batch_size": 8, "agent_batch_size": 16, "walkers": 8}
    recorded = make_paradigm(packed, task, training=training)
    launched = unrecorded(make_paradigm(packed, task, training=training))
    calls = counted(recorded)
    ours, theirs = train(recorded), train(launched)
    assert len(calls["fit_predictor"]) == WARM_UP + 1
    assert len(calls["move"]) == len(calls["restart"]) == WARM_UP + 1  # walkers take every graph too
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    assert theirs[:STEPS, 0].diff().abs().min() > 0  # something is learned at every step


@pytest.mark.parametrize("predictor", [{}, {"whiten": True, "read_marked": True, "ridge": 1e-2}], ids=str)
def test_recorded_training_on_batches_of_many_sizes(predictor):
    packed = make_packed(random_sizes(40))
    recorded, launched = (make_paradigm(packed, predictor=predictor) for _ in range(2))
    calls = counted(recorded)
    ours, theirs = train(recorded), train(unrecorded(launched))
    for name, shapes in calls.items():
        assert all(shapes.count(shape) <= WARM_UP + 1 for shape in shapes), name
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("stop", [STEPS // 2, STEPS + STEPS // 2], ids=["predictor", "agent"])
def test_going_on_from_tensors_is_the_same_run(stop):
    packed = make_packed(random_sizes(8))
    straight = train(make_paradigm(packed))
    first, second = make_paradigm(packed), make_paradigm(packed, seed=0)
    before = train(first, 0, stop)
    tensors = {name: value.detach().clone() for name, value in first.tensors().items()}
    second.load(tensors, first.counters())
    if stop > STEPS:  # what `begin` would have done, but for the buffer, which is full already
        second.phases[1].begin()
    after = train(second, stop)
    torch.testing.assert_close(torch.cat([before, after]), straight, atol=1e-4, rtol=1e-4)


def error(ours, theirs):
    """Against the largest value of the reference."""
    ours, theirs = ours.detach().cpu().double(), theirs.detach()
    return float((ours - theirs).abs().max()) / (float(theirs.abs().max()) or 1.0)


def check_gradients(ours, theirs, tolerance=1e-3):
    """Against the largest of all gradients: a bias before BatchNorm has none but rounding."""
    largest = max(float(weight.grad.abs().max()) for weight in theirs.parameters())
    for (name, weight), mine in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        difference = mine.grad.cpu().double() - weight.grad
        assert float(difference.abs().max()) <= tolerance * largest, name


@pytest.mark.parametrize("padding", [False, True], ids=["exact", "padded"])
def test_messages_choose_by_device(padding):
    packed, ids = make_packed(random_sizes(10)), torch.arange(10)
    size = packed.rounded_size(ids) if padding else packed.size_of(ids)
    graphs, moved = packed.gather(ids, size), packed.to(CUDA).gather(ids.to(CUDA), size)
    h, scale = torch.randn(graphs.total_nodes, 2, 8, generator=seeded()), torch.full((1,), 1.5)
    nodes = int(graphs.num_nodes.sum())
    ours = messages.aggregate(h.to(CUDA), scale.to(CUDA), moved, relu=True)
    theirs = reference.aggregate(h.double(), scale.double(), graphs, True, None)
    assert ours.device.type == "cuda" and error(ours[:nodes], theirs[:nodes]) <= 1e-5
    pooled = messages.sum_nodes(h.to(CUDA), moved)
    assert error(pooled, reference.sum_nodes(h.double(), graphs)) <= 1e-5
    spread = messages.spread_to_nodes(pooled, moved)
    assert error(spread[:nodes], pooled[moved.node_graph][:nodes].cpu().double()) == 0


@pytest.mark.parametrize("with_residual", [False, True])
@pytest.mark.parametrize("num_real", [None, 30])
@pytest.mark.parametrize("kind", ["batch", "layer"])
@pytest.mark.parametrize("training", [True, False])
def test_norms_choose_by_device(kind, num_real, with_residual, training):
    theirs = Norm(kind, 8).double().train(training)
    ours = copy.deepcopy(theirs).float().to(CUDA)
    h, residual = torch.randn(2, 40, 3, 8, generator=seeded())
    count, rows = (None, 40) if num_real is None else (torch.tensor(num_real), num_real)
    expected = theirs.relu(h.double(), count, residual.double() if with_residual else None)
    given = [h.to(CUDA), None if count is None else count.to(CUDA), residual.to(CUDA) if with_residual else None]
    assert error(ours.relu(*given)[:rows], expected[:rows]) <= 1e-5
    for name, value in theirs.state_dict().items():
        assert error(ours.state_dict()[name], value.double()) <= 1e-5, name


def test_one_row_leaves_the_statistics_finite():
    norm = Norm("batch", 8).to(CUDA).train()
    assert norm.relu(torch.randn(1, 8, generator=seeded()).to(CUDA)).isfinite().all()
    assert all(value.isfinite().all() for value in norm.state_dict().values())


@pytest.mark.parametrize("conv", ["gin", "gine", "GATConv"])
@pytest.mark.parametrize(("task", "level"), [("classification", "graph"), ("regression", "node")])
def test_a_model_equals_itself_on_the_cpu(task, level, conv):
    """One training pass: loss, gradients and running statistics, against double precision without padding."""
    torch.manual_seed(0)
    packed, ids = make_packed(random_sizes(30), task, level), torch.arange(30)
    features = FeatureSpec.of(packed.x), FeatureSpec.of(packed.edge_attr)
    encoder = EncoderConfig(conv=conv, num_layers=3, hidden=16, residual=True)
    agent = AgentConfig(num_tuples=2, tuple_order=2)
    readout = PredictorConfig(read_marked=True)
    theirs = MagGNN(3, *features, encoder, readout, agent, task, level, without_edges=True).double().train()
    ours = copy.deepcopy(theirs).float().to(CUDA)
    losses, tables = [], []
    for model, graphs in (
        (ours, packed.to(CUDA).gather(ids.to(CUDA), packed.rounded_size(ids))),
        (theirs, packed[ids]),
    ):
        tuples = sample_tuples(packed[ids], 2, 2, seeded(1)).to(graphs.device)
        outputs = model.predictor(graphs, tuples)
        losses.append(mean_loss(individual_loss(outputs, graphs.y, task), graphs, level))
        tables.append(model.q_network(State.start(graphs, tuples, 0))[0][: int(packed.num_nodes.sum())])
        (losses[-1] + tables[-1].square().mean()).backward()
    assert error(losses[0], losses[1]) <= 1e-5 and error(tables[0], tables[1]) <= 1e-4
    check_gradients(ours, theirs)
    for name, value in theirs.state_dict().items():
        assert error(ours.state_dict()[name], value.double()) <= 1e-4, name


def test_nodes_that_start_alike():
    """k = 0 without features and with residuals: every row of the first residual is one learned constant."""
    torch.manual_seed(0)
    packed = make_packed(random_sizes(12))
    encoder, agent = EncoderConfig(num_layers=2, hidden=16, residual=True), AgentConfig(tuple_order=0, num_moves=0)
    theirs = MagGNN(3, encoder=encoder, agent=agent).double().train()
    ours = copy.deepcopy(theirs).float().to(CUDA)
    ids = torch.arange(12)
    tuples = torch.empty(12, 1, 0, dtype=torch.long)
    answers = [ours.predictor(packed.to(CUDA)[ids], tuples.to(CUDA)), theirs.predictor(packed[ids], tuples)]
    assert error(*answers) <= 1e-4
    for answer in answers:
        answer.square().sum().backward()
    check_gradients(ours.predictor, theirs.predictor, 1e-2)  # many nodes stay alike, and BatchNorm finds no spread
