"""Default settings of a network for any data set, so that users need not choose m, k and t."""

from __future__ import annotations

from typing import Any

from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.model.features import FeatureSpec

EPOCHS, USUAL_NODES = 40, 28
"""The number of training epochs, within the bounds below. Data sets with larger graphs than usual get fewer epochs, so
that the time of a fit depends on the number of graphs and not on their size: three networks in sequence, on 1,440
training molecules, take about two minutes on one core."""

FEWEST_STEPS, MOST_STEPS = 300, 20_000
VALIDATIONS = 12
"""The number of validations during a fit; the weights with the best score are kept."""

INITIAL_WEIGHTS, MOLECULE_COLUMNS, FEWEST_TO_START = "molecules", (9, 3), 300
"""The weights of the package from which networks start, the numbers of columns of categories of the nodes and edges
that they read, and the fewest training graphs that they are used for. By the out-of-fold predictions of `maggnn-paper
reproduce pretraining` they help with numbers and 600 molecules or more, but neither with 300 nor with classes."""


def own_config(dataset: Dataset, seed: int = 0, **training: Any) -> Config:
    """Return settings for any data set, chosen only by its task and by the number and the features of its graphs.

    An agent that comes with the package moves the marks. It reads only edges and marks (PRE), so that only the
    predictor has to be trained.

    Args:
        training: settings of the section [training] to replace; validations are spread over `predictor_steps`.
    """
    split = dataset.split(0, 0)
    batch = max(4, min(64, len(split.train) // 8))
    nodes = float(dataset.graphs.num_nodes[split.train].float().mean())
    epochs = EPOCHS * min(1.0, USUAL_NODES / nodes)
    enough = max(FEWEST_STEPS, min(MOST_STEPS, round(epochs * -(-len(split.train) // batch))))
    steps = training.get("predictor_steps", enough)
    bonds = not FeatureSpec.of(dataset.graphs.edge_attr).empty
    return Config().replaced(
        data={"name": dataset.name},
        encoder={
            "conv": "gine" if bonds else "gin",
            "num_layers": 4,
            "hidden": 64,
            "residual": True,
            "random_walk": 12,
            "rings": bonds,
            "dropout": 0.1,
        },
        predictor={"pooling": "sum" if dataset.task == "regression" else "mean"},
        # With random starts, the answers for equal graphs would depend on their position in a table.
        agent={"num_tuples": 1, "tuple_order": 2, "num_moves": 1, "start": "central", "pretrained": "cycles6"},
        training={
            "paradigm": "pre",
            "agent_steps": 0,
            "predictor_steps": steps,
            "batch_size": batch,
            "learning_rate": 3e-3,
            "weight_decay": 0.1,
            "validate_every": max(1, steps // VALIDATIONS) if len(split.val) else 0,
            "initial_weights": _initial_weights(dataset, len(split.train)),
            **training,
        },
        runtime={"seed": seed, "log_every": 50, "checkpoint_every": 500},
    )


def _initial_weights(dataset: Dataset, rows: int) -> str:
    """Return the weights from which networks start; empty for random ones."""
    graphs = dataset.graphs
    columns = tuple(len(FeatureSpec.of(values).categories) for values in (graphs.x, graphs.edge_attr))
    fits = columns == MOLECULE_COLUMNS and dataset.task == "regression" and rows >= FEWEST_TO_START
    return INITIAL_WEIGHTS if fits else ""
