"""A batch gathered by Triton programs is the batch that plain torch gathers."""

import pytest
import torch

from maggnn.graphs.packed import PackedGraphs
from maggnn.graphs.structure import with_structure

FIELDS = ("num_nodes", "edge_index", "in_degree", "out_degree", "by_source")
DERIVED = ("first_node", "node_offsets", "node_graph", "edge_offsets", "source_offsets")


def random_set(level="graph", undirected=True, seed=0, edges=0.3):
    """Graphs of 1 to 90 nodes, some without edges, features of every kind."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [*torch.randint(1, 12, (20,), generator=generator).tolist(), 90, 1, 70]
    pairs = []
    for size in sizes:
        joined = torch.rand(size, size, generator=generator) < edges * min(1.0, 8 / size)
        pairs.append((joined.triu(1) if undirected else joined.fill_diagonal_(False)).nonzero().T)
    total, num_edges = sum(sizes), sum(part.shape[1] for part in pairs)
    return PackedGraphs.build(
        torch.tensor(sizes),
        torch.tensor([part.shape[1] for part in pairs]),
        torch.cat(pairs, 1),
        x=torch.randint(4, (total, 2), generator=generator),
        edge_attr=torch.randint(4, (num_edges, 1), generator=generator),
        y=torch.randn(total if level == "node" else len(sizes), 2, generator=generator),
        level=level,
        undirected_once=undirected,
    )


def equal(fused, plain):
    for name in FIELDS + DERIVED:
        assert torch.equal(getattr(fused, name).cpu(), getattr(plain, name)), name
    real_nodes, real_edges = int(plain.num_nodes.sum()), int(plain.edge_offsets[-1])
    for name, rows in (("x", real_nodes), ("structure", real_nodes), ("edge_attr", real_edges)):
        ours, theirs = getattr(fused, name), getattr(plain, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert torch.equal(ours[:rows].cpu(), theirs[:rows]), name
    assert (fused.num_real is None) == (plain.num_real is None)
    assert fused.num_real is None or int(fused.num_real) == real_nodes
    if len(fused.y) == plain.num_graphs:
        assert torch.equal(fused.y.cpu(), plain.y)
    else:
        assert torch.equal(fused.y[:real_nodes].cpu(), plain.y[:real_nodes])


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize(("level", "undirected"), [("graph", True), ("node", False)])
def test_gathered_by_programs_as_by_torch(device, level, undirected, rounded):
    packed = random_set(level, undirected)
    on_device = packed.to(device)
    if level == "node":
        packed, on_device = with_structure(packed, 2), with_structure(on_device, 2)
    for ids in ([0, 5, 5, 22, 3], [20], [21], list(range(23)), [22, 21, 20, 20, 1, 0, 7]):
        chosen = torch.tensor(ids)
        size = packed.rounded_size(chosen) if rounded else packed.size_of(chosen)
        fused = on_device._gather_fused(chosen.to(device), size)
        equal(fused, packed.gather(chosen, size))


@pytest.mark.parametrize("ids", [list(range(23)), list(range(16)), [21, 20, 22] * 3, [0] * 17])
def test_positions_of_many_graphs_are_computed_part_by_part(device, ids, monkeypatch):
    monkeypatch.setattr("maggnn.graphs.gather.MOST_AT_ONCE", 8)
    packed, chosen = random_set(), torch.tensor(ids)
    size = packed.rounded_size(chosen)
    equal(packed.to(device)._gather_fused(chosen.to(device), size), packed.gather(chosen, size))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is visible")
def test_a_gpu_gathers_any_number_of_graphs_by_programs():
    """Plain torch would launch some seventy kernels for a chunk of 13,000 molecules, outside of any recording."""
    packed = random_set()
    chosen = torch.arange(len(packed)).repeat(600)
    size = packed.rounded_size(chosen)
    fused = packed.to("cuda").gather(chosen.to("cuda"), size)
    assert set(DERIVED) <= vars(fused).keys()  # only the programs return these with the batch
    equal(fused, packed.gather(chosen, size))


def test_ids_that_are_a_column_of_a_table(device):
    """As those of the replay buffer."""
    packed, chosen = random_set(), torch.tensor([[3, 9], [22, 9], [0, 9]])[:, 0]
    size = packed.rounded_size(chosen)
    equal(packed.to(device)._gather_fused(chosen.to(device), size), packed.gather(chosen, size))


def test_graphs_without_any_edges(device):
    packed = random_set(edges=0.0)
    chosen = torch.tensor([3, 22, 0])
    size = packed.rounded_size(chosen)
    equal(packed.to(device)._gather_fused(chosen.to(device), size), packed.gather(chosen, size))
