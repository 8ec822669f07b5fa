"""PNA and the baselines that draw: what they tell apart, and that only draws are random about them."""

from dataclasses import replace

import networkx as nx
import pytest
import torch
from torch.nn import functional

from maggnn.config import AgentConfig, BaselineConfig, EncoderConfig
from maggnn.data import registry
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.frozen import frozen
from maggnn.model.features import FeatureSpec
from maggnn.model.kernels.messages import sum_nodes
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.named_encoders import make_encoder
from maggnn_paper.baselines import pf_gnn as particles
from maggnn_paper.baselines.dropgnn import _without
from maggnn_paper.baselines.k_osan import drawn

RANDOM = ["rni", "dropgnn", "pf-gnn", "k-osan"]
METHODS = ["pna", *RANDOM]
ATOMS, BONDS = FeatureSpec(categories=(3,)), FeatureSpec(categories=(4,))
COPIES, WIDTH, DRAWS = 3, 12, 2000
TWINS = [nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))]


def molecule(size=7, seed=1):
    """A graph with atoms and bonds."""
    graph, generator = nx.gnp_random_graph(size, 0.35, seed=seed), torch.Generator().manual_seed(seed)
    for node in graph:
        graph.nodes[node]["atom"] = int(torch.randint(3, (), generator=generator))
    for edge in graph.edges:
        graph.edges[edge]["bond"] = int(torch.randint(4, (), generator=generator))
    return graph


def relabelled(graph, seed=0):
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(seed)).tolist()
    return nx.relabel_nodes(graph, dict(enumerate(order)))


def pack(graphs):
    """With atoms and bonds, 0 where a graph has none."""
    atoms = [graph.nodes[node].get("atom", 0) for graph in graphs for node in range(len(graph))]
    edges = [(u, v, bond) for graph in graphs for u, v, bond in graph.edges.data("bond", default=0)]
    ends = torch.tensor(edges, dtype=torch.long).reshape(-1, 3)
    return PackedGraphs.build(
        torch.tensor([len(graph) for graph in graphs]),
        torch.tensor([graph.number_of_edges() for graph in graphs]),
        ends[:, :2].T,
        x=torch.tensor(atoms)[:, None],
        edge_attr=ends[:, 2:],
        undirected_once=True,
    )


def batch(graphs, ids=None):
    return pack(graphs)[torch.arange(len(graphs)) if ids is None else torch.tensor(ids)]


def make(name, seed=0, copies=COPIES, **settings):
    torch.manual_seed(seed)
    config = EncoderConfig(**{"conv": "gine", "num_layers": 3, "hidden": WIDTH, "norm": "layer"} | settings)
    return make_encoder(BaselineConfig(name=name, copies=copies), config, ATOMS, BONDS)


def no_tuples(graphs):
    return torch.zeros(graphs.num_graphs, 1, 0, dtype=torch.long)


def encode(baseline, graphs, seed=0):
    torch.manual_seed(seed)
    return baseline(graphs, no_tuples(graphs))


@torch.no_grad()
def pooled(baseline, graph, draws=1, seed=0):
    """What `draws` passes say of a graph, pooled over its nodes and copies, [draws, d]."""
    graphs = batch([graph], [0] * draws)
    return sum_nodes(encode(baseline.eval(), graphs, seed), graphs).mean(dim=1) / len(graph)


def deviations(ours, theirs):
    """By how many standard errors means and mean squares of two sets of draws differ, at most over the outputs."""
    gaps = []
    for power in (1, 2):
        one, other = ours.double() ** power, theirs.double() ** power
        error = ((one.var(dim=0) + other.var(dim=0)) / len(one)).sqrt()
        gaps.append((one.mean(dim=0) - other.mean(dim=0)).abs() / (error + 1e-6))  # beyond rounding
    return float(torch.stack(gaps).max())


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("residual", [False, True])
def test_shape(name, residual):
    graphs = batch([molecule(), *TWINS])
    h = encode(make(name, residual=residual, jk="sum"), graphs)
    assert h.shape == (graphs.total_nodes, 1 if name == "pna" else COPIES, WIDTH)
    assert h.isfinite().all()


