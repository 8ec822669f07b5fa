"""Splits keep classes balanced, groups together and held-out classes unseen."""

import pytest
import torch

from builders import seeded
from maggnn.data.splits import all_in_all, held_out_classes, stratified_folds
from maggnn.errors import InputError


def test_folds_part_the_graphs_and_balance_the_classes():
    y = torch.arange(10).repeat_interleave(15)
    splits = stratified_folds(y, 10, seeded())
    assert torch.cat([split.test for split in splits]).sort().values.tolist() == list(range(150))
    for split in splits:
        assert len(split.test) == 15
        assert set(y[split.test].bincount(minlength=10).tolist()) <= {1, 2}
        assert torch.cat([split.train, split.test]).sort().values.tolist() == list(range(150))
        assert split.val.shape == (0,)
        assert split.val.dtype == torch.long


def test_validation_fold_is_the_next_test_fold():
    splits = stratified_folds(torch.arange(20) % 2, 5, seeded(), with_val=True)
    for split, following in zip(splits, splits[1:] + splits[:1], strict=True):
        assert torch.equal(split.val, following.test)
        assert torch.cat([split.train, split.val, split.test]).sort().values.tolist() == list(range(20))


def test_groups_stay_in_one_fold():
    y = torch.tensor([0, 1, 1, 0]).repeat(30)
    splits = stratified_folds(y, 10, seeded(), groups=torch.arange(120) // 2)
    for split in splits:
        assert len(split.test) == 12
        assert y[split.test].sum() == 6
        assert not set((split.test // 2).tolist()) & set((split.train // 2).tolist())


def test_same_seed_same_folds_other_seed_other_folds():
    y = torch.arange(40) % 4
    first, again, other = (stratified_folds(y, 4, seeded(seed))[0].test for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_impossible_folds_are_named():
    with pytest.raises(InputError, match="choose 2 to 3 folds"):
        stratified_folds(torch.zeros(6), 4, seeded(), groups=torch.arange(6) // 2)
    with pytest.raises(InputError, match="1 folds"):
        stratified_folds(torch.zeros(6), 1, seeded())
    with pytest.raises(InputError, match="groups has 2 entries for 6 graphs"):
        stratified_folds(torch.zeros(6), 2, seeded(), groups=torch.arange(2))


def test_all_in_all_uses_every_graph_everywhere():
    split = all_in_all(3)
    assert split.train.tolist() == split.val.tolist() == split.test.tolist() == [0, 1, 2]


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_held_out_classes_are_whole_and_on_both_sides(share, seed):
    classes = [f"class {index % 7}" for index in range(70)]
    y = torch.tensor([int(index % 7 < 3) for index in range(70)])
    split = held_out_classes(classes, y, share, seeded(seed))
    train, test = ({classes[index] for index in ids.tolist()} for ids in (split.train, split.test))
    assert not train & test
    assert len(train | test) == 7
    assert len(split.train) + len(split.test) == 70
    assert y[split.train].unique().tolist() == y[split.test].unique().tolist() == [0, 1]


def test_classes_that_cannot_be_held_out_are_named():
    with pytest.raises(InputError, match="label 1 has only 1 class"):
        held_out_classes(["a", "b", "c"], torch.tensor([0, 0, 1]), 0.5, seeded())
    with pytest.raises(InputError, match="graph 1 has label 1"):
        held_out_classes(["a", "a"], torch.tensor([0, 1]), 0.5, seeded())
