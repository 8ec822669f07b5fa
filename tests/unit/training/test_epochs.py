"""The order of graphs: every graph once an epoch, and any batch by its number alone."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from maggnn.training import epochs as orders
from maggnn.training.epochs import Epochs

IDS = torch.tensor([1, 2, 4, 7, 9])


@given(batch_size=st.integers(1, 17), seed=st.integers(0, 2**62))
def test_every_graph_comes_once_an_epoch(batch_size, seed):
    epochs = Epochs(IDS, batch_size, seed)
    order = torch.cat([epochs.batch(number) for number in range(10)])
    whole = order[: len(order) // len(IDS) * len(IDS)].view(-1, len(IDS))
    assert all(sorted(epoch.tolist()) == IDS.tolist() for epoch in whole)
    assert len(order) == 10 * batch_size


def test_a_batch_depends_on_its_number_alone():
    straight = Epochs(IDS, 3, seed=5)
    batches = [straight.batch(number) for number in range(8)]
    for number in (6, 1, 7, 0):
        assert torch.equal(Epochs(IDS, 3, seed=5).batch(number), batches[number])


def test_epochs_seeds_and_streams_are_shuffled_apart():
    ids = torch.arange(50)
    orders = [Epochs(ids, 50, seed, stream).batch(epoch) for seed in (0, 1) for stream in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order.tolist()) for order in orders}) == 8


@given(count=st.integers(1, 300), seed=st.integers(0, 2**62))
def test_graphs_on_disk_come_in_groups_of_blocks(count, seed):
    """Every graph once an epoch, and a group of consecutive batches reads few blocks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(orders, "BLOCK", 8)
        patch.setattr(orders, "TOGETHER", 3)
        epochs = Epochs(torch.arange(count), count, seed, on_disk=True)
        first, second = epochs.batch(0), epochs.batch(1)
    assert first.sort().values.equal(torch.arange(count)) and second.sort().values.equal(torch.arange(count))
    if count > 24:
        blocks = [set((group // 8).tolist()) for group in first.split(24)]
        # The last block may be short, so that one group reaches into a fourth one.
        assert all(len(read) <= 4 for read in blocks)
        assert not torch.equal(first, second) and not torch.equal(first[:24], first[:24].sort().values)
