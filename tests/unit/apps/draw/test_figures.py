"""The figures: the numbers behind them against brute force, and pictures that are really there."""

import struct
from itertools import pairwise

import numpy as np
import pytest
import torch

from maggnn.apps.draw import style
from maggnn.apps.draw.drawing import draw_trajectories, draw_walks_of, green_edges, trajectories
from maggnn.apps.draw.layouts import block_circle, components_apart, layout_of, torus_grid, undirected_edges
from maggnn.apps.draw.marked import HUES
from maggnn.apps.draw.pair import MarkedGraph
from maggnn.apps.draw.pair import pair as draw_two
from maggnn.apps.draw.shapes import Disc, Line
from maggnn.apps.explain.trace import trace
from maggnn.config import AgentConfig, Config, EncoderConfig
from maggnn.data import registry
from maggnn.data.synthetic import expressivity
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn_paper.figures.curves import plot_accuracy_against_moves, plot_reward, reward_curve
from maggnn_paper.figures.scores import plot_sorted_scores, sorted_scores

SHRIKHANDE, ROOK = torch.tensor([0]), torch.tensor([1])


def make_model(num_tuples: int = 1, tuple_order: int = 2, **model) -> MagGNN:
    torch.manual_seed(0)
    agent = AgentConfig(num_tuples=num_tuples, tuple_order=tuple_order)
    return MagGNN(2, encoder=EncoderConfig(num_layers=3, hidden=8), agent=agent, **model).eval()


@pytest.fixture
def pair() -> PackedGraphs:
    return expressivity.shrikhande_rook()


def image_size(path) -> tuple[int, int]:
    """Width and height of a PNG that has pixels of more than one colour."""
    from matplotlib.image import imread

    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert np.ptp(imread(path)[..., :3]) > 0.5
    return struct.unpack(">II", path.read_bytes()[16:24])


# ---- sorted scores --------------------------------------------------------------------------------------


@torch.no_grad()
def test_scores_are_the_predictors(pair):
    model = make_model()
    scores = sorted_scores(model, pair, torch.arange(2))
    for graph_id, values in enumerate(scores):
        graph = pair[torch.tensor([graph_id])]
        marked = [torch.tensor([[[u, v]]]) for u in range(16) for v in range(16)]
        expected = torch.stack([model.predictor(graph, tuples).softmax(-1)[0, graph_id] for tuples in marked])
        torch.testing.assert_close(values, expected.sort(descending=True).values)


def test_scores_do_not_depend_on_the_chunks(pair, monkeypatch):
    model = make_model()
    whole = sorted_scores(model, pair, ROOK)[0]
    monkeypatch.setattr("maggnn_paper.figures.scores.MARKED_NODES_A_CHUNK", {"cpu": 100})
    torch.testing.assert_close(sorted_scores(model, pair, ROOK)[0], whole)


def test_scores_need_a_classifier(pair):
    with pytest.raises(InputError, match="classifier"):
        sorted_scores(make_model(task="regression"), pair, ROOK)


@pytest.mark.parametrize("num_graphs", [1, 2, 5])
def test_plot_of_scores(tmp_path, num_graphs):
    scores = [torch.linspace(1, 0.1 * graph, 25) for graph in range(num_graphs)]
    plot_sorted_scores(scores, tmp_path / "new folder" / "scores.png")
    assert image_size(tmp_path / "new folder" / "scores.png") == (1200, 690)


# ---- curves ---------------------------------------------------------------------------------------------


def test_rewards_are_binned_by_step():
    log = [{"phase": 0, "step": 9, "predictor/loss": 0.5}]
    log += [
        {"phase": 1, "step": step, "agent/reward": float(step), "agent/epsilon": 1 - step / 10} for step in range(10)
    ]
    curve = reward_curve(log, window=4)
    np.testing.assert_allclose(curve.steps, [1.5, 5.5, 8.5])
    np.testing.assert_allclose(curve.mean, [1.5, 5.5, 8.5])
    np.testing.assert_allclose(curve.std, [np.std(range(4)), np.std(range(4)), 0.5])
    np.testing.assert_allclose(curve.epsilon, [0.85, 0.45, 0.15])


def test_a_log_without_rewards_is_refused():
    with pytest.raises(InputError, match="agent/reward"):
        reward_curve([{"phase": 0, "step": 9, "predictor/loss": 0.5}])


@pytest.mark.parametrize("extra", [{}, {"agent/epsilon": 0.5}], ids=["without epsilon", "with epsilon"])
def test_plot_of_rewards(tmp_path, extra):
    log = [{"phase": 1, "step": step, "agent/reward": step % 7 / 100} | extra for step in range(2000)]
    plot_reward(reward_curve(log), tmp_path / "reward.png")
    assert image_size(tmp_path / "reward.png") == (1200, 630)


def test_plot_of_accuracy(tmp_path):
    learned, chance = torch.tensor([80.0, 99.0, 100.0]), torch.tensor([80.0, 81.0, 79.5])
    series = {"MAG-GNN": (learned, learned * 0.01), "random moves": (chance, chance * 0.02)}
    plot_accuracy_against_moves(series, tmp_path / "moves.png", "SR25")
    assert image_size(tmp_path / "moves.png") == (1200, 720)


