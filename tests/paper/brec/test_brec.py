"""BREC: P small models as one, the two tests, and what each of them must and must not tell apart."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch

from builders import renumbered
from maggnn.config import EncoderConfig, PredictorConfig
from maggnn.data import load
from maggnn.data.synthetic.expressivity import shrikhande_rook
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model import predictor as plain_predictor
from maggnn.model import q_network as plain_q_network
from maggnn.model.encoder import Encoder
from maggnn.model.features import FeatureSpec
from maggnn.model.refined.copies import refine
from maggnn.model.refined.finest import finest_tuples
from maggnn.model.runtime import make_generator
from maggnn.model.state import State
from maggnn_paper.brec import batched, reproduce
from maggnn_paper.brec import settings as settings_of_tests
from maggnn_paper.brec.agent import (
    AgentSettings,
    best_moves,
    every_answer,
    foreseen,
    learn_agent,
    look_up,
    move_rewards,
    random_moves,
    search,
)
from maggnn_paper.brec.baseline_test import graphs_of
from maggnn_paper.brec.finest import with_finest
from maggnn_paper.brec.pairs import Pairs, like_sized, pair_ids, permuted
from maggnn_paper.brec.paper_test import PaperSettings, class_error, paper_test, train_predictor
from maggnn_paper.brec.practice import joined
from maggnn_paper.brec.proposed import (
    RANDOM_MOVES,
    RANDOM_TUPLES,
    ProposalSettings,
    alike_at_proposed,
    found,
    with_proposed,
)
from maggnn_paper.brec.rpc import (
    FAINTEST,
    LOSS_TO_STOP,
    RELABELLINGS,
    STEEPNESS,
    RpcSettings,
    has_one_set,
    hotelling,
    outputs_after,
    relabellings,
    rpc,
    siamese_loss,
    train_siamese,
    tuple_errors,
    unreliable,
)
from maggnn_paper.brec.settings import BY_AGENT, HARDER
from maggnn_paper.tables.registry import reproduce_table

HIDDEN, LAYERS = 6, 2


def ring(*lengths):
    """Edges of cycles side by side."""
    edges, first = [], 0
    for length in lengths:
        edges += [(first + i, first + (i + 1) % length) for i in range(length)]
        first += length
    return first, edges


def packed(*graphs):
    sizes, edges = zip(*graphs, strict=True)
    flat = torch.tensor([edge for part in edges for edge in part]).T
    return PackedGraphs.build(
        torch.tensor(sizes), torch.tensor([len(part) for part in edges]), flat, undirected_once=True
    )


HEXAGON, TRIANGLES = ring(6), ring(3, 3)
STAR, PATH = (5, [(0, i) for i in range(1, 5)]), (5, [(i, i + 1) for i in range(4)])
GRAPHS = packed(HEXAGON, TRIANGLES, STAR, PATH, ring(8), ring(4, 4))


def with_chord(graph):
    return graph[0], [*graph[1], (0, 3)]


IRREGULAR = packed(with_chord(HEXAGON), with_chord(TRIANGLES), STAR, PATH, with_chord(ring(8)), with_chord(ring(3, 5)))
"""Graphs in which no variance is zero without marks."""


def three_pairs():
    """Of 6, 5 and 8 nodes, so two of them are padded."""
    return Pairs.of(GRAPHS, torch.arange(3))


def hexagon_pair():
    return Pairs.of(GRAPHS, torch.tensor([0]))


def make_predictor(num_pairs, order, outputs, hidden, layers, generator, frequency=0.0):
    encoder = batched.Encoder(num_pairs, order, hidden, layers, generator, frequency)
    return batched.Predictor(encoder, outputs, generator)


def make_q_network(num_pairs, order, hidden, layers, generator):
    return batched.QNetwork(batched.Encoder(num_pairs, order, hidden, layers, generator), generator)


# ---- one batched model is P plain ones ------------------------------------------------------------------


def plain_encoder(order):
    return Encoder(EncoderConfig(num_layers=LAYERS, hidden=HIDDEN, residual=True), order, FeatureSpec(), FeatureSpec())


def copy_into(plain, network, pair):
    """Give a plain network the weights that model `pair` of a batched one has; the pairs of names for gradients."""
    names = {}
    theirs = dict(network.named_parameters())
    for name, parameter in plain.named_parameters():
        other = name.replace("norm.norm.", "norm.").replace("scale.norm.", "scale.").replace("head.1.", "head.")
        parameter.data.copy_(as_plain(theirs[other][pair], parameter))
        names[name] = other
    return names


def as_plain(value, parameter):
    """[in, out] weights are [out, in] in `nn.Linear`, everything else has leading ones."""
    return value.T if parameter.ndim == 2 else value.reshape(parameter.shape)


def check_gradients(plain, network, pair, names):
    theirs = dict(network.named_parameters())
    for name, parameter in plain.named_parameters():
        ours = as_plain(theirs[names[name]].grad[pair], parameter)
        assert torch.allclose(parameter.grad, ours, atol=1e-6), name


def spread_weights(network):
    """Norms begin as the identity: give them weights that show."""
    for module in network.modules():
        if isinstance(module, batched.Norm):
            module.weight.data.uniform_(0.5, 1.5)
            module.bias.data.uniform_(-0.5, 0.5)
        if isinstance(module, batched.GINLayer):
            module.eps.data.uniform_(-0.3, 0.3)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("training", [True, False])
def test_batched_predictor_equals_plain_ones(order, training):
    torch.manual_seed(0)
    graphs, sets, m = Pairs.of(IRREGULAR, torch.arange(3)).double(), 4, 2
    network = make_predictor(3, order, 3, HIDDEN, LAYERS, make_generator(0)).double().train(training)
    spread_weights(network)
    tuples = graphs.sample(sets * m, order, make_generator(1))
    weights = torch.randn(3, 2, sets, 3, dtype=torch.float64)
    outputs = network(graphs, tuples, m)
    (outputs * weights).sum().backward()
    for pair in range(3):
        plain = plain_predictor.Predictor(PredictorConfig(), plain_encoder(order), "graph", 3).double().train(training)
        names = copy_into(plain, network, pair)
        batch = IRREGULAR[torch.tensor([2 * pair, 2 * pair + 1])]
        embeddings = plain.embed(batch, tuples[pair])
        expected = plain.read(embeddings.unflatten(1, (sets, m)), batch)
        assert torch.allclose(outputs[pair], expected, atol=1e-9)
        (expected * weights[pair]).sum().backward()
        check_gradients(plain, network, pair, names)


def test_batched_q_network_equals_plain_ones():
    torch.manual_seed(0)
    graphs, m, order = Pairs.of(IRREGULAR, torch.arange(3)).double(), 2, 2
    network = make_q_network(3, order, HIDDEN, LAYERS, make_generator(0)).double().train()
    spread_weights(network)
    tuples = graphs.sample(m, order, make_generator(1))
    q_table = network(graphs, tuples[:, :, None])[:, :, :, 0]  # [P, 2, n, m, k]
    weights = torch.randn_like(q_table) * graphs.is_node[:, None, :, None, None]
    (q_table * weights).sum().backward()
    for pair in range(3):
        plain = plain_q_network.QNetwork(plain_encoder(order), HIDDEN, order, "mean", "zero", HIDDEN).double().train()
        names = copy_into(plain, network, pair)
        batch = IRREGULAR[torch.tensor([2 * pair, 2 * pair + 1])]
        n = int(graphs.num_nodes[pair])
        expected, _ = plain(State.start(batch, tuples[pair], 0))
        assert torch.allclose(q_table[pair, :, :n].flatten(0, 1), expected, atol=1e-9)
        (expected * weights[pair, :, :n].flatten(0, 1)).sum().backward()
        check_gradients(plain, network, pair, names)


def test_norms_settle_on_the_statistics_of_real_rows():
    norm, share = batched.Norm(2, 3).train(), torch.tensor([[[0.5, 0.5, 0.0]], [[1 / 3] * 3]])
    batches = torch.randn(batched.SETTLING, 2, 3, 3)
    norm(torch.full((2, 3, 3), 7.0), share)  # training leaves no trace
    each = iter(batches)
    batched.settle(norm, lambda: norm(next(each), share))
    assert not norm.training
    assert torch.allclose(norm.mean[0, 0], batches[:, 0, :2].mean((0, 1)), atol=1e-6)
    assert torch.allclose(norm.variance[1, 0], batches[:, 1].var(1, correction=0).mean(0), atol=1e-6)


def test_a_norm_does_not_magnify_rounding():
    norm, share = batched.Norm(1, 1).train(), torch.full((1, 1, 4), 0.25)
    rows = 3.0 + 1e-7 * torch.arange(4.0).view(1, 4, 1)
    assert not norm(rows, share).any()
    batched.settle(norm, lambda: norm(rows, share))
    assert not norm(rows, share).any()


def test_adam_is_that_of_torch():
    generator = make_generator(0)
    ours = torch.nn.Parameter(torch.randn(2, 3, generator=generator))
    theirs = torch.nn.Parameter(ours.detach().clone())
    reference, optimiser = torch.optim.Adam([theirs], lr=0.1), batched.Adam([ours])
    optimiser.rate.fill_(0.1)
    for _ in range(5):
        for parameter in (ours, theirs):
            parameter.grad = parameter.detach() ** 2 + 1
        reference.step()
        optimiser.step()
    assert torch.allclose(ours, theirs, atol=1e-6)


# ---- pairs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [0, 2])
def test_relabelling_changes_nothing_given_relabelled_tuples(order):
    graphs = three_pairs().double()
    network = make_predictor(3, order, 4, HIDDEN, LAYERS, make_generator(0)).double().eval()
    spread_weights(network)
    tuples = graphs.sample(6, order, make_generator(1))
    noise = torch.rand(3, 2, 8).masked_fill(~graphs.is_node[:, None], 2.0)
    old_of_new = noise.argsort(-1)
    new_of_old = old_of_new.argsort(-1)
    moved = new_of_old.gather(2, tuples.flatten(2)).view_as(tuples)
    other = replace(graphs, adjacency=permuted(graphs.adjacency, old_of_new))
    assert not torch.equal(other.adjacency, graphs.adjacency)
    assert torch.allclose(network(graphs, tuples, 2), network(other, moved, 2), atol=1e-12)


def test_relabellings_are_the_same_graphs():
    graphs = three_pairs()
    many = graphs.relabelled(5, make_generator(0))
    assert many.size == (3, 10, 8)
    degrees = graphs.adjacency.sum(-1).sort(-1).values  # [P, 2, n]
    assert torch.equal(many.adjacency.sum(-1).sort(-1).values, degrees.repeat_interleave(5, 1))
    assert not many.adjacency[1, :, 5:].any()  # padding stays padding
    assert len(many.adjacency[1, :5].flatten(1).unique(dim=0)) > 1


def test_tuples_are_nodes_of_their_graph():
    tuples = three_pairs().sample(300, 2, make_generator(0))
    assert tuples.amax((1, 2, 3)).tolist() == [5, 4, 7] and int(tuples.min()) == 0


def test_groups_are_of_like_size():
    sizes = torch.tensor([10, 50, 11, 198, 12, 55, 10])
    groups = like_sized(sizes, torch.arange(7), most_cells=36)
    assert sorted(pair for group in groups for pair in group.tolist()) == list(range(7))
    assert all(int(sizes[group].max()) <= 1.25 * int(sizes[group].min()) for group in groups)
    assert all(len(group) == 1 or len(group) * int(sizes[group].max()) <= 36 for group in groups)


def test_pairs_of_unequal_size_are_refused():
    with pytest.raises(InputError, match="number of nodes"):
        Pairs.of(packed(HEXAGON, STAR), torch.tensor([0]))


# ---- the agent ------------------------------------------------------------------------------------------


def test_the_table_equals_the_direct_way():
    graphs = three_pairs()
    network = make_predictor(3, 2, 2, HIDDEN, LAYERS, make_generator(0)).eval()
    errors = class_error(every_answer(network, graphs, 2))
    tuples = graphs.sample(5, 2, make_generator(1))
    assert torch.allclose(look_up(errors, tuples, graphs), class_error(network(graphs, tuples, 1)), atol=1e-5)
    rewards = move_rewards(errors, graphs, tuples)  # [P, 2, S, n, k]
    changed = tuples.clone()
    changed[1, 0, 3, 1] = 4  # node 4 into slot 1
    before, after = (class_error(network(graphs, part, 1))[1, 0, 3] for part in (tuples, changed))
    assert torch.allclose(rewards[1, 0, 3, 4, 1], before - after, atol=1e-5)


def test_foresight_leads_to_what_two_moves_reach():
    """Only one tuple of the second pair tells; the move that brings its first node is worth more than others."""
    graphs = three_pairs()  # of 6, 5 and 8 nodes
    errors = torch.ones(3, 2, 8, 8)
    errors[1, 0, 3, 4] = 0.0
    errors[1, 0, 7, 7] = -9.0  # padding
    far = foreseen(errors.flatten(2), graphs, 2, 0.5, 2).view(3, 2, 8, 8)
    assert far[1, 0, 3, 4] == 0.0 and far[1, 0, 0, 0] == 0.75 and far[1, 0, 3, 0] == far[1, 0, 2, 4] == 0.5
    assert bool((far[[0, 2]] == 1).all()) and bool((far[1, 1] == 1).all())
    gain = move_rewards(far.flatten(2), graphs, torch.zeros(3, 2, 1, 2, dtype=torch.long))[1, 0, 0]  # [n, k]
    assert gain.argmax(dim=0).tolist() == [3, 4]
    assert torch.equal(foreseen(errors.flatten(2), graphs, 2, 0.0, 2).view_as(errors)[0], errors[0])


def test_moves_change_one_slot_to_a_node_of_the_graph():
    graphs, generator = three_pairs(), make_generator(0)
    tuples = graphs.sample(40, 2, generator)
    q_table = torch.rand(3, 2, 8, 40, 2, generator=generator)
    q_table[:, :, 5:] += 10.0  # the best moves of the pair with 5 nodes would be padding
    for moved in (random_moves(graphs, tuples, generator), best_moves(q_table, graphs, tuples, generator)):
        assert bool(((moved != tuples).sum(-1) <= 1).all())
        assert bool((moved < graphs.num_nodes[:, None, None, None]).all())
    table = torch.zeros(3, 2, 8, 40, 2)
    table[:, :, 3, :, 1] = 1.0
    assert bool((best_moves(table, graphs, tuples, generator)[..., 1] == 3).all())


def test_the_agent_learns_where_the_reward_is():
    """It wants the mark in the middle of a star and of a path."""
    graphs, generator = Pairs.of(GRAPHS, torch.tensor([1])), make_generator(2)
    errors = 1 - torch.tensor([[1.0, 0, 0, 0, 0], [0, 0, 1, 0, 0]])[None]  # the star's centre and the path's
    q_network = make_q_network(1, 1, 8, LAYERS, make_generator(1))
    starts = partial(graphs.sample, tuple_order=1, generator=generator)
    learn_agent(graphs, errors, starts, AgentSettings(steps=200, walkers=8), q_network, generator)
    moved = search(q_network, graphs, graphs.sample(20, 1, make_generator(3)), 2, make_generator(4))
    assert float((moved[0, 0] == 0).float().mean()) > 0.9 and float((moved[0, 1] == 2).float().mean()) > 0.9


def _one_batch(network, graphs, generator):
    return network(graphs, graphs.sample(16, 1, generator), 1)


@torch.no_grad()
def test_sines_keep_what_relu_forgets():
    """A ring of 24 against two of 12: what lies twelve steps from a mark shows in its answer with sines."""
    graphs, generator, apart = Pairs.of(packed(ring(24), ring(12, 12)), torch.tensor([0])), make_generator(1), []
    for frequency in (0.0, 3.0):
        network = make_predictor(1, 1, 4, 8, 14, make_generator(0), frequency).double()
        network.train()
        batched.settle(network, partial(_one_batch, network, graphs.double(), generator))
        embeddings = network.embed(graphs.double(), graphs.sample(24, 1, generator))  # [1, 2, 24, d]
        assert float(embeddings.std(dim=2).max()) < 1e-9  # all nodes of either graph are alike
        apart.append(float((embeddings[:, 0] - embeddings[:, 1]).norm(dim=-1).max() / embeddings.norm(dim=-1).mean()))
    assert apart[1] > 4 * apart[0]


@pytest.mark.parametrize("seed", range(6))
def test_a_trained_model_answers_as_it_did_in_training(seed):
    """With running statistics, every third model of this pair forgot after training what it had learned."""
    settings = PaperSettings(hidden=16, num_layers=3, steps=150, sets=8, tuple_order=1)
    predictor = make_predictor(1, 1, 2, 16, 3, make_generator(seed))
    graphs = hexagon_pair()
    train_predictor(predictor, graphs, settings, make_generator(seed + 100))
    answers = predictor(graphs, graphs.sample(4, 1, make_generator(0)), 1).argmax(-1)  # [1, 2, 4]
    assert bool((answers[0, 0] == 0).all()) and bool((answers[0, 1] == 1).all())


def test_a_plain_network_has_no_agent():
    with pytest.raises(InputError, match="nothing to move"):
        make_q_network(1, 0, 4, 1, make_generator(0))


def test_large_tables_are_refused():
    graphs = hexagon_pair()
    network = make_predictor(1, 7, 2, 4, 1, make_generator(0))
    with pytest.raises(InputError, match="tuples of order 7"):
        every_answer(network, graphs, 7)


# ---- RPC ------------------------------------------------------------------------------------------------


def test_hotelling_bears_answers_of_any_size():
    """All along one direction and far larger than the ridge: a solver would call the matrix singular."""
    sizes = torch.randn(1, RELABELLINGS, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    differences = 1e13 * sizes * torch.ones(16, dtype=torch.float64)
    assert 0 <= float(hotelling(differences, 1e-7)) < 72.34


def test_hotelling_equals_the_direct_formula():
    differences = torch.randn(2, 32, 4, generator=make_generator(0), dtype=torch.float64) + 0.3
    for pair in range(2):
        mean = differences[pair].mean(0)
        covariance = torch.cov(differences[pair].T) + 1e-7 * torch.eye(4)
        expected = 32 * mean @ torch.linalg.inv(covariance) @ mean
        assert float(hotelling(differences, 1e-7)[pair]) == pytest.approx(float(expected))


def test_the_loss_is_that_of_torch():
    first, second = torch.randn(2, 3, 8, 16, generator=make_generator(0))
    expected = [
        torch.nn.CosineEmbeddingLoss(margin=0.0)(first[pair], second[pair], -torch.ones(8)) for pair in range(3)
    ]
    assert torch.allclose(siamese_loss(first, second), torch.stack(expected), atol=1e-6)


def test_one_graph_against_itself_stays_below_the_threshold():
    """An untrained model with random marks; T^2 of equal distributions, by the rule that we count by."""
    graphs = three_pairs().some_graphs(slice(0, 1))
    control = Pairs(torch.cat([graphs.adjacency] * 2, 1), graphs.num_nodes).relabelled(RELABELLINGS, make_generator(0))
    network = make_predictor(3, 2, 16, HIDDEN, LAYERS, make_generator(1)).double().eval()
    settings = RpcSettings(starts=4, num_tuples=2)
    outputs = outputs_after(network, None, control, settings, 0, make_generator(2))
    t_square = hotelling(outputs[:, :RELABELLINGS] - outputs[:, RELABELLINGS:], 1e-7)
    assert not unreliable(t_square).any()


def test_a_tuples_error_says_how_far_the_other_graph_is():
    """By brute force, with padding; tuples of padding are nobody's nearest."""
    graphs = three_pairs()
    network = make_predictor(3, 1, 4, HIDDEN, LAYERS, make_generator(0)).double().eval()
    answers, errors = every_answer(network, graphs.double(), 1), tuple_errors(network, graphs, 1)  # [3, 2, 8, 4]
    for pair, n in enumerate(graphs.num_nodes.tolist()):
        for graph in range(2):
            own, other = answers[pair, graph, :n], answers[pair, 1 - graph, :n]
            distance = (own[:, None] - other).norm(dim=-1).amin(dim=1)
            expected = 1 - (distance / distance.max().clamp(min=FAINTEST)) ** STEEPNESS
            assert torch.allclose(errors[pair, graph, :n].double(), expected, atol=1e-5)
    same = replace(graphs, adjacency=graphs.adjacency[:, [0, 0]])
    assert bool((tuple_errors(network, same, 1).masked_select(graphs.is_node[:, None]) == 1).all())  # nothing tells


