"""`maggnn predict --ray`: predictions for a table or a folder of tables by actors of Ray Data, as Parquet shards.

    out/run.json        everything but the tables that predictions depend on; shards of other runs are not mixed in
    out/shards/         one Parquet file for each shard, whose rows have predictions or the reason for none
    out/top.parquet     with --top: the best rows of all shards, the best first
    out/summary.json    consistent counts, written last

A shard's file is written atomically and identifies its inputs, so the same command, started again after any kill, makes
the missing shards and ends with the same bytes. Actors repeat work that was lost with a worker or a node.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from maggnn.apps.fit.answers.columns import answer_names, answer_types
from maggnn.apps.fit.answers.far_rows import far_limit, far_warning
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.packing import row_progress
from maggnn.apps.fit.predicting import (
    ROWS,
    check_added,
    load_for_smiles,
    model_digests,
    read_by,
)
from maggnn.apps.fit.uncertainty import COVERAGE, check_coverage
from maggnn.apps.scale.cluster import LOCAL, Resources, connected, while_it_fits
from maggnn.apps.scale.selection import PLACE, SHARD, Selection, unpacked
from maggnn.apps.scale.shards import CHUNKS, ENDINGS, Columns, Plan, plan_table
from maggnn.apps.scale.stages import Answerer, Counts, Job, Reader, merged_shards, parquet_bytes
from maggnn.apps.scale.storage import Place, place_of, tables_of
from maggnn.data.files import locked
from maggnn.errors import InputError, did_you_mean, require

RUN, SHARDS, TOP, SUMMARY = "run.json", "shards", "top.parquet", "summary.json"

MERGED = 16
"""The number of shards whose best rows one task merges."""


def screen(
    model: Path,
    table: str,
    out: str,
    address: str = LOCAL,
    smiles: str | None = None,
    workers: int | None = None,
    gpus: int | None = None,
    overwrite: bool = False,
    coverage: float = COVERAGE,
    selection: Selection | None = None,
    chunks: int = CHUNKS,
) -> dict[str, Any]:
    """Predict for a table or a folder of tables on Ray.

    Args:
        model: a folder of `maggnn fit`.
        table: a path or URI of a .csv, .smi or .parquet, or of a folder of them.
        out: a path or URI of the output folder.
        address: the address of Ray, as for `connected`.
        smiles: the column of SMILES; by default that of the model.
        workers: the number of actors of each stage; None is the number of CPUs (and GPUs, for predictions).
        gpus: the number of GPUs; None uses all of the cluster.
        overwrite: whether to replace the results of another run in `out`.
        coverage: the coverage of prediction intervals.
        selection: which rows are kept; None keeps all.
        chunks: the number of chunks of `maggnn predict` in a shard.

    Returns:
        The summary, which is also written to `out`.
    """
    began, selection = time.monotonic(), selection or Selection()
    require("ray", "pyarrow")
    fitted = load_for_smiles(model)
    check_coverage(coverage, fitted.facts.blend.spreads)
    numbers = [name for name, kind in zip(answer_names(fitted), answer_types(fitted), strict=True) if kind is not None]
    selection.check(numbers)
    tables, folder = tables_of(place_of(table), ENDINGS), place_of(out)
    run = {
        "model": model_digests(model, fitted.facts),
        "smiles": smiles or fitted.facts.column_of_smiles,
        "coverage": coverage,
        "rows_a_chunk": ROWS,
        "chunks_a_shard": chunks,
        "selection": asdict(selection),
    }
    known = _check_folder(folder, run, overwrite)
    with connected(address) as resources, ExitStack() as stack:
        actors = _actors(resources, workers, gpus)
        plans = _plans(tables, run["smiles"], chunks, answer_names(fitted))
        if folder.local:
            lock = Path(folder.path).parent / f".{folder.name}.lock"
            stack.enter_context(locked(lock, f"{out}: another process is writing it"))
        jobs = _jobs(plans, folder, run)
        _prepare(folder, run, jobs, known)
        counts, best = _answered(fitted, plans[0].columns, jobs, coverage, selection, actors)
        warning = far_warning(counts.far, counts.predicted, far_limit(fitted))
        return _finished(folder, selection, counts, best, warning, time.monotonic() - began)


def _check_folder(folder: Place, run: dict[str, Any], overwrite: bool) -> bool:
    """Return whether the folder contains shards of the same run; anything else in it is an error."""
    kind = folder.kind()
    if kind == "file":
        raise InputError(f"{folder.shown} is a file: give the path of a folder")
    if kind == "nothing":
        return False
    try:
        known = json.loads(folder.within(RUN).read())
    except (InputError, ValueError):
        known = None
    if known == run:
        return True
    if known is None and folder.listed():
        raise InputError(f"{folder.shown}: contains other files: choose another folder")
    if known is not None and not overwrite:
        raise InputError(f"{folder.shown}: contains another run; choose another name, or --overwrite to replace it")
    return False


class Actors(NamedTuple):
    """The numbers of actors of the two stages and their resources, as arguments of Ray Data, and all claims."""

    readers: dict[str, Any]
    answerers: dict[str, Any]
    claimed: Resources


def _actors(resources: Resources, workers: int | None, gpus: int | None) -> Actors:
    from ray.data import ActorPoolStrategy

    cpus, there = int(resources.cpus), int(resources.gpus)
    if gpus is not None and gpus > there:
        raise InputError(f"--gpus {gpus}: the cluster has {there}")
    if not cpus:
        raise InputError("the cluster has no CPUs")
    gpus = there if gpus is None else gpus
    most = max(1, cpus - gpus)
    readers = min(workers or most, most if gpus else cpus)
    pool = {"compute": ActorPoolStrategy(size=readers)}
    if gpus:
        answerers = {"num_cpus": 0, "num_gpus": 1, "compute": ActorPoolStrategy(size=gpus)}
        return Actors({"num_cpus": 1, **pool}, answerers, Resources(readers, gpus))
    # Without GPUs both stages share the CPUs: the slower one uses the time of the other, which waits. They claim half
    # of the CPUs in total: if half of the nodes are lost, their actors still fit on the others.
    share = {"num_cpus": 0.25, **pool}
    return Actors(share, dict(share), Resources(0.5 * readers, 0))


def _plans(tables: Sequence[Place], smiles: str, chunks: int, added: Sequence[str]) -> list[Plan]:
    """Read all tables once, in parallel tasks; raises the first error in their order."""
    import ray

    tasks = [ray.remote(_planned).remote(table, smiles, chunks) for table in tables]
    plans: list[Plan] = []
    for found in ray.get(tasks):
        if isinstance(found, str):
            raise InputError(found)
        plans.append(found)
    for plan in plans:
        check_added(plan.table.shown, plan.columns.names, added)
        _check_same(plans[0], plan)
    if not any(plan.rows for plan in plans):
        raise InputError(f"{tables[0].shown}: there are no rows to predict for")
    return plans


def _planned(table: Place, smiles: str, chunks: int) -> Plan | str:
    try:
        return plan_table(table, smiles, chunks)
    except InputError as error:
        return str(error)


def _check_same(first: Plan, other: Plan) -> None:
    """Raise an `InputError` if the tables of a folder have different columns."""
    for name, kind in zip(first.columns.names, first.columns.types, strict=True):
        if name not in other.columns.names:
            near = did_you_mean(name, other.columns.names)
            raise InputError(f"{other.table.shown}: no column {name!r}, which {first.table.name} has{near}")
        found = other.columns.types[other.columns.names.index(name)]
        if found != kind:
            raise InputError(f"{other.table.shown}: column {name!r} has type {found}, in {first.table.name} {kind}")
    if other.columns.names != first.columns.names:
        extra = [name for name in other.columns.names if name not in first.columns.names]
        what = f"a column {extra[0]!r} that" if extra else "its columns in another order than"
        raise InputError(f"{other.table.shown}: has {what} {first.table.name} {'lacks' if extra else 'has'}")


def _jobs(plans: Sequence[Plan], folder: Place, run: dict[str, Any]) -> list[Job]:
    jobs: list[Job] = []
    for plan in plans:
        for shard in plan.shards:
            depends = json.dumps([run, plan.digest, shard.number, plan.columns.names], sort_keys=True)
            identity = hashlib.sha256(depends.encode()).hexdigest()
            jobs.append(Job(shard, len(jobs), folder.within(SHARDS).within(shard.name), identity))
    return jobs


def _prepare(folder: Place, run: dict[str, Any], jobs: Sequence[Job], known: bool) -> None:
    """Prepare the folder: remove the summary, and shards that are not of this run."""
    for name in (SUMMARY, TOP) if known else (SUMMARY, TOP, RUN):
        if folder.within(name).kind() == "file":
            folder.within(name).remove()
    wanted = {job.out.name for job in jobs} if known else set()
    for left in folder.within(SHARDS).listed():
        if left.name not in wanted:
            left.remove()
    if not known:
        folder.within(RUN).write(json.dumps(run).encode())


def _answered(
    fitted: FittedModel,
    columns: Columns,
    jobs: Sequence[Job],
    coverage: float,
    selection: Selection,
    actors: Actors,
) -> tuple[Counts, bytes | None]:
    """Run the stages. Returns the counts of all shards, and the best rows if they are requested."""
    import ray.data

    each: dict[str, Any] = {"batch_size": 1, "batch_format": "pyarrow"}
    rows = ray.data.from_items([{"job": pickle.dumps(job)} for job in jobs], override_num_blocks=len(jobs))
    rows = rows.map_batches(
        Reader, fn_constructor_args=(columns, read_by(fitted)), **each, **actors.readers
    )  # fmt: skip
    rows = rows.map_batches(
        Answerer, fn_constructor_args=(fitted, columns, coverage, selection, 1), **each, **actors.answerers
    )  # fmt: skip
    if selection.top is not None:
        rows = rows.map_batches(
            partial(merged_shards, selection=selection),
            batch_size=MERGED,
            batch_format="pyarrow",
            num_cpus=0,
        )
    counts, best = Counts(), None
    with row_progress(sum(job.shard.rows for job in jobs)) as on_row:
        for row in while_it_fits(rows.iter_rows(), actors.claimed):
            if row["error"]:
                raise InputError(f"{row['error'].decode()}; finished shards are kept, and the same command resumes")
            counts += Counts(**json.loads(row["counts"]))
            if selection.top is not None:
                best = row["best"] if best is None else selection.merged([best, row["best"]])
            on_row(counts.rows)
    if counts.shards != len(jobs):
        raise RuntimeError(f"{len(jobs)} shards were to be answered, {counts.shards} were")
    return counts, best


def _finished(
    folder: Place, selection: Selection, counts: Counts, best: bytes | None, warning: str, seconds: float
) -> dict[str, Any]:
    """Write the files that follow the last shard. Returns the summary."""
    if best is not None:
        folder.within(TOP).write(parquet_bytes(unpacked(best).drop_columns([SHARD, PLACE])))
    summary = {
        "out": folder.shown,
        "rows": counts.rows,
        "predicted": counts.predicted,
        "without": counts.rows - counts.predicted,
        "reasons": counts.reasons,
        "kept": counts.kept if best is None else unpacked(best).num_rows,
        "selection": asdict(selection),
        "shards": counts.shards,
        "far": counts.far,
        "warning": warning,
    }
    folder.within(SUMMARY).write(json.dumps(summary, indent=2).encode())
    return {**summary, "found": counts.found, "seconds": seconds}
