"""Scaffold splits: whole scaffolds, near 80/10/10, with the classes in every part, whatever the order of the rows."""

from collections import Counter

import numpy as np
import pytest

from maggnn.data.molecules.scaffolds import group_parts, scaffold

RINGS = ["C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1", "c1ccncc1", "c1ccoc1", "c1ccsc1", "C1CCOC1", "C1CCNC1"]


def scaffold_parts(smiles: list[str], classes: np.ndarray | None = None, seed: int = 0) -> list[str]:
    return group_parts([scaffold(each) for each in smiles], classes, seed)


def molecules() -> list[str]:
    """A hundred pairs of rings, and thirty molecules of one scaffold."""
    pairs = [f"{left}{'C' * (1 + place % 3)}{right}" for place, left in enumerate(RINGS) for right in RINGS]
    return pairs + ["C" * length + "c1ccccc1" for length in range(1, 31)]


@pytest.mark.parametrize("seed", range(5))
def test_a_file_sorted_by_class_has_both_classes_in_every_part(seed):
    smiles = molecules()
    classes = np.arange(len(smiles)) >= 65
    parts = np.array(scaffold_parts(smiles, classes.astype(int), seed))
    for part, share in (("train", 0.8), ("val", 0.1), ("test", 0.1)):
        assert (parts == part).mean() == pytest.approx(share, abs=0.05)
        assert classes[parts == part].mean() == pytest.approx(0.5, abs=0.2)
    where = {scaffold(each): set() for each in smiles}
    for each, part in zip(smiles, parts, strict=True):
        where[scaffold(each)].add(part)
    assert all(len(found) == 1 for found in where.values()) and where["c1ccccc1"] == {"train"}


def test_the_seed_decides_and_the_order_of_the_rows_does_not():
    smiles = molecules()
    first, again, other = (scaffold_parts(smiles, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    turned = scaffold_parts(smiles[::-1], seed=0)[::-1]
    assert turned == first
    assert set(Counter(first)) == {"train", "val", "test"}
