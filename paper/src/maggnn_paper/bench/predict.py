"""Where the time of `maggnn predict` goes: what each stage takes of one core, for a model with the default settings.

    reading      rows of the table
    parsing      RDKit's MolFromSmiles alone, below which no stage that reads SMILES can come
    featurising  the features of atoms and bonds, without parsing
    describing   fingerprints, for the similarity to the molecules of training
    packing      one array for all molecules of a chunk
    ordering     the canonical order of each graph's nodes and edges
    preparing    centrality, return probabilities and rings
    answering    the search and the prediction
    finishing    graphs from arrays, similarities and intervals
    writing      rows of the answers

Worker processes do all from parsing to ordering, and writing.

Figures are seconds of the processor, which other programs on the machine disturb less than time on the clock. `all` is
their sum: with two cores that are both busy, twice its inverse is the number of molecules a second.

    rate           time on the clock of `maggnn predict` on all cores, with one network (`maggnn fit --ensemble 1`)
    rate-ensemble  the same of an ensemble of five (`maggnn fit`), of which networks, boosting and forest all answer

These are the difference between a long and a short table, so that start-up, which the note names, does not count. Time
does not depend on the weights, so networks have learned for one step; from 1,000 molecules, with each of which new ones
are compared. The molecules are ZINC-FULL's.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from maggnn.apps.fit.blend import NETWORK
from maggnn.apps.fit.ensemble import fit_blend, trimmed
from maggnn.apps.fit.facts import Facts
from maggnn.apps.fit.featurised_chunks import featurised_chunk
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning
from maggnn.apps.fit.folds import deal_folds, single_fold
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.own_table import read_own_table
from maggnn.apps.fit.predicting import ROWS, answers_for, read_by
from maggnn.apps.fit.row_files import cell_text, open_source, write_part
from maggnn.data.molecules.smiles import Molecule, featurise_rows
from maggnn.data.ordered import in_order
from maggnn.data.packing import pack
from maggnn.data.sources import graphs_of
from maggnn.inference.engine import CACHE_MB
from maggnn_paper.bench.people import run_command, smiles_of, zinc_table
from maggnn_paper.bench.rows import milliseconds_row
from maggnn_paper.ledger import LedgerRow

STAGES = (
    "reading", "parsing", "featurising", "describing", "packing", "ordering", "preparing", "answering", "finishing",
    "writing",
)  # fmt: skip
MOLECULES = 8192
REPEATS = 3
ROWS_TO_FIT = 1_000
MEMBERS = 5
SHORT, LONG = 2 * ROWS, 14 * ROWS
"""Rows of the tables whose difference is the rate."""


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row a stage, and one for all of them: milliseconds of the processor for 1,000 molecules.

    Args:
        limit: molecules, if not `MOLECULES`; rates of the command, which need many, are then left out.
        tell: is given one line a stage.
    """
    count = limit or MOLECULES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted = default_model(folder)
        with _one_thread():
            runs = [_stages(fitted, _table(folder / "molecules.smi", count)) for _ in range(REPEATS)]
        best: dict[str, float] = {stage: min(run[stage] for run in runs) for stage in STAGES}
        best["all"] = sum(best.values())
        rows = [_row(stage, seconds, count, best) for stage, seconds in best.items()]
        if limit is None:
            rows += [_rate(folder, fitted, "rate"), _rate(folder, default_model(folder, MEMBERS), "rate-ensemble")]
    for row in rows:
        tell(f"{row.dataset:22} {row.mean or 0.0:8.1f} ms for 1,000 molecules  {row.note}")
    return rows


def _table(path: Path, count: int) -> Path:
    path.write_text("".join(f"{smiles}\n" for smiles in islice(smiles_of("zinc_full_smiles.txt.xz"), count)))
    return path


def _rate(folder: Path, fitted: FittedModel, name: str) -> LedgerRow:
    """Milliseconds on the clock for 1,000 molecules."""
    fitted.save(folder / name)
    short, long = (_seconds(folder, name, count) for count in (SHORT, LONG))
    each = (long - short) / (LONG - SHORT)
    begins = short - SHORT * each
    note = f"{1 / each:.0f} molecules a second from SMILES on {os.cpu_count()} cores; start-up {begins:.1f} s"
    return milliseconds_row(f"predict-{name}", 1e6 * each, note)