def test_early_stopping_freezes_only_the_finished_pairs():
    """The pair that plain message passing tells apart stops; the other two cannot reach the loss."""
    relabelled = three_pairs().relabelled(8, make_generator(0))
    settings = RpcSettings(tuple_order=0, num_tuples=1, hidden=8, num_layers=2, epochs=6)
    network = make_predictor(3, 0, 16, 8, 2, make_generator(1))
    epochs, loss = train_siamese(network, relabelled, settings, make_generator(2), torch.zeros(3, dtype=torch.bool))
    assert float(loss[1]) < LOSS_TO_STOP and int(epochs[1]) < 6
    assert epochs[[0, 2]].tolist() == [6, 6] and bool((loss[[0, 2]] >= LOSS_TO_STOP).all())
    again = make_predictor(3, 0, 16, 8, 2, make_generator(1))
    train_siamese(
        again, relabelled, replace(settings, epochs=int(epochs[1])), make_generator(2), torch.zeros(3, dtype=torch.bool)
    )
    for (name, value), other in zip(network.state_dict().items(), again.state_dict().values(), strict=True):
        assert torch.equal(value[1], other[1]), name  # as it was when it stopped
    left = torch.tensor([0, 2])
    alone = batched.some_models(make_predictor(3, 0, 16, 8, 2, make_generator(1)), left)
    train_siamese(
        alone, relabelled.some_pairs(left), settings, make_generator(2), one_set=torch.zeros(2, dtype=torch.bool)
    )
    for (name, value), other in zip(network.state_dict().items(), alone.state_dict().values(), strict=True):
        assert torch.allclose(value[left], other, atol=1e-6), name  # the others go on as if it had never been there


