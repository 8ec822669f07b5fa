"""`maggnn data`: list, verify and pack data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maggnn.apps.terminal import MOST_SEED, AsJson, Overwrite, print_json, print_table
from maggnn.errors import InputError

data_app = typer.Typer(help="Data sets: list, verify and pack them.")


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """List all data sets with their origin and size."""
    from maggnn.data.registry import all_datasets

    entries = {
        name: {"graphs": entry.num_graphs, "from": entry.origin, "what": entry.description}
        for name, entry in all_datasets().items()
    }
    if as_json:
        print_json(entries)
        return
    print_table(
        ["name", "graphs", "from", "what"], [[name, *map(str, entry.values())] for name, entry in entries.items()]
    )


@data_app.command("check")
def data_check(
    name: Annotated[str, typer.Argument(help="a name from `maggnn data list`")], as_json: AsJson = False
) -> None:
    """Load a data set and verify the known facts about it."""
    from maggnn.data.registry import check

    facts = check(name)
    if as_json:
        print_json(dict(facts))
    else:
        for fact, holds in facts:
            print(f"{'ok  ' if holds else 'FAIL'}  {fact}")
    if not all(holds for _, holds in facts):
        raise InputError(f"{name} does not have the expected contents")


@data_app.command("pack")
def data_pack(
    table: Annotated[Path, typer.Argument(help="a table with a header: a .csv or .parquet")],
    target: Annotated[list[str], typer.Option(help="a column of targets; may be repeated", metavar="COL")],
    out: Annotated[Path, typer.Option("-o", "--out", help="the packed file, a .npz")],
    smiles: Annotated[str, typer.Option(help="the column of SMILES", metavar="COL")] = "smiles",
    features: Annotated[str, typer.Option(help="mol, ogb, zinc or qm9")] = "mol",
    split: Annotated[
        str | None, typer.Option(help="a column with train, val or test in each row", metavar="COL")
    ] = None,
    seed: Annotated[int, typer.Option(help="seed of the split, if --split is not given", min=0, max=MOST_SEED)] = 0,
    workers: Annotated[int, typer.Option(help="number of worker processes", min=1)] = 1,
    task: Annotated[str, typer.Option(help="auto, classification or regression")] = "auto",
    regression: Annotated[bool, typer.Option("--regression", help="the same as --task regression")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Convert a table of molecules to a packed file. Rows that cannot be used are listed in another file next to it."""
    from maggnn.apps.fit.packing import pack_table

    task = "regression" if regression else task
    result = pack_table(table, smiles, target, out, features, split, seed, workers, task, overwrite)
    if as_json:
        print_json(result)
        return
    for name in ("rows", "kept", "train", "val", "test", "task", "errors", "shared"):
        print(f"{name:7}{result[name]}")
    for error in result["first_errors"]:
        print(f"row {error['row']}: {error['reason']} ({error['smiles']})")
    if result["first_shared"]:
        print(f"in more than one of train, val and test, such as {result['first_shared']}")
    print(out)


@data_app.command("map")
def data_map(
    files: Annotated[list[Path], typer.Argument(help="packed files (.npz) with the same columns")],
    out: Annotated[Path, typer.Option("-o", "--out", help="folder for the set; its name ends in .graphs")],
    as_json: AsJson = False,
) -> None:
    """Join packed files to one memory-mapped data set. It is for data that do not fit into memory."""
    from maggnn.data.mapped import write_mapped

    found = write_mapped(files, out)
    if as_json:
        print_json(found)
        return
    print("\n".join([*(f"{name:7}{count}" for name, count in found.items()), str(out)]))


@data_app.command("get", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def data_get() -> None:
    """Name the command's new place: it reads official files of data sets that only the paper's tables use."""
    raise InputError("`maggnn data get` is now `maggnn-paper get`: pip install maggnn-paper")
