"""Theorem 1: informative nodes of random regular graphs, against a count by hand."""

import networkx

from maggnn_paper.datasets.regular_graphs import random_regular
from maggnn_paper.tables import theorem1
from maggnn_paper.tables.registry import reproduce_table


def rooted_hash(graph, node):
    """A slow and different colour refinement: that of networkx, with the node marked."""
    networkx.set_node_attributes(graph, {v: str(int(v == node)) for v in graph}, "mark")
    return networkx.weisfeiler_lehman_graph_hash(graph, node_attr="mark", iterations=len(graph), digest_size=16)


def test_shares_equal_networkx():
    graphs = random_regular(8, 3, 12, seed=4)
    shares, unlike = theorem1.informative_shares(graphs), theorem1.unlike_shares(graphs)
    pairs = graphs.edge_index.split(graphs.num_edges.tolist(), dim=1)
    nets = [networkx.Graph(edges.T.tolist()) for edges in pairs]
    for share, differ, first, second in zip(shares.tolist(), unlike.tolist(), nets[::2], nets[1::2], strict=True):
        ours, theirs = ([rooted_hash(graph, node) for node in graph] for graph in (first, second))
        of_first, of_second = (
            sum(h not in others for h in own) / 8 for own, others in ((ours, theirs), (theirs, ours))
        )
        assert share == (of_first or of_second)
        assert differ == sum(h != other for h in ours for other in theirs) / 64
    assert float(shares.max()) > 0


def test_rows(monkeypatch, tmp_path):
    monkeypatch.setattr(theorem1, "PAIRS", 5)
    rows = reproduce_table("theorem1", tmp_path, None, 1, ["regular3_n20"])
    assert [row.dataset for row in rows] == [f"regular3_n20:{what}" for what in ("pairs", "nodes", "node_pairs")]
    assert [row.mean for row in rows] == [1.0, 1.0, 1.0]