SMALL_AGENT = AgentSettings(steps=40, walkers=8)


def test_rpc_tells_a_hexagon_from_triangles_with_a_mark_and_not_without():
    settings = RpcSettings(hidden=16, num_layers=3, starts=4, num_tuples=2, num_moves=2, agent=SMALL_AGENT)
    graphs = hexagon_pair()
    without, marked = (rpc(graphs, replace(settings, tuple_order=order), seed=0) for order in (0, 1))
    assert not without.distinguished("gin").any() and not without.distinguished("gin", factor=1).any()
    for method in ("random-marks", "random-moves", "mag-gnn"):
        assert bool(marked.distinguished(method).all()), (method, marked.t_square[method])
        assert not unreliable(marked.control[method]).any()


def finest_pairs(graphs, pairs, num_tuples=2, tuple_order=2):
    """Some pairs of a set with their finest tuples."""
    ids = (2 * torch.tensor(pairs)[:, None] + torch.arange(2)).flatten()
    marked = finest_tuples(graphs.select(ids), num_tuples, tuple_order).unflatten(0, (-1, 2))
    return replace(Pairs.of(graphs, torch.tensor(pairs)), marked=marked)


def test_relabelling_carries_the_finest_tuples_along():
    """What is carried is what the rule finds in the relabelled graph, but for copies that look the same."""
    relabelled = finest_pairs(shrikhande_rook(), [0], num_tuples=3).relabelled(4, make_generator(0))
    graphs = graphs_of(relabelled, range(8))
    found = finest_tuples(PackedGraphs.of_batch(graphs), 3, 2)
    assert torch.equal(refine(graphs, relabelled.marked[0]).hashes, refine(graphs, found).hashes)
    padded = finest_pairs(GRAPHS, [0, 1, 2]).relabelled(5, make_generator(1))
    assert bool((padded.marked < padded.num_nodes[:, None, None, None]).all())


