"""Where the time of `maggnn predict` goes: what each stage takes of one core, for a model with the default settings.

    reading      rows of the table
    parsing      RDKit's MolFromSmiles alone, below which no stage that reads SMILES can come
    featurising  the features of atoms and bonds, without parsing
    packing      one array for all molecules of a chunk, and graphs from it
    ordering     the canonical order of each graph's nodes
    preparing    centrality, return probabilities and rings
    answering    the search and the prediction
    writing      rows of the answers

Figures are seconds of the processor, which other programs on the machine disturb less than time on the clock. `all` is
their sum: with two cores that are both busy, twice its inverse is the number of molecules a second. Time does not
depend on the weights, so the model has learned for one step. The molecules are ZINC-FULL's.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import torch

from maggnn.apps.fit.ensemble import fit_blend
from maggnn.apps.fit.fitted import Facts, FittedModel, UnseenWarning, own_config
from maggnn.apps.fit.folds import single_fold
from maggnn.apps.fit.own_table import graphs_of, read_own_table
from maggnn.apps.fit.predicting import ROWS
from maggnn.apps.fit.row_files import open_source, write_part
from maggnn.data.molecules.smiles import Molecule, featurise_rows
from maggnn.data.packing import pack
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.inference.engine import CACHE_MB
from maggnn_paper.bench.people import smiles_of, zinc_table
from maggnn_paper.ledger import LedgerRow

STAGES = ("reading", "parsing", "featurising", "packing", "ordering", "preparing", "answering", "writing")
MOLECULES = 8192
REPEATS = 3
ROWS_TO_FIT = 64


def bench(limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """One row a stage, and one for all of them: milliseconds of the processor for 1,000 molecules.

    Args:
        limit: molecules, if not `MOLECULES`.
        tell: is given one line a stage.
    """
    count = limit or MOLECULES
    with tempfile.TemporaryDirectory() as name, _one_thread():
        table = Path(name) / "molecules.smi"
        table.write_text("".join(f"{smiles}\n" for smiles in islice(smiles_of("zinc_full_smiles.txt.xz"), count)))
        fitted = default_model(Path(name))
        runs = [_stages(fitted, table) for _ in range(REPEATS)]
    best: dict[str, float] = {stage: min(run[stage] for run in runs) for stage in STAGES}
    best["featurising"] -= best["parsing"]  # which it does as well
    best["all"] = sum(best.values())
    rows = [_row(stage, seconds, count, best) for stage, seconds in best.items()]
    for row in rows:
        tell(f"{row.dataset:20} {row.mean or 0.0:8.1f} ms for 1,000 molecules  {row.note}")
    return rows


@contextmanager
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def default_model(folder: Path) -> FittedModel:
    """What `maggnn fit` would make, but for the weights."""
    table = zinc_table(folder / "fit.csv", ROWS_TO_FIT)
    dataset = read_own_table(table, "smiles", ["y"], "regression", "random", seed=0, workers=1).dataset
    facts = Facts("smiles", "regression", features="mol", smiles_column="smiles", targets=("y",))
    config = own_config(dataset, predictor_steps=1)
    return fit_blend(dataset, facts, config, single_fold(dataset.split(0, 0), len(dataset.graphs)))[0]


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
                return took
            with _timed(took, "parsing"):
                for smiles in chunk.smiles:
                    Chem.MolFromSmiles(smiles)
            with _timed(took, "featurising"):
                found = featurise_rows(chunk.smiles, fitted.facts.features)
            with _timed(took, "packing"):
                packed = graphs_of(pack(one for one in found if isinstance(one, Molecule)))
            with _timed(took, "ordering"):
                ordered = in_canonical_order(fitted.with_seen_categories(packed))
            with _timed(took, "preparing"):
                prepared = engine.precomputed(ordered)
            with _timed(took, "answering"):
                answers = engine.predict(prepared, seed=0)
            with _timed(took, "writing"):
                columns = [*chunk.columns, answers[:, 0].tolist()]
                write_part(table.with_suffix(".csv"), ".csv", ["smiles", "name", "y"], [None, None, "number"], columns)


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
    return LedgerRow(
        table="people",
        dataset=f"predict-{stage}",
        method="mag-gnn",
        metric="ms",
        mean=round(1e6 * seconds / count, 2),
        config="defaults",
        note=note,
    )
