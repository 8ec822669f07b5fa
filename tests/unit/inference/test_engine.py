"""Answers for many graphs: in order, in chunks that fit the budget, the same as one graph at a time."""

import pytest
import torch

from maggnn.config import AgentConfig, EncoderConfig
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import LIVE_COPIES, Engine
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN

SIZES = torch.tensor([3, 9, 1, 40, 5, 6, 2, 8, 30, 4])


def make_packed(sizes=SIZES):
    rings = [torch.stack([torch.arange(n), (torch.arange(n) + 1) % n])[:, : n if n > 2 else n - 1] for n in sizes]
    return PackedGraphs.build(
        sizes, torch.tensor([ring.shape[1] for ring in rings]), torch.cat(rings, dim=1), undirected_once=True
    )


def make_engine(memory_mb=1000.0, level="graph", num_moves=0):
    torch.manual_seed(0)
    agent = AgentConfig(num_tuples=2, tuple_order=1, num_moves=num_moves)
    model = MagGNN(3, encoder=EncoderConfig(num_layers=2, hidden=8), agent=agent, level=level)
    return Engine(model, "cpu", memory_mb), model


def megabytes(nodes, hidden=8, num_tuples=2):
    """The budget that `nodes` nodes fill."""
    return 4 * hidden * num_tuples * LIVE_COPIES * nodes / 1e6


@pytest.mark.parametrize("nodes", [1, 12, 45, 10_000])
def test_chunks_cover_all_graphs_in_order_and_keep_to_the_budget(nodes):
    engine, _ = make_engine(megabytes(nodes))
    ids = torch.tensor([3, 0, 0, 9, 8, 2, 7, 1, 5])
    chunks = list(engine.chunks(make_packed(), ids))
    assert torch.cat(chunks).tolist() == ids.tolist()
    assert all(len(chunk) == 1 or int(SIZES[chunk].sum()) <= nodes + 1e-6 for chunk in chunks)
    assert (len(chunks) == 1) == (nodes == 10_000)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_answers_do_not_depend_on_the_chunks(level):
    """Vertex-transitive graphs: every mark tells the same, so that random starts do not matter."""
    ids = torch.arange(len(SIZES))
    whole, model = make_engine(level=level)
    small, _ = make_engine(megabytes(12), level=level)
    answers = whole.predict(make_packed(), ids)
    assert answers.shape == (int(SIZES.sum()) if level == "node" else len(SIZES), 3)
    if level == "graph":
        torch.testing.assert_close(small.predict(make_packed(), ids), answers)
        graphs = make_packed()[ids]
        tuples = torch.zeros(len(ids), 2, 1, dtype=torch.long)
        with torch.no_grad():
            torch.testing.assert_close(whole.answer_for(graphs, tuples), model.eval().predictor(graphs, tuples))


def test_searching_repeats_with_the_seed_and_reports_progress():
    ids, seen = torch.arange(len(SIZES)), []
    first, second = (make_engine(megabytes(45), num_moves=2)[0] for _ in range(2))
    assert torch.equal(first.predict(make_packed(), ids, done=seen.append), second.predict(make_packed(), ids))
    assert seen[-1] == len(ids) and seen == sorted(seen)


@pytest.mark.parametrize("memory_mb", [0, -1.0])
def test_a_budget_of_nothing_is_refused(memory_mb):
    with pytest.raises(InputError, match="memory budget"):
        make_engine(memory_mb)


def test_threads_change_no_answer_and_are_put_back():
    ids, answers = torch.arange(len(SIZES)).repeat(3), []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        try:
            engine, _ = make_engine(megabytes(45), num_moves=2)
            engine.memory_mb = megabytes(45)
            answers.append(engine.predict(make_packed(), ids))
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(1)
    torch.testing.assert_close(*answers)


def test_no_graphs_have_no_answers():
    engine, _ = make_engine()
    assert engine.predict(make_packed(), torch.empty(0, dtype=torch.long)).shape == (0, 3)


def test_a_mistake_in_a_thread_reaches_the_caller():
    engine, _ = make_engine(megabytes(12))
    engine.predict(make_packed())
    engine.model.predictor.second = torch.nn.Identity()
    engine.model.predictor.norm = None
    with pytest.raises(AttributeError):
        engine.predict(make_packed(), torch.arange(len(SIZES)))


