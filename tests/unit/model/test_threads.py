"""Threads by the size of a step: one for small networks, all for large ones, and as the config says."""

import torch

from builders import hexagon_and_triangles
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.splits import all_in_all
from maggnn.model.runtime import choose_threads, using_threads
from maggnn.training.callbacks import Callback
from maggnn.training.run import train


def test_small_steps_use_one_thread_and_large_ones_all():
    with using_threads(4):
        assert choose_threads(rows=60 * 20, width=32) == 1
        assert choose_threads(rows=1500 * 25, width=128) == 4
    with using_threads(1):  # what the user allows, by OMP_NUM_THREADS for one
        assert choose_threads(rows=1e9, width=128) == 1


class Threads(Callback):
    def __init__(self):
        self.seen = set()

    def on_step(self, *_args, **_kwargs):
        self.seen.add(torch.get_num_threads())


def threads_of(setting):
    from dataclasses import replace

    graphs = replace(hexagon_and_triangles(), y=torch.tensor([0, 1]))
    dataset = Dataset("two", graphs, "classification", 2, lambda dataset, generator: [all_in_all(2)])
    config = Config().replaced(
        encoder={"num_layers": 1, "hidden": 4},
        agent={"num_moves": 0},
        training={"predictor_steps": 2, "agent_steps": 0, "batch_size": 2},
        runtime={"threads": setting},
    )
    noted = Threads()
    with using_threads(3):
        train(config, dataset=dataset, quiet=True, callbacks=[noted])
        assert torch.get_num_threads() == 3, "afterwards as before"
    return noted.seen


def test_a_training_uses_what_the_setting_says():
    assert threads_of(0) == {1} and threads_of(2) == {2}