def test_rpc_at_the_finest_tuples_tells_two_strongly_regular_graphs_and_no_relabellings():
    settings = RpcSettings(start="finest", num_tuples=1, starts=1, hidden=8, num_layers=4, frequency=1.5)
    tested = rpc(finest_pairs(shrikhande_rook(), [0], num_tuples=1), settings, seed=0)
    assert tested.t_square.keys() == {"mag-gnn-finest"}
    assert bool(tested.distinguished("mag-gnn-finest").all())
    assert float(tested.control["mag-gnn-finest"]) < 1e-3  # nothing is drawn, so nothing varies
    rook = packed_pair(renumbered(shrikhande_rook(), 1), 1, shrikhande_rook(), 1)
    assert not rpc(finest_pairs(rook, [0], num_tuples=1), settings, seed=0).distinguished("mag-gnn-finest").any()
    with pytest.raises(InputError, match="the start finest needs pairs with their tuples"):
        rpc(Pairs.of(GRAPHS, torch.tensor([0])), settings, seed=0)


def test_one_relabelling_stands_for_eight_that_are_alike():
    """Where a graph has one set of tuples, a batch of equal copies has the gradients and statistics of one."""
    settings = RpcSettings(start="finest", num_tuples=1, starts=1, hidden=8, num_layers=3, frequency=1.5)
    relabelled = finest_pairs(shrikhande_rook(), [0], num_tuples=1).relabelled(RELABELLINGS, make_generator(0)).double()
    trained = []
    for one_set in (True, False):
        network = make_predictor(1, 2, 16, 8, 3, make_generator(1), 1.5).double()
        alike = torch.tensor([one_set])
        _, loss = train_siamese(network, relabelled, replace(settings, epochs=3), make_generator(2), alike)
        trained.append((network.state_dict(), loss))
    (first, loss), (second, other) = trained
    assert torch.allclose(loss, other, atol=1e-9)
    for name, value in first.items():
        assert torch.allclose(value, second[name], atol=1e-7), name


