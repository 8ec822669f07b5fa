"""The table of relabellings, in small."""

import networkx
import torch

from maggnn.graphs.conversions import pack_networkx
from maggnn_paper.tables import relabelling


def test_features_go_with_their_nodes_and_edges():
    graph = networkx.gnp_random_graph(7, 0.4, seed=1)
    packed = pack_networkx([graph, networkx.path_graph(3)])
    packed = type(packed).build(
        packed.num_nodes,
        packed.num_edges,
        packed.edge_index,
        x=torch.arange(10)[:, None],
        edge_attr=packed.edge_index.sum(0)[:, None],  # of local ids
    )
    other = relabelling.relabelled(packed, torch.Generator().manual_seed(0))
    first = torch.repeat_interleave(other.node_offsets[:-1], other.num_edges)
    was = other.x[:, 0][other.edge_index + first]  # each end's number before, counted through
    assert torch.equal((was - first).sum(0), other.edge_attr[:, 0])
    assert sorted(other.x[:, 0].tolist()) == list(range(10)) and not torch.equal(other.x, packed.x)


def test_rows(tmp_path, monkeypatch, packed_data):
    monkeypatch.setattr(relabelling, "RELABELLINGS", 4)
    monkeypatch.setattr(relabelling, "GRAPHS", 2)
    rows = {(row.dataset, row.method): row for row in relabelling.reproduce(tmp_path)}
    for name in ("sr25", "regular3_n20", "zinc"):
        assert rows[name, "mag-gnn"].mean < 1e-9 < rows[name, "random-marks"].mean
