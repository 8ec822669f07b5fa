"""Both tests of BREC run on a GPU and tell there what they tell on a CPU."""

from dataclasses import replace

import networkx
import pytest
import torch

from builders import hexagon_and_triangles
from maggnn.graphs.conversions import pack_networkx
from maggnn.model.refined.finest import finest_tuples
from maggnn_paper.brec.agent import AgentSettings
from maggnn_paper.brec.pairs import Pairs
from maggnn_paper.brec.paper_test import PaperSettings, paper_test
from maggnn_paper.brec.rpc import RpcSettings, rpc

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible"),
]
AGENT = AgentSettings(steps=40, walkers=8)
METHODS = ("random-marks", "random-moves", "mag-gnn")


def hexagon_pair():
    return Pairs.of(hexagon_and_triangles(), torch.tensor([0])).to("cuda")


@pytest.mark.parametrize("start", ["random", "nodes", "all"])
def test_rpc(start):
    settings = RpcSettings(
        hidden=16, num_layers=3, starts=4, num_tuples=2, tuple_order=1, num_moves=2, start=start, agent=AGENT
    )
    tested = rpc(hexagon_pair(), settings, seed=0)
    assert tested.t_square.keys() == set(METHODS[:1] if start == "all" else METHODS)
    for method in tested.t_square:
        assert bool(tested.distinguished(method).all()), (method, tested.t_square[method])


def test_rpc_at_the_finest_tuples():
    pair = Pairs.of(hexagon_and_triangles(), torch.tensor([0]))
    marked = finest_tuples(hexagon_and_triangles(), 2, 1)[None]
    settings = RpcSettings(
        hidden=16, num_layers=3, starts=1, num_tuples=2, tuple_order=1, num_moves=0, start="finest", frequency=1.5
    )
    tested = rpc(replace(pair, marked=marked).to("cuda"), settings, seed=0)
    assert bool(tested.distinguished("mag-gnn-finest").all())
    assert float(tested.control["mag-gnn-finest"]) < 1e-3


def test_pairs_of_unequal_size_side_by_side():
    """The smaller pair is padded, in recorded steps too."""
    rings = [networkx.cycle_graph(8), networkx.disjoint_union(networkx.cycle_graph(4), networkx.cycle_graph(4))]
    triangles = networkx.disjoint_union(networkx.cycle_graph(3), networkx.cycle_graph(3))
    graphs = Pairs.of(pack_networkx([networkx.cycle_graph(6), triangles, *rings]), torch.arange(2)).to("cuda")
    settings = RpcSettings(hidden=16, num_layers=4, starts=4, num_tuples=2, tuple_order=1, num_moves=2, agent=AGENT)
    assert bool(rpc(graphs, settings, seed=0).distinguished("mag-gnn").all())
    paper = PaperSettings(hidden=16, num_layers=4, steps=200, sets=8, tuple_order=1, num_moves=2, agent=AGENT)
    assert bool(paper_test(graphs, paper, seed=0).distinguished("mag-gnn", at_least=950).all())


def test_the_papers():
    settings = PaperSettings(hidden=16, num_layers=3, steps=150, sets=8, tuple_order=1, num_moves=2, agent=AGENT)
    tested = paper_test(hexagon_pair(), settings, seed=0)
    for method in METHODS:
        assert bool(tested.distinguished(method, at_least=950).all())
