"""Training of the initial weights: one network learns all properties at once, and its encoder and readout are saved.

The network is that of `maggnn fit` (`own_settings`), so that its weights fit. Its last layer, which belongs to the
properties, is left out. The row of the ledger is the mean absolute error on the validation split, in standard
deviations of each property.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from maggnn import config as configs
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.tables.earlier_model import HEAD
from maggnn.config import Config
from maggnn.data.own_file import load_own
from maggnn.data.registry import Dataset
from maggnn.inference.engine import Engine
from maggnn.model import weights_file
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import PREDICTOR, PREDICTOR_FOLDER
from maggnn.training.run import train
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.pretraining.properties import pack_properties

NAME = "molecules"
PACKED = "properties.npz"
BATCH, EPOCHS = 128, 30


def reproduce(folder: Path, workers: int = 2, predictors: Path | None = None, epochs: int = EPOCHS) -> list[LedgerRow]:
    """Make the data set, train the network and save the weights, in the package unless `predictors` names a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = folder / PACKED
    if not packed.exists():
        pack_properties(packed, workers)
    dataset = load_own(packed)
    config = config_of(dataset, epochs)
    trained = train(config, folder / NAME, dataset=dataset)
    row = _row(trained.model, dataset, sum(trained.seconds.values()))
    save_predictor((predictors or PREDICTOR_FOLDER) / f"{NAME}.safetensors", trained.model, config, row)
    return [row]


def config_of(dataset: Dataset, epochs: int) -> Config:
    """Return the settings of a network of `maggnn fit`, with more steps and without regularisation."""
    steps = epochs * len(dataset.split(0, 0).train) // BATCH
    return own_config(
        dataset,
        batch_size=BATCH,
        predictor_steps=steps,
        validate_every=steps // 10,
        weight_decay=0.01,
        initial_weights="",
    ).replaced(encoder={"dropout": 0.0}, runtime={"checkpoint_every": 2_000, "log_every": 200})


def save_predictor(path: Path, model: MagGNN, config: Config, row: LedgerRow) -> None:
    """Write the weights of a predictor, without its last layer, for `maggnn.model.pretrained`."""
    tensors = {
        name: value
        for name, value in model.state_dict().items()
        if name.startswith(PREDICTOR) and not name.startswith(HEAD)
    }
    facts = {"config": configs.to_dict(config), "ledger": json.loads(row.to_json())}
    path.parent.mkdir(exist_ok=True)
    weights_file.save(path, tensors, facts, with_checksum=True)


def _row(model: MagGNN, dataset: Dataset, seconds: float) -> LedgerRow:
    split = dataset.split(0, 0)
    y = dataset.y.double()
    spread = y.std(dim=0)
    answers = Engine(model).predict(dataset.graphs.select(split.val)).double().cpu()
    errors = (answers - y[split.val]).abs().mean(dim=0) / spread
    explained = 1 - ((answers - y[split.val]) ** 2).mean(dim=0) / spread**2
    quarter, middle = np.quantile(explained.numpy(), (0.25, 0.5))
    return LedgerRow(
        table="pretraining",
        dataset="properties",
        method="mag-gnn",
        metric="mae",
        mean=round(float(errors.mean()), 5),
        std=None,
        runs=1,
        config="defaults",
        note=(
            f"validation split, mean of {y.shape[1]} properties in standard deviations; share of the variance "
            f"explained: {middle:.3f} in the median, {quarter:.3f} in the lower quartile; trained on "
            f"{len(split.train)} molecules in {seconds:.0f} s"
        ),
    )