def test_nothing_of_the_caller_is_changed():
    before, model = torch.backends.cuda.matmul.allow_tf32, make_engine()[1]
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_num_threads(2)
    try:
        engine = Engine(model, "cpu", megabytes(24))
        engine.predict(make_packed(), torch.arange(len(SIZES)).repeat(4))
        assert torch.backends.cuda.matmul.allow_tf32
    finally:
        torch.set_num_threads(1)
        torch.backends.cuda.matmul.allow_tf32 = before
    assert all(parameter.requires_grad for parameter in model.parameters())


def featured(seed, top, count=12):
    """Random trees whose nodes and edges have categories below `top`."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 9, (count,), generator=generator)
    parents = [torch.stack([torch.arange(1, n), torch.arange(n - 1)]) for n in sizes.tolist()]
    edges = torch.cat(parents, dim=1)
    x = torch.randint(top, (int(sizes.sum()), 1), generator=generator)
    return PackedGraphs.build(sizes, sizes - 1, edges, x, torch.randint(top, (edges.shape[1], 1), generator=generator),
                              undirected_once=True)  # fmt: skip


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("marking", ["binary", "distance", "directed"])
def test_one_engine_answers_for_any_number_of_sets(adapt, marking):
    """Tables grow with what occurs, and the answers are the model's own."""
    torch.manual_seed(0)
    spec, agent = FeatureSpec((6,)), AgentConfig(num_tuples=2, tuple_order=1, num_moves=2, start="central")
    config = EncoderConfig(conv="gine", num_layers=2, hidden=8, marking=marking)
    model = MagGNN(3, spec, spec, config, agent=agent).eval()
    engine = Engine(model, "cpu", adapt=adapt)
    for seed, top in ((0, 2), (1, 6), (2, 3)):
        packed = featured(seed, top)
        with torch.no_grad():
            expected = model(packed[torch.arange(len(packed))])
        torch.testing.assert_close(engine.predict(packed), expected)
        batches = [packed[part] for part in torch.arange(len(packed)).split(5)]
        torch.testing.assert_close(engine.predict(batches), expected)


def test_batches_are_answered_in_order_and_counted():
    engine, _ = make_engine()
    packed, seen = make_packed(), []
    batches = (packed[part] for part in torch.arange(len(packed)).split(4))
    assert engine.predict(batches, done=seen.append).shape == (len(packed), 3)
    assert seen == [4, 8, 10]


def test_a_seed_starts_anew():
    engine, _ = make_engine(num_moves=2)
    packed = make_packed()
    first = engine.predict(packed, seed=5)
    engine.predict(packed)
    assert torch.equal(engine.predict(packed, seed=5), first)


def test_later_training_changes_no_answer():
    """Not even where new atoms make the engine build its tables anew."""
    torch.manual_seed(0)
    spec, agent = FeatureSpec((6,)), AgentConfig(num_tuples=1, tuple_order=1, num_moves=1, start="central")
    model = MagGNN(3, spec, spec, EncoderConfig(conv="gine", num_layers=2, hidden=8), agent=agent).eval()
    packed = featured(1, 6)
    with torch.no_grad():
        expected = model(packed[torch.arange(len(packed))])
    engine = Engine(model, "cpu")
    engine.predict(featured(0, 2))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0)
    torch.testing.assert_close(engine.predict(packed), expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda packed: ([packed],), "got a PackedGraphs: maggnn.graphs.conversions.pack_pyg packs"),
        (lambda packed: (packed, torch.tensor([0, 10])), "ids must contain numbers of graphs, from 0 to 9"),
        (lambda packed: (packed, torch.tensor([-1])), "from 0 to 9"),
        (lambda packed: (packed, [0, 1]), "ids is of type list: give a tensor"),
        (lambda packed: (packed, torch.ones(10).bool()), "ids contains booleans"),
        (lambda packed: (packed, None, None, None, torch.zeros(4, 2, 1).long()), "4 sets of tuples for 10 graphs"),
        (lambda packed: (packed, None, None, None, torch.full((10, 2, 1), 39)), "a node id outside its graph"),
    ],
)
def test_what_cannot_be_answered_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        make_engine()[0].predict(*arguments(make_packed()))