# ---- trajectories ---------------------------------------------------------------------------------------


def test_a_picture_of_searches_needs_a_classifier_with_an_agent(pair, tmp_path):
    dataset, plain = registry.load("shrikhande_rook"), MagGNN(2, agent=AgentConfig(tuple_order=0, num_moves=0))
    for model in (make_model(task="regression"), plain):
        with pytest.raises(InputError, match="classifier of graphs whose agent"):
            draw_walks_of(model, Config(), dataset, tmp_path / "none.png", [0], 0)


def test_green_edges_show_what_differs(pair):
    """Common neighbours of adjacent nodes are joined in the rook's graph and not in the Shrikhande graph."""
    for graph_id, strong in ((SHRIKHANDE, 0), (ROOK, 1)):
        colours = list(green_edges(pair[graph_id], [[0, 1]]).values())
        assert colours.count(style.EDGE_GREEN) == strong
        assert colours.count(style.LIGHT_GREEN) == 4


def test_both_graphs_in_one_picture(pair, tmp_path):
    model, rows = make_model(), []
    for place, name in enumerate(("Shrikhande", "rook")):
        rows.append((name, pair[torch.tensor([place])], trace(model, pair, place, 2, tuples=torch.tensor([[0, 0]]))))
    draw_trajectories(rows, tmp_path / "pair.png", layout_of("shrikhande_rook"))
    width, height = image_size(tmp_path / "pair.png")
    assert width == 1200 and 600 < height < 1200


def test_every_mark_is_a_ring_and_every_move_an_arrow(pair):
    model, graph = make_model(num_tuples=2), pair[ROOK]
    found = trace(model, pair, 1, 2, tuples=torch.tensor([[0, 0], [5, 9]]))
    shapes = trajectories([("rook", graph, found)], layout_of("shrikhande_rook")).shapes
    rings = [shape for shape in shapes if isinstance(shape, Disc) and shape.rim in HUES and not shape.dashed]
    ghosts = [shape for shape in shapes if isinstance(shape, Disc) and shape.dashed]
    moved = sum(int((torch.tensor(a.tuples) != torch.tensor(b.tuples)).sum()) for a, b in pairwise(found.steps))
    assert len(rings) == 3 * 4 + 2 and len(ghosts) == moved + 1  # and those of the legend
    assert len([shape for shape in shapes if isinstance(shape, Line) and shape.curve]) <= moved


def test_a_pair_has_one_scale(pair):
    sides = [MarkedGraph(pair.select(ids), (0, 1), "a", "b") for ids in (SHRIKHANDE, ROOK)]
    drawing = draw_two(*sides, layout_of("shrikhande_rook"))
    nodes = [shape for shape in drawing.shapes if isinstance(shape, Disc) and shape.width == 0.8]
    assert len(nodes) == 32 and len({node.radius for node in nodes}) == 1
    assert all(0 < node.centre[0] < drawing.width and 0 < node.centre[1] < drawing.height for node in nodes)


@pytest.mark.parametrize("name", ["exp", "supergraph1"])
def test_one_graph_with_several_tuples_and_chosen_states(tmp_path, name):
    graphs = expressivity.super_graphs(1)
    graph, found = graphs[torch.tensor([0])], trace(make_model(num_tuples=2), graphs, 0, 2)
    draw_trajectories([("", graph, found)], tmp_path / "one.png", layout_of(name), shown=[0, 2])
    assert image_size(tmp_path / "one.png")[0] == 1200
    with pytest.raises(InputError, match="not in a search"):
        draw_trajectories([("", graph, found)], tmp_path / "none.png", shown=[7])


# ---- layouts --------------------------------------------------------------------------------------------


def test_torus_grid_turns_the_focus_into_the_middle(pair):
    corners = [0, 3, 12, 15]  # neighbours on the torus
    layout = torus_grid(pair[SHRIKHANDE], corners)
    np.testing.assert_allclose(np.abs(layout.positions[corners]), 1 / 3)
    assert len(np.unique(layout.positions.round(6), axis=0)) == 16
    assert layout.lines.keys() == set(undirected_edges(pair[SHRIKHANDE]))
    assert sum(len(lines) == 2 for lines in layout.lines.values()) == 15  # edges across the sides


def test_components_lie_apart():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 0, 4]])  # a triangle, an edge, and node 5 alone
    packed = PackedGraphs.build(torch.tensor([6]), torch.tensor([4]), edges, undirected_once=True)
    positions = components_apart(packed[torch.tensor([0])]).positions
    boxes = [(positions[part].min(0), positions[part].max(0)) for part in ([0, 1, 2], [3, 4], [5])]
    for number, (low, high) in enumerate(boxes):
        for other_low, other_high in boxes[:number]:
            assert (low > other_high).any() or (high < other_low).any()
    assert np.abs(positions).max() == pytest.approx(1.0)


def test_blocks_do_not_touch():
    layout = block_circle(expressivity.super_graphs(2)[torch.tensor([0])])
    block = np.arange(64) // 8
    apart = np.linalg.norm(layout.positions[:, None] - layout.positions[None], axis=-1)
    assert apart[block[:, None] != block[None]].min() > 2 * layout.node_radius
    assert len(layout.bands) == 8 and len(layout.lines) == 8 * 16