@torch.no_grad()
def test_pna_does_not_see_how_nodes_are_numbered():
    graph = molecule()
    baseline = make("pna").eval()
    order = torch.randperm(len(graph), generator=torch.Generator().manual_seed(0))  # as in `relabelled`
    ours, theirs = (encode(baseline, batch([one])) for one in (graph, relabelled(graph)))
    torch.testing.assert_close(theirs[order], ours, atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", RANDOM)
def test_draws_do_not_see_how_nodes_are_numbered(name):
    graph, baseline = molecule(), make(name)
    ours, theirs = pooled(baseline, graph, DRAWS, seed=1), pooled(baseline, relabelled(graph), DRAWS, seed=2)
    assert ours.std(dim=0).max() > 1e-3
    assert deviations(ours, theirs) < 5
    assert deviations(ours, pooled(baseline, molecule(seed=4), DRAWS, seed=2)) > 5  # the test does see other graphs


def test_pna_takes_twins_for_each_other():
    baseline = make("pna")
    torch.testing.assert_close(pooled(baseline, TWINS[0]), pooled(baseline, TWINS[1]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", RANDOM)
def test_draws_tell_twins_apart(name):
    baseline = make(name, conv="gin", num_layers=5, hidden=32)  # fresh weights: a smaller network may hardly react
    ours, theirs = (pooled(baseline, graph, DRAWS, seed) for seed, graph in enumerate(TWINS))
    assert deviations(ours, theirs) > 5


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("name", METHODS)
def test_graphs_of_one_node_or_without_edges(name, norm):
    for graphs in ([nx.empty_graph(1)], [nx.empty_graph(1), nx.empty_graph(3)], [nx.empty_graph(1), molecule()]):
        baseline = make(name, norm=norm).train()
        h = encode(baseline, batch(graphs))
        h.sum().backward()
        assert h.isfinite().all()
        assert all(value.grad is None or value.grad.isfinite().all() for value in baseline.parameters())


NO_GRADIENT = {
    "pf-gnn": {
        *("filter.policy.2.bias", "filter.observe.2.bias"),  # added to all nodes or particles, then normalised away
        "filter.observe.0.bias",  # the same as long as all particles turn the same units on, as fresh ones do
        *("refine.0.constant", "refine.1.constant"),  # these GNNs begin from embeddings
    },
}


@pytest.mark.parametrize("name", METHODS)
def test_everything_learns(name):
    graphs = batch([molecule(), molecule(9, seed=3), *TWINS])
    baseline = make(name).train()
    h = encode(baseline, graphs)
    (h * torch.randn_like(h)).sum().backward()
    gradients = {
        key: 0.0 if value.grad is None else float(value.grad.norm()) for key, value in baseline.named_parameters()
    }
    assert {key for key, size in gradients.items() if size < 1e-5} == NO_GRADIENT.get(name, set())


@torch.no_grad()
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", RANDOM)
def test_equal_seeds_give_equal_answers(name, training):
    graphs, baseline = batch([molecule(), *TWINS]), make(name).train(training)
    first = encode(baseline, graphs, seed=1)
    assert torch.equal(first, encode(baseline, graphs, seed=1))
    assert not torch.allclose(first, encode(baseline, graphs, seed=2))


@torch.no_grad()
@pytest.mark.parametrize("name", METHODS)
def test_atoms_and_bonds_change_the_answer(name):
    graphs, baseline = batch([molecule()]), make(name).eval()
    first = encode(baseline, graphs)
    other_bonds = replace(graphs, edge_attr=(graphs.edge_attr + 1) % 4)
    other_atoms = replace(graphs, x=(graphs.x + 1) % 3)
    assert not torch.allclose(first, encode(baseline, other_bonds))
    assert not torch.allclose(first, encode(baseline, other_atoms))


@pytest.mark.parametrize("name", METHODS)
def test_padding_is_not_looked_at(name):
    """Same draws, other padding: same embeddings, norms and gradients, in training."""
    packed = pack([molecule(), nx.empty_graph(1), *TWINS])
    ids = torch.arange(4)
    padded = packed.gather(ids, packed.rounded_size(ids))
    real = int(padded.num_real)
    assert padded.total_nodes > real
    found = []
    for filling in range(2):
        baseline = make(name, norm="batch").train()
        graphs = replace(padded, x=padded.x.clone(), edge_attr=padded.edge_attr.clone())
        graphs.x[real:] = filling
        graphs.edge_attr[int(graphs.edge_offsets[-1]) :] = filling
        h = encode(baseline, graphs)[:real]
        h.square().sum().backward()
        found.append([h, *baseline.buffers(), *(value.grad for value in baseline.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_pna_with_padding_is_pna_without():
    packed, ids = pack([molecule(), nx.empty_graph(1), *TWINS]), torch.arange(4)
    graphs, padded = packed[ids], packed.gather(ids, packed.rounded_size(ids))
    ours, theirs = (encode(make("pna", norm="batch").train(), one) for one in (graphs, padded))
    torch.testing.assert_close(theirs[: graphs.total_nodes], ours)


def test_runs_lack_the_edges_of_dropped_nodes():
    graph = molecule()
    graphs = batch([graph, graph])
    dropped = torch.zeros(2, graphs.total_nodes, dtype=torch.bool)
    dropped[1, 2] = dropped[1, 9] = True
    runs = _without(graphs, dropped)
    assert runs.num_nodes.tolist() == [len(graph)] * 4
    whole = nx.disjoint_union(graph, graph)
    kept = whole.copy()
    kept.remove_edges_from(list(whole.edges([2, 9])))
    expected = nx.to_directed(nx.disjoint_union(whole, kept)).edges
    bonds = {
        tuple(ends): bond for ends, bond in zip(runs.edge_index.T.tolist(), runs.edge_attr[:, 0].tolist(), strict=True)
    }
    assert bonds == {(u, v): bond for u, v, bond in expected.data("bond")}
    assert runs.in_degree.tolist() == runs.edge_index[1].bincount(minlength=runs.total_nodes).tolist()
    assert (runs.edge_index[1].diff() >= 0).all()


@torch.no_grad()
def test_a_run_is_a_plain_gnn_on_what_is_left(monkeypatch):
    """Of a path of three nodes the middle one is dropped: its ends are alone."""
    baseline = make("dropgnn", copies=1).eval()
    path, alone = nx.path_graph(3), nx.empty_graph(3)
    monkeypatch.setattr(torch, "rand", lambda *shape, device: torch.tensor([[1.0, 0.0, 1.0]]).expand(shape))
    with_hole = encode(baseline, batch([path]))
    monkeypatch.setattr(torch, "rand", lambda *shape, device: torch.ones(shape))
    torch.testing.assert_close(with_hole[[0, 2]], encode(baseline, batch([alone]))[[0, 2]])
    assert not torch.allclose(with_hole[0], encode(baseline, batch([path]))[0])


def test_k_osan_draws_without_replacement_from_the_softmax():
    graphs = batch([nx.path_graph(4), nx.path_graph(2)], [0, 1] * 4000)
    scores = torch.tensor([0.0, 1.0, -1.0, 0.5, 0.3, 0.0]).repeat(4000).requires_grad_()
    roots, is_root = drawn(scores, graphs, copies=3)
    four, two = roots[0::2], roots[1::2]
    assert (four.sort(dim=1).values.diff(dim=1) > 0).all()  # all different
    assert (two[:, 0] != two[:, 1]).all() and torch.equal(two[:, 0], two[:, 2])  # one of two repeats
    likely = scores.detach()[:4].softmax(dim=0)
    torch.testing.assert_close(four[:, 0].bincount(minlength=4) / 4000, likely, atol=0.03, rtol=0)
    marked = graphs.padded(is_root.detach(), 0.0)  # [B, V, m]
    assert torch.equal(marked.argmax(dim=1), roots)
    assert torch.equal(marked.sum(dim=1), torch.ones_like(marked[:, 0]))
    is_root[0, 0].backward()  # the derivative of the first node's share in the first copy
    expected = likely[0] * (functional.one_hot(torch.tensor(0), 4) - likely)
    torch.testing.assert_close(scores.grad[:4], expected)
    assert not scores.grad[4:].any()


def test_k_osan_upstream_learns_which_node_to_mark():
    """On a star a loss that likes marked centres draws the marks there."""
    baseline = make("k-osan", copies=1)
    graphs = batch([nx.star_graph(4)], [0] * 64)
    optimiser = torch.optim.Adam([*baseline.upstream.parameters(), *baseline.score.parameters()], lr=1e-2)
    wish = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0]).repeat(64)
    shares = []
    for _ in range(60):
        scores = baseline.score(baseline.upstream(graphs, no_tuples(graphs)))[:, 0, 0]
        roots, is_root = drawn(scores, graphs, 1)
        optimiser.zero_grad()
        (-is_root[:, 0] * wish).sum().backward()
        optimiser.step()
        shares.append(float((roots == 0).float().mean()))
    assert sum(shares[-10:]) / 10 > 0.8 > 0.5 > shares[0]


def test_particles_policy_gradient_is_that_of_the_expected_embedding(monkeypatch):
    """One step, weights that do not look: (1 - 1 / M) of the exact derivative of sum over v of P(v) h(v)."""
    monkeypatch.setattr(particles, "STEPS", 1)
    baseline, graph, runs, copies = make("pf-gnn", copies=4).eval(), molecule(5, seed=2), 20_000, 4
    torch.nn.init.zeros_(baseline.filter.observe[-1].weight)
    with torch.no_grad():  # louder than fresh networks are, so that particles differ
        baseline.filter.individualise[-1].weight *= 20
    probe = torch.randn(WIDTH, generator=torch.Generator().manual_seed(3))
    weight = baseline.filter.policy[-1].weight
    graphs = batch([graph], [0] * (runs // copies))
    loss = encode(baseline, graphs).mean(dim=1) @ probe  # [N]
    found = torch.autograd.grad(loss.sum() / graphs.num_graphs, weight)[0]
    one = batch([graph])
    first = baseline.filter.refined(one, len(graph))
    each = baseline.step(0, first, one, torch.arange(len(graph))[None]).detach()  # particle v individualises v
    chances = baseline.filter.log_policy(first, one)[:, 0].exp()
    exact = torch.autograd.grad((chances * (each.sum(dim=0) @ probe)).sum(), weight)[0]
    assert exact.norm() > 0.01
    torch.testing.assert_close(found, (1 - 1 / copies) * exact, atol=0.05 * float(exact.norm()), rtol=0)


@torch.no_grad()
def test_particles_are_pooled_by_weight(monkeypatch):
    """All weight on one particle: the mean over copies is that particle's embedding."""
    baseline, graphs = make("pf-gnn").eval(), batch([molecule(), *TWINS])
    last = []
    step = baseline.step
    monkeypatch.setattr(baseline, "step", lambda *given: last.append(step(*given)) or last[-1])
    one_hot = torch.tensor([0.0, 1.0, 0.0]).expand(graphs.num_graphs, -1)
    monkeypatch.setattr(baseline.filter, "weights", lambda h, graphs, before: one_hot)
    h = encode(baseline, graphs)
    torch.testing.assert_close(h.mean(dim=1), last[-1][:, 1])
    # After the first step everything is drawn from particle 1, so the last ones begin alike.
    assert len(last) == particles.STEPS


@torch.no_grad()
@pytest.mark.parametrize("name", METHODS)
def test_a_frozen_model_answers_alike(name):
    config = EncoderConfig(conv="gine", num_layers=2, hidden=WIDTH)
    agent = AgentConfig(tuple_order=0, num_moves=0)
    g_p = make(name, num_layers=2, norm="batch")
    model = MagGNN(2, ATOMS, BONDS, encoder=config, agent=agent, g_p=g_p)
    graphs = batch([molecule(), molecule(9, seed=3), *TWINS])
    model.train()(graphs)  # norms that know something
    answers = []
    for one in (model.eval(), frozen(model)):
        torch.manual_seed(1)
        answers.append(one(graphs))
    torch.testing.assert_close(answers[1], answers[0], atol=1e-4, rtol=1e-4)


def accuracy_on_twins(name, steps=150):
    """After a short training on the graphs of CSL(8)."""
    torch.manual_seed(0)
    packed = registry.load("csl8").graphs
    config = EncoderConfig(num_layers=3, hidden=32, residual=True)
    g_p = make_encoder(BaselineConfig(name=name), config, FeatureSpec(), FeatureSpec()) if name else None
    model = MagGNN(2, encoder=config, agent=AgentConfig(tuple_order=0, num_moves=0), g_p=g_p).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    graphs = packed[torch.arange(2).repeat(16)]
    for _ in range(steps):
        optimiser.zero_grad()
        functional.cross_entropy(model(graphs), graphs.y).backward()
        optimiser.step()
    asked = packed[torch.arange(2).repeat(100)]
    with torch.no_grad():
        return float((model.eval()(asked).argmax(dim=-1) == asked.y).float().mean())


def test_drawing_learns_what_gin_cannot():
    assert accuracy_on_twins("") == 0.5
    for name in RANDOM:
        assert accuracy_on_twins(name) > 0.9, name
