"""Small runs that were really trained, for the tests of `maggnn show`."""

from pathlib import Path

import numpy as np

from maggnn.apps.fit.ensemble import fit_blend
from maggnn.apps.fit.fitted import Facts
from maggnn.apps.fit.folds import single_fold
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import read_own_table
from maggnn.config import Config
from maggnn.data.packing import save_packed
from maggnn.training.run import train

MOLECULES = [
    "CCO",
    "CCCC",
    "c1ccccc1",
    "CCOC",
    "c1ccccc1C",
    "OCCO",
    "CCCCC",
    "c1ccccc1O",
    "CCC",
    "CO",
    "CC(C)O",
    "CCCO",
]


def tiny_config(name: str = "shrikhande_rook", steps: int = 6, **agent: object) -> Config:
    agent_steps = steps if agent.get("tuple_order") != 0 else 0
    return Config().replaced(
        data={"name": name},
        encoder={"num_layers": 2, "hidden": 8},
        agent={"num_moves": 2, **agent},
        replay={"warmup": 8},
        training={
            "batch_size": 2, "predictor_steps": steps, "agent_steps": agent_steps, "agent_batch_size": 4, "walkers": 4,
            "learning_rate": 0.02,
        },
        runtime={"device": "cpu", "log_every": 2, "checkpoint_every": 100},
    )  # fmt: skip


def trained(folder: Path, config: Config | None = None) -> Path:
    """A run of `maggnn train`."""
    train(config or tiny_config(), folder, quiet=True)
    return folder


def table(folder: Path) -> Path:
    """Molecules with a number to predict, their oxygens."""
    lines = [f"{smiles},{smiles.count('O')}.5" for smiles in MOLECULES * 2]
    path = folder / "mine.csv"
    path.write_text("\n".join(["smiles,oxygens", *lines]) + "\n")
    return path


def fitted(folder: Path, path: Path) -> Path:
    """A folder as `maggnn fit` leaves it, without the card."""
    own = read_own_table(path, "smiles", ["oxygens"], "regression", "random", 0, 1)
    facts = Facts("smiles", "regression", "ogb", "smiles", ("oxygens",), (), "mae", {"train": 16})
    folds = single_fold(own.dataset.split(0, 0), len(own.dataset.graphs))
    fit_blend(own.dataset, facts, own_config(own.dataset, predictor_steps=8), folds)[0].save(folder)
    return folder


def large_graphs(path: Path, num_nodes: int = 300) -> Path:
    """A packed file of a few graphs of 300 nodes: rings with random chords, which have more of them in class 1."""
    rng = np.random.default_rng(0)
    ring = np.stack([np.arange(num_nodes), (np.arange(num_nodes) + 1) % num_nodes])
    graphs = []
    for number in range(6):
        ends = rng.choice(num_nodes, (2, num_nodes // (2 - number % 2)))
        far = np.abs(ends[0] - ends[1]) % (num_nodes - 1) > 1
        chords = np.unique(np.sort(ends[:, far], axis=0), axis=1)
        graphs.append(np.concatenate([ring, chords], axis=1))
    parts = {"train": np.arange(4), "val": np.arange(4, 6), "test": np.arange(4, 6)}
    save_packed(
        path,
        {
            "num_nodes": np.full(6, num_nodes), "num_edges": np.array([graph.shape[1] for graph in graphs]),
            "edge_index": np.concatenate(graphs, axis=1), "y": np.arange(6) % 2, **parts,
        },
    )  # fmt: skip
    return path