def test_every_relabelling_takes_one_of_the_sets_that_were_found():
    settings = RpcSettings(
        start="walks", num_tuples=1, starts=1, proposals=ProposalSettings(RANDOM_TUPLES, numberings=4)
    )
    graphs = Pairs.of(shrikhande_rook(), torch.tensor([0]))
    tuples, costs = found(graphs, [0], 1, 2, settings.proposals)
    assert tuples.shape == (1, 2, 4, 2)
    assert (costs.graphs, costs.passes, costs.tuples) == (2, 0, 2 * 16**2) and costs.refined <= 2 * 60
    drawn = torch.tensor([[[[0, 1], [2, 3]], [[4, 5], [6, 7]]]])  # [P, 2, R = 2, k]
    marked = relabellings(replace(graphs, marked=drawn), settings, make_generator(0))
    assert marked.marked.shape == (1, 2 * RELABELLINGS, 1, 2)
    carried = replace(graphs, marked=drawn).relabelled(RELABELLINGS, make_generator(0))
    for graph in range(2 * RELABELLINGS):
        assert marked.marked[0, graph, 0].tolist() in carried.marked[0, graph].tolist()
    first = (marked.marked == carried.marked[:, :, :1]).all(-1).view(2, RELABELLINGS)
    assert first.sum(1).tolist() == [RELABELLINGS // 2] * 2  # each set is taken by as many of a graph's relabellings


def test_random_moves_in_the_agents_search_do_not_depend_on_the_numbering():
    settings = ProposalSettings(RANDOM_MOVES, starts=2, moves=2, numberings=4)
    tuples, costs = found(Pairs.of(shrikhande_rook(), torch.tensor([0])), [0], 1, 2, settings)
    assert tuples.shape == (1, 2, 4, 2)
    assert (costs.graphs, costs.alike) == (2, 2) and 0 < costs.passes <= settings.passes


def test_an_agent_from_elsewhere_marks_two_strongly_regular_graphs(tmp_path):
    """The agent `any` proposes; the same in every numbering, so one set of tuples stands for all."""
    own = ProposalSettings("any", starts=2, moves=2, numberings=3)
    settings = RpcSettings(start="agent", num_tuples=1, starts=1, hidden=8, num_layers=4, frequency=1.5, proposals=own)
    plain = Pairs.of(shrikhande_rook(), torch.tensor([0]))
    graphs, costs = with_proposed(plain, (0,), 1, 2, own, tmp_path)
    assert (costs.graphs, costs.alike) == (2, 2) and costs.passes <= own.passes
    assert graphs.marked.shape == (1, 2, 3, 2) and bool(has_one_set(graphs, settings).all())
    again, same_costs = with_proposed(plain, (0,), 1, 2, own, tmp_path)
    assert torch.equal(again.marked, graphs.marked) and same_costs == costs
    tested = rpc(graphs, settings, seed=0)
    assert bool(tested.distinguished("mag-gnn-pre").all()) and float(tested.control["mag-gnn-pre"]) < 1e-3


def test_three_marks_where_two_cannot(packed_data):
    """Two marks cannot distinguish the last two of the distance-regular pairs, nor the finest ones a third pair."""
    jobs = reproduce.make_jobs("finest3", "mag-gnn", ["regular-distance"], runs=1)
    pairs = {pair for job in jobs for pair in job.pairs}
    assert {job.settings.tuple_order for job in jobs} == {3}
    assert {398, 399} <= pairs < set(range(380, 400)) and len(pairs) == 3
    graphs = load("brec").graphs
    for pair in (380, *pairs):
        ids = torch.tensor([2 * pair, 2 * pair + 1])
        first, second = refine(graphs[ids], finest_tuples(graphs.select(ids), 1, 2)).hashes
        assert bool(first == second) == (pair in pairs)


def test_a_third_mark_beside_those_that_an_agent_found(packed_data):
    """The pairs are those that two marks of the agent cannot distinguish; refinement adds the third."""
    settings = replace(BY_AGENT, starts=2, moves=2, numberings=2)
    graphs = load("brec").graphs
    alike = alike_at_proposed((0, 380, 398, 399), settings)
    assert {398, 399} <= alike and 0 not in alike  # no two marks distinguish the last two
    pair = Pairs.of(graphs, torch.tensor([398]))
    for own in (settings, replace(settings, agent=RANDOM_TUPLES)):
        two, three = (found(pair, [398], 1, order, own)[0] for order in (2, 3))  # [1, 2, R, k]
        assert three.shape == (1, 2, 2, 3) and torch.equal(three[..., :2], two)
        nodes = torch.arange(int(pair.num_nodes[0]))
        for place, tuples in enumerate(three[0]):
            graph = graphs[torch.tensor([2 * 398 + place])]
            every = torch.cat([tuples[0, :2].expand(len(nodes), 2), nodes[:, None]], dim=1)
            most = int(refine(graph, every[None]).num_colours.max())
            assert int(refine(graph, tuples[None]).num_colours[0, 0]) == most


def packed_pair(first, one, second, other):
    """Graph `one` of a set and graph `other` of another as a pair."""
    return joined([first.select(torch.tensor([one])), second.select(torch.tensor([other]))])


def test_finest_tuples_are_found_once_for_a_folder(packed_data, tmp_path):
    settings = RpcSettings(start="finest", num_tuples=2)
    graphs = Pairs.of(load("brec").graphs, torch.tensor([0, 3]))
    found = with_finest(graphs, (0, 3), settings, tmp_path).marked
    assert torch.equal(found, finest_pairs(load("brec").graphs, [0, 3]).marked)
    (kept,) = (tmp_path / "finest").iterdir()
    before = kept.stat().st_mtime_ns
    assert torch.equal(with_finest(graphs, (0, 3), settings, tmp_path).marked, found)
    assert kept.stat().st_mtime_ns == before


@pytest.mark.parametrize("start", ["random", "nodes"])
def test_rpc_does_not_tell_a_graph_from_its_relabelling(start):
    settings = RpcSettings(hidden=16, num_layers=3, starts=4, num_moves=2, start=start, agent=SMALL_AGENT)
    graphs = Pairs.of(IRREGULAR, torch.tensor([0])).some_graphs(slice(0, 1)).relabelled(2, make_generator(3))
    tested = rpc(graphs, settings, seed=0)
    for method in ("random-marks", "random-moves", "mag-gnn"):
        assert not tested.distinguished(method).any(), method


def test_starts_at_every_node_do_not_depend_on_the_numbering():
    relabelled = hexagon_pair().relabelled(4, make_generator(0))
    network = make_predictor(1, 2, 16, 16, 3, make_generator(1)).double().eval()
    spread_weights(network)
    settings = RpcSettings(start="nodes", starts=1, hidden=16, num_layers=3)
    outputs = outputs_after(network, None, relabelled, settings, 0, make_generator(2)).unflatten(1, (2, 4))
    assert torch.allclose(outputs, outputs[:, :, :1].expand_as(outputs), atol=1e-12)
    assert not torch.allclose(outputs[:, 0], outputs[:, 1], atol=1e-6)
    with pytest.raises(InputError, match="equal size"):
        rpc(three_pairs(), settings, seed=0)


# ---- the paper's test -----------------------------------------------------------------------------------


def test_the_papers_test_tells_a_hexagon_from_triangles_with_a_mark_and_not_without():
    settings = PaperSettings(hidden=16, num_layers=3, steps=150, sets=8, num_moves=2, agent=SMALL_AGENT)
    graphs = hexagon_pair()
    without, marked = (paper_test(graphs, replace(settings, tuple_order=order), seed=0) for order in (0, 1))
    assert without.right["gin"].tolist() == [0]
    for method in ("random-marks", "random-moves", "mag-gnn"):
        assert bool(marked.distinguished(method, at_least=950).all())


def test_the_papers_test_does_not_tell_a_graph_from_its_relabelling():
    settings = PaperSettings(hidden=16, num_layers=3, steps=60, sets=8, num_moves=2, agent=SMALL_AGENT)
    graphs = Pairs.of(IRREGULAR, torch.tensor([0])).some_graphs(slice(0, 1)).relabelled(2, make_generator(3))
    tested = paper_test(graphs, settings, seed=0)
    for method in ("random-marks", "random-moves", "mag-gnn"):
        assert not tested.distinguished(method, at_least=950).any(), method


@pytest.mark.parametrize(
    "bad",
    [
        lambda: paper_test(hexagon_pair(), PaperSettings(steps=0), 0),
        lambda: paper_test(hexagon_pair(), PaperSettings(starts=10), 0),
        lambda: paper_test(hexagon_pair().some_graphs(slice(0, 1)), PaperSettings(), 0),
        lambda: rpc(hexagon_pair().some_graphs(slice(0, 1)), RpcSettings(), 0),
        lambda: rpc(hexagon_pair(), RpcSettings(num_tuples=0), 0),
    ],
)
def test_impossible_settings_are_refused(bad):
    with pytest.raises(InputError):
        bad()


# ---- the table ------------------------------------------------------------------------------------------


def test_every_pair_has_its_category(packed_data):
    ids = pair_ids(tuple(reproduce.DATASETS))
    counts = {name: len(pairs) for name, pairs in ids.items()}
    assert [counts[name] for name in ("basic", "regular", "extension", "cfi", "all")] == [60, 140, 100, 100, 400]
    with pytest.raises(InputError, match="no part"):
        pair_ids(["basics"])


def test_reproduced_in_miniature(packed_data, tmp_path, monkeypatch):
    agent = AgentSettings(steps=2, walkers=2)
    small = {"hidden": 4, "num_layers": 1, "agent": agent}
    tests = {
        "rpc": RpcSettings(epochs=1, starts=1, num_tuples=1, **small),
        "all": RpcSettings(epochs=1, starts=1, num_tuples=1, start="all", frequency=3.0, **small),
        "finest": RpcSettings(epochs=1, starts=1, num_tuples=1, num_moves=0, start="finest", **small),
        "paper": PaperSettings(steps=2, sets=2, starts=20, right=19, **small),
    }
    for module in (reproduce, settings_of_tests):
        monkeypatch.setattr(module, "TESTS", tests)
    monkeypatch.setenv("MAGGNN_COMMIT", "1234567")
    rows = reproduce.reproduce(tmp_path, runs=2, datasets=["regular-simple"])
    methods = ("gin", "random-marks", "random-moves", "mag-gnn")
    assert [(row.table, row.dataset, row.method) for row in rows] == [
        *(("brec_rpc", "regular-simple", method) for method in methods),
        *(("brec_rpc", "regular-simple:all", method) for method in methods[:2]),  # nothing moves
        *(("brec_rpc", "regular-simple:finest", method) for method in ("gin", "mag-gnn-finest")),
        *(("brec_paper", "regular-simple", method) for method in methods),
    ]
    assert "every tuple" in rows[5].config and "agent" not in rows[5].config and rows[5].m is None
    assert "finest colouring" in rows[7].config and "agent" not in rows[7].config and (rows[7].m, rows[7].t) == (1, 0)
    assert "no agent was trained" in rows[7].note and rows[7].passes == 1
    assert all(row.metric == "pairs" and row.runs == 2 for row in rows)
    assert len({row.key for row in rows}) == len(rows)
    kept = sorted(tmp_path.glob("*.json"))
    before = [path.stat().st_mtime_ns for path in kept]
    assert sum(len(json.loads(path.read_text())["pairs"]) for path in kept) == 4 * 2 * 2 * 50
    assert reproduce.reproduce(tmp_path, runs=2, datasets=["regular-simple"]) == rows
    assert reproduce_table("brec", tmp_path, 2, 1, rows=["regular-simple:paper"]) == rows[8:]
    assert [path.stat().st_mtime_ns for path in kept] == before  # nothing is measured twice


def test_every_tuple_at_once_tells_what_two_marks_can():
    """Rings of 8 and of 4 + 4: every tuple once, nothing drawn, so nothing varies."""
    settings = RpcSettings(start="all", starts=1, hidden=8, num_layers=4, frequency=3.0)
    tested = rpc(Pairs.of(GRAPHS, torch.tensor([2])), settings, seed=0)
    assert tested.t_square.keys() == {"random-marks"}
    assert bool(tested.distinguished("random-marks").all()) and float(tested.control["random-marks"]) < 1e-3
    ring_twice = Pairs.of(packed(ring(5, 3), ring(3, 5)), torch.tensor([0]))
    same = rpc(ring_twice, replace(settings, num_layers=16), seed=0)
    assert not bool(same.distinguished("random-marks").any())  # sines do not bring rounding to scale
    with pytest.raises(InputError, match="pairs of equal size"):
        rpc(three_pairs(), settings, seed=0)


def test_hard_categories_have_settings_of_their_own():
    for test in reproduce.TESTS:
        plain, hard, deep = (
            reproduce.settings_for(test, "mag-gnn", name) for name in ("basic", "regular-distance", "cfi")
        )
        assert plain == reproduce.TESTS[test]
        if test in ("rpc", "nodes", "paper"):  # the others have one setting for all categories
            assert hard.hidden > plain.hidden and hard.agent.steps > plain.agent.steps
            assert deep.num_layers > plain.num_layers and deep.frequency > 0
        without = reproduce.settings_for(test, "gin", "cfi")
        assert without.tuple_order == 0 and without.num_layers == deep.num_layers
    assert set(HARDER) <= set(reproduce.PIECES)


def test_unknown_rows_and_methods_are_named(tmp_path):
    with pytest.raises(InputError, match="basics"):
        reproduce_table("brec", tmp_path, 1, 1, rows=["basics"])
    with pytest.raises(InputError, match="sswl"):
        reproduce_table("brec", tmp_path, 1, 1, rows=["basic"], methods=["sswl"])
    with pytest.raises(InputError, match="basic:official"):
        reproduce.reproduce(tmp_path, datasets=["basic:official"])
