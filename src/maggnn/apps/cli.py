"""The command line. Torch is imported only inside commands, so that `maggnn --help` answers at once.

A user's mistake is an `InputError` anywhere below: one line on standard error, exit code 2, no traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from maggnn import __version__
from maggnn.apps.data_commands import data_app
from maggnn.apps.inspection_commands import agents, distinguish, explain, settings, show
from maggnn.apps.terminal import (
    MOST_SEED,
    AsJson,
    Overwrite,
    SmilesColumn,
    print_json,
    print_table,
    run_app,
    tell,
)
from maggnn.errors import InputError

app = typer.Typer(
    rich_markup_mode=None, pretty_exceptions_enable=False,
    help="MAG-GNN: a graph neural network whose agent moves node marks to informative nodes.",
)  # fmt: skip
app.add_typer(data_app, name="data")

Settings = Annotated[list[str], typer.Option("--set", help="override a setting, as section.key=value", metavar="KEY=V")]
Targets = Annotated[
    list[str],
    typer.Option(help="the column of a target, one for each, in their order (default: as in training)", metavar="COL"),
]
Workers = Annotated[int, typer.Option(help="processes that read molecules", min=1)]
Device = Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda")]
TABLES = "a table: a .csv (or .csv.gz) or .parquet with a header, or a .sdf (or .sdf.gz)"
SPLITS = "random, scaffold, cluster, time:COL (oldest train, newest test) or column:COL (train, val, test)"
RAY_TRAINS = "train in --devices workers of Ray, started locally or at an address (auto, HOST:PORT)"
EXPORT_FORMATS = (
    "torch, aoti (compiled, needs g++) or onnx; loading a .pt2 file (torch, aoti) can execute code that it contains, "
    "an .onnx file contains only data"
)


def main() -> None:
    """Entry point of the `maggnn` command."""
    sys.argv[1:] = _with_address(sys.argv[1:])
    run_app(app, "maggnn")


def _with_address(arguments: list[str]) -> list[str]:
    """Insert the address "local" after --ray without a value: typer has no options whose value may be omitted."""
    found: list[str] = []
    for argument, following in zip(arguments, [*arguments[1:], "-"], strict=True):
        found += [argument, "local"] if argument == "--ray" and following.startswith("-") else [argument]
    return found


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"maggnn {__version__}")
        raise typer.Exit


@app.callback()
def general(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the command itself; each subcommand has its own."""


