"""chemprop, a message-passing network of other authors for the same purpose, on the rows of a practice table.

It is no dependency, because it needs another version of RDKit: install it into an environment of its own and name its
program in the environment variable MAGGNN_CHEMPROP, or put it on the PATH. It is trained with its default settings and
without further options, on the training rows; it chooses its epoch by the validation rows, as it does by itself.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from maggnn.apps.fit.own_table import OwnTable
from maggnn.errors import InputError

NAME = "chemprop"
VARIABLE = "MAGGNN_CHEMPROP"
PREDICTIONS = Path("model_0") / "test_predictions.csv"
"""Where `chemprop train` writes the predictions of the test rows."""


def program() -> str:
    """Return the path of the program."""
    named = os.environ.get(VARIABLE) or shutil.which(NAME)
    if named is None or shutil.which(named) is None:
        raise InputError(
            f"no program {named or NAME}: install chemprop into its own environment and name it in {VARIABLE}"
        )
    return named


def version() -> str:
    """Return the version of the installed package, as its own Python says it."""
    python = Path(program()).resolve().parent / "python"
    ask = "import importlib.metadata as m; print(m.version('chemprop'))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def predict_test_rows(own: OwnTable, seed: int) -> np.ndarray:
    """Train chemprop on a table, and return its predictions for the test rows, [T]: values or probabilities."""
    parts = own.dataset.split(0, 0)
    y = own.dataset.y.numpy().reshape(len(own.table.canonical))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["smiles", "y", "split"])
            for word, rows in (("train", parts.train), ("val", parts.val), ("test", parts.test)):
                writer.writerows([own.table.canonical[row], y[row], word] for row in rows.tolist())
        _train(folder, own.dataset.task, seed)
        with (folder / "out" / PREDICTIONS).open(newline="", encoding="utf-8") as file:
            answers = np.array([float(row["y"]) for row in csv.DictReader(file)])
    if len(answers) != len(parts.test):
        raise InputError(f"chemprop answered {len(answers)} of {len(parts.test)} test rows")
    return answers


def _train(folder: Path, task: str, seed: int) -> None:
    columns = ["--smiles-columns", "smiles", "--target-columns", "y", "--splits-column", "split"]
    command: Sequence[str] = [
        *(program(), "train", "--data-path", str(folder / "table.csv"), "--output-dir", str(folder / "out")),
        *("--task-type", task, "--pytorch-seed", str(seed), *columns),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if run.returncode:
        raise InputError(f"chemprop ended with exit code {run.returncode}: {run.stderr.strip().splitlines()[-1:]}")
