"""Hashes of colours: the fast forms for a CPU say what the plain ones say."""

import numpy as np
import pytest
import torch

from maggnn.graphs.colours import mix, row_hashes
from maggnn.graphs.hashes import MOST_CATEGORIES, ODD, mixed
from maggnn.graphs.stable_colours import SideBySide, places, stable, sums_of_runs


def by_definition(number: int) -> int:
    """`mix` of one number, in Python's integers."""
    bits = number * ODD % 2**64
    for shift in (32, 29):
        bits = (bits ^ (bits >> shift)) * ODD % 2**64
    bits ^= bits >> 32
    return bits - 2**64 if bits >= 2**63 else bits


def test_mixing():
    numbers = np.random.default_rng(0).integers(-(2**63), 2**63, 500)
    expected = [by_definition(number) for number in numbers.tolist()]
    assert mixed(numbers).tolist() == mix(torch.from_numpy(numbers)).tolist() == expected


@pytest.mark.parametrize("largest", [3, MOST_CATEGORIES + 1])
def test_rows_of_categories_hash_as_rows_of_floats_do(largest):
    features = torch.randint(0, largest + 1, (200, 4), generator=torch.Generator().manual_seed(0))
    features[0] = largest
    hashes = row_hashes(features)
    assert torch.equal(hashes, row_hashes(features.double()))
    assert len(hashes.unique()) == len(features.unique(dim=0))


def test_sums_of_runs_and_places():
    assert sums_of_runs(np.array([1, 2, 3, 4]), np.array([2, 0, 1, 1])).tolist() == [3, 0, 3, 4]
    assert places(np.array([2, 1, 3]), np.array([2, 0, 2])).tolist() == [3, 4, 5, 0, 1, 3, 4, 5]


def test_a_graph_is_refined_for_as_many_rounds_as_it_needs_alone():
    """A path of six nodes needs more rounds than one of two."""
    sizes, ends = np.array([6, 2, 1]), [(1,), (0, 2), (1, 3), (2, 4), (3, 5), (4,), (7,), (6,), ()]
    degree = np.array([len(own) for own in ends])
    source = np.array([node for own in ends for node in own])
    graphs = SideBySide(sizes, np.array([10, 2, 0]), source, None, degree)
    colours, counts = stable(graphs, np.ones(9, dtype=np.int64))
    assert counts.tolist() == [3, 1, 1]
    assert colours[:6].tolist() == colours[5::-1].tolist() and len(set(colours[:6].tolist())) == 3
    for row, nodes in ((0, slice(0, 6)), (1, slice(6, 8)), (2, slice(8, 9))):
        alone, _ = graphs.pick(np.array([row]))
        assert stable(alone, np.ones(sizes[row], dtype=np.int64))[0].tolist() == colours[nodes].tolist()
