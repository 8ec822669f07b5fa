"""The command line of the reproduction: `maggnn-paper reproduce|bench|figure|get|report`.

Torch is imported only inside commands, so that `maggnn-paper --help` answers at once.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from maggnn.apps.terminal import MOST_SEED, AsJson, print_table, run_app, tell

app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False,
    help="The tables, figures and benchmarks of the MAG-GNN paper, measured anew.",
)  # fmt: skip


def main() -> None:
    """Entry point of the `maggnn-paper` command."""
    run_app(app, "maggnn-paper")


@app.command()
def reproduce(
    table: Annotated[str, typer.Argument(help="a table: synthetic, moves, molecules, ...")],
    row: Annotated[list[str], typer.Option(help="only these data sets")] = [],  # noqa: B006
    methods: Annotated[list[str], typer.Option(help="only these methods (controls are included)")] = [],  # noqa: B006
    runs: Annotated[
        int | None, typer.Option(help="independent trainings, if not the table's own number", min=1)
    ] = None,
    workers: Annotated[int, typer.Option(help="number of parallel processes", min=1)] = 1,
    ray: Annotated[
        str | None, typer.Option(help="run jobs in parallel on this Ray: HOST:PORT, auto, or local to start one")
    ] = None,
    folder: Annotated[Path, typer.Option(help="results of single jobs; finished jobs are not run again")] = Path(
        "runs/reproduce"
    ),
    ledger: Annotated[Path, typer.Option(help="the ledger to append rows to")] = Path("results/ledger.jsonl"),
    as_json: AsJson = False,
) -> None:
    """Measure a table or figure of the paper. Its rows are appended to the ledger."""
    from maggnn_paper import ledger as ledgers
    from maggnn_paper.jobs.side_by_side import on_ray
    from maggnn_paper.tables.registry import reproduce_table

    with nullcontext() if ray is None else on_ray(ray):
        rows = reproduce_table(table, folder, runs, workers, row, methods)
    ledgers.append(rows, ledger)
    _print_rows([json.loads(entry.to_json()) for entry in rows], as_json)


@app.command()
def bench(
    what: Annotated[str, typer.Argument(help="what to measure; an unknown name lists all")],
    limit: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="at most this many graphs, molecules or rows; for chemist, cells (0: only write finished rows)",
        ),
    ] = None,
    memory_mb: Annotated[float, typer.Option(help="memory limit of a chunk; the paper allows 1 GB")] = 1000.0,
    methods: Annotated[
        list[str], typer.Option(help="baselines to time as well (inference), or chemprop (chemist)")
    ] = [],  # noqa: B006
    sets: Annotated[list[str], typer.Option("--set", help="only these practice sets (chemist)")] = [],  # noqa: B006
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    ledger: Annotated[Path, typer.Option(help="the ledger to append rows to")] = Path("results/ledger.jsonl"),
    out: Annotated[Path, typer.Option("-o", "--out", help="the picture that scaling draws")] = Path("runs/scaling.png"),
    as_json: AsJson = False,
) -> None:
    """Measure time and memory on this machine. The rows are appended to the ledger."""
    from maggnn_paper.bench.tables import run_bench
    from maggnn_paper.ledger import append

    # As after Ctrl-C, what a bench has started (processes, a cluster, a small disk) ends with it.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        rows = run_bench(what, device, limit, memory_mb, tell, methods, sets)
    finally:
        signal.signal(signal.SIGTERM, before)
    append(rows, ledger)
    if what == "scaling":
        from maggnn_paper.figures.scaling import draw_scaling

        draw_scaling(rows, out)
    _print_rows([json.loads(row.to_json()) for row in rows], as_json)


@app.command()
def figure(
    what: Annotated[str, typer.Argument(help="scores, moves, reward, trajectory, passes, learners or screening")],
    run: Annotated[
        Path, typer.Argument(help="run folder of a trained model; for passes, learners and screening the ledger")
    ],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="the picture, a .png")] = None,
    graph: Annotated[list[int], typer.Option(help="which graphs of the set to draw (trajectory)")] = [0],  # noqa: B006
    seed: Annotated[int, typer.Option(help="seed of the starting tuples", min=0, max=MOST_SEED)] = 0,
) -> None:
    """Draw a figure of the paper from a run folder, or from the ledger if it compares runs."""
    from maggnn_paper.figures.commands import draw

    path = out or (run if run.is_dir() else run.parent) / f"{what}.png"
    draw(what, run, path, graph, seed)
    print(path)


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="zinc, zinc_full, qm9 or molhiv")],
    raw: Annotated[Path | None, typer.Option(help="folder of the official files, as PyG or OGB lay it out")] = None,
) -> None:
    """Convert official files of a data set into a packed file.

    It is written under the data root; ZINC and QM9 are downloaded if necessary.

    PyG reads the bonds of QM9 as they are written, so its aromatic and hybridisation columns are zero.
    """
    from maggnn_paper.datasets.official import get as get_official

    print(get_official(name, raw))


@app.command()
def report() -> None:
    """Render docs/results and the table of the README from the ledger."""
    from maggnn_paper.report import check_checkout, write_report

    check_checkout(Path.cwd())
    changed = write_report(Path.cwd())
    print("\n".join(str(path) for path in changed) if changed else "nothing changed")


@app.command()
def player(
    out: Annotated[Path, typer.Option("-o", "--out", help="the recorded predictions, a .json")] = Path(
        "docs/player/recorded.json"
    ),
    folder: Annotated[
        Path, typer.Option(help="folder of the two models; finished models are not trained again")
    ] = Path("runs/player"),
) -> None:
    """Record the site's interactive player. Trains its two models, in about two minutes."""
    from maggnn_paper.site.player import record_player, to_json

    out.write_text(to_json(record_player(folder)), encoding="utf-8")
    print(out)


@app.command()
def screenshots(
    folder: Annotated[Path, typer.Option(help="the models of `maggnn-paper player`")] = Path("runs/player"),
    out: Annotated[Path, typer.Option("-o", "--out", help="the folder of the pictures")] = Path("docs/pictures"),
) -> None:
    """Take the screenshots of the documentation. Shows the page of `maggnn show` in Chromium, wide and on a phone."""
    from maggnn_paper.site.screenshots import take_screenshots

    print("\n".join(map(str, take_screenshots(folder, out))))


def _print_rows(rows: list[dict[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows))
        return
    names = ["table", "dataset", "method", "metric", "mean", "std", "runs", "m", "k", "t", "keep"]
    print_table(names, [["" if row[name] is None else str(row[name]) for name in names] for row in rows])
