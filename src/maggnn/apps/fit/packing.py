"""`maggnn data pack`: converts a table to a packed file, with progress on the terminal and a file of rows left out."""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.fit.row_files import cell_text
from maggnn.apps.terminal import tell
from maggnn.data.files import check_not_input, check_output
from maggnn.data.molecules.rows import count_lines
from maggnn.data.molecules.several_targets import chosen_targets
from maggnn.data.molecules.smiles import RowError
from maggnn.data.molecules.table import read_table
from maggnn.data.molecules.target_column import target_kind
from maggnn.data.packing import DuplicateWarning, check_name, save_packed
from maggnn.data.splits import PARTS
from maggnn.errors import InputError
from maggnn.training.progress import Progress

ERRORS_SHOWN = 10
SMILES_SHOWN = 1000
"""The number of characters that are shown of a SMILES that was left out; its row number locates the rest."""


def pack_table(
    table: Path,
    smiles: str,
    targets: list[str],
    out: Path,
    features: str,
    split: str | None,
    seed: int,
    workers: int,
    task: str = "auto",
    overwrite: bool = False,
) -> dict[str, Any]:
    """Pack `table` into `out` and list the rows left out in `<out>.errors.csv`. Returns a summary as plain values."""
    check_name(out)
    errors = out.with_suffix(".errors.csv")
    check_not_input(errors, table)
    check_output(out, overwrite)
    targets = chosen_targets(table, targets, [smiles, *filter(None, [split])])
    kind = target_kind(table, targets, task)
    if kind.labels:
        raise InputError(
            f"{table}: {len(targets)} columns of classes, but a packed file has one; `maggnn fit` takes several"
        )
    with warnings.catch_warnings(), row_progress(count_lines(table) - 1) as on_row:
        warnings.simplefilter("ignore", DuplicateWarning)  # the result mentions them
        packed = read_table(table, smiles, targets, features, split, seed, workers, on_row, kind)
    labels = {"class_names": np.array(kind.classes)} if kind.classes else {}
    save_packed(out, packed.arrays | labels)
    write_errors(errors, packed.errors)
    if kind.guessed:
        tell(f"{table}: {kind.why}")
    return {
        "file": str(out),
        "rows": packed.num_rows,
        "kept": len(packed.arrays["num_nodes"]),
        **{part: len(packed.arrays[part]) for part in PARTS},
        "task": kind.task,
        "target": kind.why,
        "errors": len(packed.errors),
        "first_errors": [asdict(_short(error)) for error in packed.errors[:ERRORS_SHOWN]],
        "shared": len(packed.shared),
        "first_shared": packed.shared[0] if packed.shared else None,
    }


def _short(error: RowError) -> RowError:
    """Shorten the SMILES of an error to `SMILES_SHOWN` characters."""
    return error if len(error.smiles) <= SMILES_SHOWN else replace(error, smiles=f"{error.smiles[:SMILES_SHOWN]}...")


@contextmanager
def row_progress(total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar (or lines without a terminal); yields a callback that takes the number of rows done."""
    progress, began = Progress(), time.monotonic()

    def on_row(done: int) -> None:
        rate = done / max(time.monotonic() - began, 1e-9)
        progress.step(done, {} if progress.bar is None else {"rows per second": rate})

    progress.begin("rows", total, 0)
    try:
        yield on_row
    finally:
        progress.close()


def write_errors(path: Path, errors: list[RowError]) -> None:
    """Write all rows left out; if there are none, remove the file of an earlier attempt."""
    if not errors:
        path.unlink(missing_ok=True)
        return
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("row", "smiles", "reason"))
        writer.writerows((error.row, error.smiles, cell_text(error.reason)) for error in map(_short, errors))