def _seconds(folder: Path, name: str, count: int) -> float:
    """Of `maggnn predict` with the model in a folder, from beginning to end; the better of two runs."""
    table, out = _table(folder / f"{count}.smi", count), folder / "out.csv"
    command = ["predict", str(folder / name), str(table), "-o", str(out), "--overwrite", "--json"]
    return min(run_command(command).seconds for _ in range(2))


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def default_model(folder: Path, ensemble: int = 1) -> FittedModel:
    """What `maggnn fit` would make, but for the weights; all parts of an ensemble have the same say."""
    table = zinc_table(folder / "fit.csv", ROWS_TO_FIT)
    own = read_own_table(table, "smiles", ["y"], "regression", "random", seed=0, workers=1)
    facts = Facts("smiles", "regression", features="mol", smiles_column="smiles", targets=("y",))
    config, rows = own_config(own.dataset, predictor_steps=1), np.arange(len(own.dataset.graphs))
    folds = single_fold(own.dataset.split(0, 0), len(rows))
    if ensemble > 1:
        dealt = deal_folds(rows, own.dataset.y.numpy(), "regression", ensemble, 0, own.table.canonical)
        assert dealt is not None and dealt.count == ensemble
        folds = dealt
    fitted = fit_blend(own.dataset, facts, config, folds, own.table.canonical)[0]
    if ensemble == 1:
        return trimmed(fitted)  # to its network
    parts = (NETWORK, *fitted.trees)
    blend = replace(fitted.facts.blend, weights=dict.fromkeys(parts, 1 / len(parts)))
    return replace(fitted, facts=replace(fitted.facts, blend=blend))


def _stages(fitted: FittedModel, table: Path) -> dict[str, float]:
    """Seconds of the processor that each stage takes for a table."""
    from rdkit import Chem

    took: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    engine, chunks = fitted.engine(CACHE_MB, "cpu"), open_source(table, "").chunks(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        while True:
            with _timed(took, "reading"):
                chunk = next(chunks, None)
            if chunk is None:
                return _apart(took)
            with _timed(took, "parsing"):
                for smiles in chunk.smiles:
                    Chem.MolFromSmiles(smiles)
            with _timed(took, "featurising"):
                found = featurise_rows(chunk.smiles, fitted.facts.features)
            with _timed(took, "packing"):
                packed = pack(one for one in found if isinstance(one, Molecule))
            with _timed(took, "ordering"):
                ordered = graphs_of(in_order(packed))
            with _timed(took, "describing"):
                molecules = featurised_chunk(chunk.smiles, *read_by(fitted))
            with _timed(took, "preparing"):
                prepared = engine.precomputed(ordered)
            with _timed(took, "answering"):
                engine.predict(prepared, seed=0)
            with _timed(took, "finishing"):
                answers = answers_for(fitted, chunk, molecules, seed=0)
            with _timed(took, "writing"):
                cells = [*chunk.columns, *([cell_text(value) for value in column] for column in answers.cells())]
                write_part(table.with_suffix(".csv"), ".csv", [], [], cells)


def _apart(took: dict[str, float]) -> dict[str, float]:
    """The same without what a stage repeats of those before it."""
    repeated = {
        "finishing": ("preparing", "answering"),
        "describing": ("featurising", "packing", "ordering"),
        "featurising": ("parsing",),
    }
    return took | {stage: took[stage] - sum(took[name] for name in names) for stage, names in repeated.items()}


@contextmanager
def _timed(took: dict[str, float], stage: str) -> Iterator[None]:
    began = time.process_time()
    yield
    took[stage] += time.process_time() - began


def _row(stage: str, seconds: float, count: int, best: dict[str, float]) -> LedgerRow:
    share, parsing = seconds / best["all"], seconds / best["parsing"]
    note = (
        f"{100 * share:.0f} % of the time, {parsing:.2f} of parsing; {count / seconds:.0f} molecules a second and core"
    )
    return milliseconds_row(f"predict-{stage}", 1e6 * seconds / count, note)