@app.command()
def train(
    config: Annotated[str, typer.Argument(help="a TOML file, or the name of a packaged config such as sr25")],
    settings: Settings = [],  # noqa: B006 (typer copies it)
    out: Annotated[Path | None, typer.Option("-o", "--out", help="run folder; a second call resumes the run")] = None,
    devices: Annotated[
        int, typer.Option(help="number of GPUs, or of processes on a CPU; each has its own batches", min=1)
    ] = 1,
    nodes: Annotated[int, typer.Option(help="number of machines, each of which runs this command", min=1)] = 1,
    ray: Annotated[str | None, typer.Option(help=RAY_TRAINS, metavar="[ADDRESS]")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a model and test it. The test compares the agent with random moves; all files are in a run folder."""
    from maggnn import config as configs

    chosen = configs.load(config).with_settings(settings)
    folder = out or Path("runs") / Path(config).stem
    if ray is None:
        from maggnn.training.run import train_on

        seconds = train_on(devices, nodes, chosen, folder)
    elif nodes > 1:
        raise InputError(f"--nodes {nodes}: with --ray, Ray places the --devices on its nodes: leave --nodes out")
    else:
        from maggnn.apps.scale.training import train_on_ray

        seconds = train_on_ray(devices, ray, chosen, folder)
    _show_evaluation(folder, chosen.runtime.tests, None, as_json, seconds)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="a run folder or its model.safetensors; with a table, a fitted model")],
    table: Annotated[Path | None, typer.Argument(help="a table to test a model of `maggnn fit` on")] = None,
    target: Targets = [],  # noqa: B006
    smiles: SmilesColumn = None,
    workers: Workers = 2,
    tests: Annotated[
        int | None, typer.Option(help="number of tests, each from fresh random tuples (default: 10)", min=1)
    ] = None,
    moves: Annotated[int | None, typer.Option(help="number of moves t, if not the model's own", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Test a trained or a fitted model.

    A run is tested on its test split after 0, 1, ..., t learned or random moves, a model of `maggnn fit` on a table.
    """
    if table is not None:
        if tests is not None or moves is not None:
            raise InputError("--tests and --moves are for a run folder, not for a table")
        from maggnn.apps.fit.card.printed import print_evaluation
        from maggnn.apps.fit.evaluating import evaluate_table

        result = evaluate_table(model, table, target, smiles, workers)
        if as_json:
            print_json(result)
        else:
            print_evaluation(result)
        return
    from maggnn.apps.fit.fitted import is_fitted

    if is_fitted(model):
        raise InputError(f"{model} is a model of `maggnn fit`: give a table to test it on")
    _show_evaluation(model, tests or 10, moves, as_json, {})


@app.command()
def fit(
    table: Annotated[Path, typer.Argument(help=TABLES)],
    target: Annotated[
        list[str],
        typer.Option(help="a column to predict, or a pattern such as NR-*; may be repeated", metavar="COL"),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="the model's folder; a second call resumes the fit")],
    smiles: Annotated[str, typer.Option(help="the column of SMILES or InChI", metavar="COL")] = "smiles",
    task: Annotated[str, typer.Option(help="auto, classification or regression")] = "auto",
    split: Annotated[str, typer.Option(help=SPLITS)] = "random",
    folds: Annotated[int, typer.Option(help="folds of an additional cross-validation (0: none)", min=0, max=100)] = 0,
    repeats: Annotated[int, typer.Option(help="repetitions of the cross-validation", min=1, max=100)] = 1,
    weight: Annotated[
        str | None, typer.Option(help="a column with the weight of each row in training", metavar="COL")
    ] = None,
    balance_classes: Annotated[
        bool, typer.Option("--balance-classes", help="give all classes the same total weight in training")
    ] = False,
    feature: Annotated[
        list[str], typer.Option(help="a numeric column as an additional input; may be repeated", metavar="COL")
    ] = [],  # noqa: B006
    salts: Annotated[str, typer.Option(help="keep all fragments of a molecule, or only the largest")] = "keep",
    duplicates: Annotated[
        str, typer.Option(help="rows with the same molecule: keep, mean (average them) or refuse")
    ] = "keep",
    seed: Annotated[int, typer.Option(help="seed of the split and of training", min=0, max=MOST_SEED)] = 0,
    steps: Annotated[int | None, typer.Option(help="training steps (default: by the table's size)", min=1)] = None,
    config: Annotated[Path | None, typer.Option(help="settings, such as best.toml of `maggnn tune`")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="a fitted model's folder, whose weights initialise the networks")
    ] = None,
    device: Device = "auto",
    ensemble: Annotated[
        int, typer.Option(help="number of folds whose models are blended; 1: a single network", min=1, max=100)
    ] = 5,
    unit: Annotated[
        list[str], typer.Option(help="unit of a numeric target, for tables and axes; one for each target")
    ] = [],  # noqa: B006
    workers: Workers = 2,
    devices: Annotated[int, typer.Option(help="GPUs, or processes on a CPU, that train each network", min=1)] = 1,
    ray: Annotated[str | None, typer.Option(help=RAY_TRAINS, metavar="[ADDRESS]")] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Fit an ensemble to a table of molecules and test it.

    Networks, gradient boosting, random forests and Gaussian processes are blended; the folder's model card has the
    test scores of the blend and of each member.
    """
    from maggnn.apps.fit.card.printed import print_fit
    from maggnn.apps.fit.fitting import Cleaning, Plan, Weighting, fit_table
    from maggnn.apps.scale.training import launched_by

    with launched_by(ray, devices, device) as launch:
        result = fit_table(
            table, smiles, target, out, task, split, seed, steps, workers, overwrite, config, ensemble, unit,
            Cleaning(salts, duplicates), Weighting(weight, balance_classes), Plan(folds, repeats), device, start,
            feature, launch,
        )  # fmt: skip
    if as_json:
        print_json(result)
    else:
        print_fit(result)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="a folder that `maggnn fit` wrote")],
    table: Annotated[
        str,
        typer.Argument(
            help="molecules: a .csv, .smi, .parquet or .sdf; .csv.gz and .sdf.gz too; or graphs (.g6, .npz, .pt); "
            "with --ray a .csv, .smi or .parquet, a folder of them, or a URI"
        ),
    ],
    out: Annotated[
        str,
        typer.Option("-o", "--out", help="a .csv or .parquet, with --ray a folder; a second call resumes the run"),
    ],
    smiles: SmilesColumn = None,
    coverage: Annotated[float, typer.Option(help="coverage of prediction intervals, from 0.5 to 0.99")] = 0.9,
    device: Device = "auto",
    workers: Annotated[
        int | None, typer.Option(help="processes that read molecules (default: 2, with --ray one for each CPU)", min=1)
    ] = None,
    overwrite: Overwrite = False,
    ray: Annotated[
        str | None,
        typer.Option(help="predict with Ray, started locally or at an address (auto, HOST:PORT)", metavar="[ADDRESS]"),
    ] = None,
    gpus: Annotated[int | None, typer.Option(help="with --ray: number of GPUs (default: all)", min=0)] = None,
    by: Annotated[str | None, typer.Option(help="with --ray: a predicted column to select by", metavar="COL")] = None,
    top: Annotated[
        int | None, typer.Option(help="with --by: keep this many rows with the largest values", min=1)
    ] = None,
    lowest: Annotated[bool, typer.Option("--lowest", help="with --top: keep the smallest values instead")] = False,
    above: Annotated[float | None, typer.Option(help="with --by: keep rows with larger values")] = None,
    below: Annotated[float | None, typer.Option(help="with --by: keep rows with smaller values")] = None,
    as_json: AsJson = False,
) -> None:
    """Add predictions to a table of any length. Rows that cannot be used get no prediction, and a column says why."""
    if ray is None:
        for option, value in (("gpus", gpus), ("by", by), ("top", top), ("above", above), ("below", below)):
            if value is not None or (option == "top" and lowest):
                raise InputError(f"--{option if value is not None else 'lowest'} needs --ray")
        from maggnn.apps.fit.predicting import predict_table

        result = predict_table(model, Path(table), Path(out), smiles, workers or 2, overwrite, coverage, device)
    else:
        if device != "auto":
            raise InputError(f"--device {device}: Ray chooses the devices; use --gpus 0 to run on CPUs only")
        from maggnn.apps.scale.screening import screen
        from maggnn.apps.scale.selection import Selection

        selection = Selection(by, top, lowest, above, below)
        result = screen(model, table, out, ray, smiles, workers, gpus, overwrite, coverage, selection)
    if as_json:
        print_json(result)
        return
    kept = "" if by is None else f", {result['kept']} kept"
    print(f"{result['rows']} rows, {result['without']} without a prediction{kept}; {result['seconds']:.0f} s; {out}")
    if result["warning"]:
        print(result["warning"])


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="a folder that `maggnn fit` or `maggnn train` wrote")],
    out: Annotated[Path, typer.Option("-o", "--out", help="file for the program (.pt2 or .onnx)")],
    kind: Annotated[str, typer.Option("--format", help=EXPORT_FORMATS)] = "torch",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as one program for serving.

    The program contains the whole search and needs torch or onnxruntime, but not maggnn.
    """
    from maggnn.apps.export import export_model

    result = export_model(model, out, kind, overwrite)
    if as_json:
        print_json(result)
        return
    tensors = {**result["inputs"], "answers": result["output"]}
    print_table(["tensor", "shape", "type", "what"], [
        [name, " x ".join(map(str, entry["shape"])), entry["dtype"], entry["what"]] for name, entry in tensors.items()
    ])  # fmt: skip
    print(f"{result['bytes'] / 1e6:.1f} MB; {out}")


@app.command()
def tune(
    source: Annotated[
        Path, typer.Argument(help="a table with a header (.csv, .parquet), or a data set's config (TOML)")
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="the study's folder; a second call resumes the study")],
    smiles: Annotated[
        str | None, typer.Option(help="a table's column of SMILES (default: smiles)", metavar="COL")
    ] = None,
    target: Annotated[list[str], typer.Option(help="for a table: a column to predict", metavar="COL")] = [],  # noqa: B006
    trials: Annotated[int, typer.Option(help="total number of trials, including earlier runs", min=1)] = 20,
    minutes: Annotated[float | None, typer.Option(help="time limit, checked at each validation", min=0.01)] = None,
    steps: Annotated[int | None, typer.Option(help="training steps of a trial, if not the default", min=1)] = None,
    task: Annotated[str, typer.Option(help="auto, classification or regression")] = "auto",
    split: Annotated[str, typer.Option(help=SPLITS)] = "random",
    seed: Annotated[int | None, typer.Option(help="seed of split, trials and training", min=0, max=MOST_SEED)] = None,
    settings: Settings = [],  # noqa: B006
    workers: Workers = 2,
    ray: Annotated[
        str | None, typer.Option(help="run trials in parallel on Ray at this address; without one, on a local Ray")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tune m, k, t, width and more on the validation split. The test split is not used."""
    import optuna  # noqa: F401 (first: its absence is reported before a table is read)

    from maggnn.apps.tune.problem import config_problem, table_problem
    from maggnn.apps.tune.study import tune as run_study

    if source.suffix == ".toml":
        if smiles is not None or target:
            raise InputError(f"{source}: --smiles and --target are for a table, not for a config")
        problem = config_problem(source, settings, seed, steps)
    elif not target:
        raise InputError(f"{source}: a table needs --target COL")
    elif settings:
        raise InputError(f"{source}: --set is for a config, not for a table")
    else:
        problem = table_problem(source, smiles or "smiles", target, task, split, seed or 0, steps, workers)
    result = run_study(problem, out, trials, minutes, tell, ray)
    if as_json:
        print_json(result)
        return
    rows = [[key, f"{value:.4g}"] for key, value in result["params"].items()]
    print_table(["setting", f"best, trial {result['best_trial']}"], rows)
    began = "" if result["start"] is None else f" ({result['start']:.4g} to start with)"
    print(f"{result['objective']} on the validation split {result['best']:.4g}{began}; {result['seconds']:.0f} s")
    print(f"{out}/best.toml")


@app.command()
def serve(
    model: Annotated[Path, typer.Argument(help="a folder that `maggnn fit` wrote")],
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 admits other machines")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free port", min=0, max=65535)] = 8080,
    name: Annotated[
        list[str], typer.Option(help="an additional host name that clients may use for the server", metavar="HOST")
    ] = [],  # noqa: B006
    workers: Annotated[int, typer.Option(help="processes that read molecules", min=1)] = 1,
    most_rows: Annotated[int, typer.Option(help="most molecules in one request", min=1, max=65_536)] = 4096,
    most_atoms: Annotated[int, typer.Option(help="most atoms in one molecule", min=1, max=1000)] = 200,
) -> None:
    """Serve predictions over HTTP. POST /predict with JSON or Arrow; GET /health, /model, /metrics."""
    import prometheus_client  # noqa: F401 (first: the extra that installs it installs all that a server needs)

    from maggnn.apps.serve.server import serve as serve_model

    serve_model(model, host, port, workers, most_rows, most_atoms, tuple(name))


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="folder for the pictures")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Compare MAG-GNN with its controls, in less than three minutes.

    GIN, random marks, random moves and MAG-GNN are compared on generated data sets.
    """
    from maggnn.apps.demo import run_demo

    result = run_demo(out)
    if as_json:
        print_json(result)
        return
    sets = list(result["accuracy"])
    methods = list(result["accuracy"][sets[0]])
    rows = [[method, *(f"{result['accuracy'][name][method]:.1f}" for name in sets)] for method in methods]
    print_table(["accuracy in %", *sets], rows)
    print(f"{result['seconds']:.0f} s; marks moving: {result['picture']}")


for command in (distinguish, show, explain, agents, settings):
    app.command()(command)


def _show_evaluation(model: Path, tests: int, moves: int | None, as_json: bool, seconds: dict[str, float]) -> None:
    from maggnn.model.saving import model_file
    from maggnn.training.evaluate import evaluate_model

    path = model_file(model)
    result = evaluate_model(path, tests, moves)
    if as_json:
        print_json({"model": str(path), "train_s": seconds, **result})
        return
    columns = [f"t = {step}" for step in range(result["moves"] + 1)]
    digits = 4 if result["metric"] == "mae" else 2
    rows = [[name, *(f"{value:.{digits}f}" for value in values)] for name, values in result[result["metric"]].items()]
    print_table([f"{result['metric']}, {tests} tests on {result['graphs']} graphs", *columns], rows)
    print(f"model: {path}")
