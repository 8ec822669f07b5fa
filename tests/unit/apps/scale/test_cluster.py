"""Rows of a cluster that becomes too small for its actors, or on which none is left: the wait ends with a message."""

import threading
from collections.abc import Iterator

import pytest

from maggnn.apps.scale.cluster import Resources, while_it_fits
from maggnn.errors import InputError

QUICK = {"patience_s": 0.5, "look_every_s": 0.02}
NONE = Resources(0, 0)


def rows_until(ends: threading.Event) -> Iterator[int]:
    """Two rows, and a third one when `ends` is set."""
    yield from range(2)
    ends.wait(30)
    yield 2


def test_rows_that_no_longer_come_end_with_a_message():
    never, found = threading.Event(), []
    with pytest.raises(InputError, match=r"lost nodes: 1 CPUs and 0 GPUs are left, but 4 and 0 are needed; finished"):
        found.extend(while_it_fits(rows_until(never), Resources(4, 0), lambda: (Resources(1, 0), NONE), **QUICK))
    assert found == [0, 1]
    never.set()


def test_rows_of_actors_that_are_gone_for_good_end_with_a_message():
    """The cluster is large enough, and all of it is free: nothing works on the rows."""
    never, found = threading.Event(), []
    with pytest.raises(InputError, match=r"the actors of this command have ended.*the same command resumes"):
        found.extend(while_it_fits(rows_until(never), Resources(2, 0), lambda: (Resources(4, 0),) * 2, **QUICK))
    assert found == [0, 1]
    never.set()


def test_a_cluster_that_is_large_enough_again_goes_on():
    """It is too small for less than the time that it may be, again and again, and slow work is waited for."""
    ends, looks = threading.Event(), []

    def cluster() -> tuple[Resources, Resources]:
        looks.append(len(looks))
        if len(looks) == 30:
            ends.set()
        return Resources(1 if len(looks) % 5 else 4, 0), NONE

    assert list(while_it_fits(rows_until(ends), Resources(4, 0), cluster, **QUICK)) == [0, 1, 2]
    assert len(looks) >= 30


def test_errors_of_the_rows_are_raised_here_and_losses_of_ray_in_one_line():
    ray = pytest.importorskip("ray", reason="needs Ray: pip install 'maggnn[ray]'")

    def broken(error: Exception) -> Iterator[int]:
        yield 1
        raise error

    for error, kind, words in (
        (ValueError("of a stage"), ValueError, "of a stage"),
        (ray.exceptions.RaySystemError("gone\nat line 1"), InputError, r"Ray lost .*gone\); finished shards are kept"),
    ):
        with pytest.raises(kind, match=words):
            list(while_it_fits(broken(error), Resources(1, 0), lambda: (Resources(1, 0), NONE)))
