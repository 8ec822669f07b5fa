"""The command line. Torch is imported only inside commands, so that `maggnn --help` answers at once.

A user's mistake is an `InputError` anywhere below: one line on standard error, exit code 2, no traceback.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from maggnn import __version__
from maggnn.apps.terminal import MOST_SEED, AsJson, print_table, run_app, tell
from maggnn.errors import InputError

app = typer.Typer(
    rich_markup_mode=None, pretty_exceptions_enable=False,
    help="MAG-GNN: a graph neural network whose agent moves node marks to informative places.",
)  # fmt: skip
data_app = typer.Typer(help="Data sets: list, verify and pack them.")
app.add_typer(data_app, name="data")

Settings = Annotated[list[str], typer.Option("--set", help="override a setting, as section.key=value", metavar="KEY=V")]
SmilesColumn = Annotated[str | None, typer.Option(help="the column of SMILES, if not the model's own", metavar="COL")]
Targets = Annotated[list[str], typer.Option(help="the column of a target, if not the model's own", metavar="COL")]
Workers = Annotated[int, typer.Option(help="processes that read molecules", min=1)]
Device = Annotated[str, typer.Option(help="auto (a GPU where there is one), cpu or cuda")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace what is there")]
TABLES = "a table: a .csv (or .csv.gz) or .parquet with a header, or a .sdf (or .sdf.gz)"
SPLITS = "random, scaffold, cluster, time:COL (oldest train, newest test) or column:COL (train, val, test)"
CV_KEYS = ("mean", "low", "high")
EXPORT_FORMATS = (
    "torch, aoti (compiled, needs g++) or onnx; whoever reads a .pt2 (torch, aoti) executes code it may hold, "
    "an .onnx is data alone"
)


def main() -> None:
    """Entry point of the `maggnn` command."""
    sys.argv[1:] = _with_address(sys.argv[1:])
    run_app(app, "maggnn")


def _with_address(arguments: list[str]) -> list[str]:
    """Give a bare --ray its address, a local Ray: typer has no options whose value may be left out."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        following = arguments[place + 1 : place + 2]
        bare = argument == "--ray" and (not following or following[0].startswith("-"))
        found += [argument, "local"] if bare else [argument]
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
    out: Annotated[Path | None, typer.Option("-o", "--out", help="run folder; started again, it resumes")] = None,
    devices: Annotated[int, typer.Option(help="GPUs, or processes on a CPU; each has batches of its own", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="machines; each runs this command", min=1)] = 1,
    as_json: AsJson = False,
) -> None:
    """Train a model, test it and its control (random moves), and save it in a run folder."""
    from maggnn import config as configs
    from maggnn.training.run import train_on

    chosen = configs.load(config).with_settings(settings)
    folder = out or Path("runs") / Path(config).stem
    seconds = train_on(devices, nodes, chosen, folder)
    _show_evaluation(folder / "model.safetensors", chosen.runtime.tests, None, as_json, seconds)


@app.command()
def evaluate(
    model: Annotated[Path, typer.Argument(help="a run folder or its model.safetensors; with a table, a fitted model")],
    table: Annotated[Path | None, typer.Argument(help="a table to test a model of `maggnn fit` on")] = None,
    target: Targets = [],  # noqa: B006
    smiles: SmilesColumn = None,
    workers: Workers = 2,
    tests: Annotated[int | None, typer.Option(help="tests, each from fresh random tuples (10)", min=1)] = None,
    moves: Annotated[int | None, typer.Option(help="t, if not the model's own", min=0)] = None,
    as_json: AsJson = False,
) -> None:
    """Test a model on its test split after 0, 1, ..., t moves, beside random moves; or a fitted model on a table."""
    if table is not None:
        if tests is not None or moves is not None:
            raise InputError("--tests and --moves are for a run folder, not for a table")
        _show_table_evaluation(model, table, target, smiles, workers, as_json)
        return
    from maggnn.apps.fit.fitted import is_fitted

    if is_fitted(model):
        raise InputError(f"{model}: a model of `maggnn fit`: give a table to test it on")
    path = model / "model.safetensors" if model.is_dir() else model
    _show_evaluation(path, tests or 10, moves, as_json, {})


@app.command()
def fit(
    table: Annotated[Path, typer.Argument(help=TABLES)],
    target: Annotated[
        list[str],
        typer.Option(help="a column to predict, or a pattern such as NR-*; may be given again", metavar="COL"),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="the model's folder; started again, it resumes")],
    smiles: Annotated[str, typer.Option(help="the column of SMILES or InChI", metavar="COL")] = "smiles",
    task: Annotated[str, typer.Option(help="auto, classification or regression")] = "auto",
    split: Annotated[str, typer.Option(help=SPLITS)] = "random",
    folds: Annotated[int, typer.Option(help="of a cross-validation beside the fit; 0 for none", min=0, max=100)] = 0,
    repeats: Annotated[int, typer.Option(help="of the cross-validation", min=1, max=100)] = 1,
    weight: Annotated[
        str | None, typer.Option(help="a column that says how much a row counts in training", metavar="COL")
    ] = None,
    balance_classes: Annotated[
        bool, typer.Option("--balance-classes", help="all classes count alike in training, however rare")
    ] = False,
    feature: Annotated[
        list[str], typer.Option(help="a column of numbers that boosting reads too; may be given again", metavar="COL")
    ] = [],  # noqa: B006
    salts: Annotated[str, typer.Option(help="keep all fragments of a molecule, or the largest alone")] = "keep",
    duplicates: Annotated[
        str, typer.Option(help="rows of one molecule: keep, mean (make one of them) or refuse")
    ] = "keep",
    seed: Annotated[int, typer.Option(help="of the split and of training", min=0, max=MOST_SEED)] = 0,
    steps: Annotated[int | None, typer.Option(help="of training, if not as many as the table needs", min=1)] = None,
    config: Annotated[Path | None, typer.Option(help="settings, such as best.toml of `maggnn tune`")] = None,
    start: Annotated[
        Path | None, typer.Option("--from", help="a fitted model's folder: networks begin with its weights")
    ] = None,
    device: Device = "auto",
    ensemble: Annotated[int, typer.Option(help="folds whose models are blended; 1 is one network", min=1, max=100)] = 5,
    unit: Annotated[list[str], typer.Option(help="of a target of numbers, for tables and axes; once a target")] = [],  # noqa: B006
    workers: Workers = 2,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Fit networks, boosting and forests to a table, blend them, and write a folder whose card tests the blend."""
    from maggnn.apps.fit.fitting import Cleaning, Plan, Weighting, fit_table

    result = fit_table(
        table, smiles, target, out, task, split, seed, steps, workers, overwrite, config, ensemble, unit,
        Cleaning(salts, duplicates), Weighting(weight, balance_classes), Plan(folds, repeats), device, start, feature,
    )  # fmt: skip
    if as_json:
        print(json.dumps(result))
        return
    rows = [
        [name, f"{entry['value']:.4g}", "{:.4g} to {:.4g}".format(*entry["interval"])]
        for name, entry in result["test_scores"].items()
    ]
    print_table([f"{result['metric']} on {result['test']} test rows", "", "95 % interval"], rows)
    for name, found in (result["cross_validation"] or {}).items():
        print("cross-validation, {}: {:.4g} ({:.4g} to {:.4g})".format(name, *(found[key] for key in CV_KEYS)))
    print(result["verdict"])
    _print_metrics(result["metrics"])
    print(f"{result['left_out']} of {result['rows']} rows left out; {result['seconds']['all']:.0f} s; {out}/README.md")


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
        typer.Option("-o", "--out", help="the predictions, a .csv or .parquet, with --ray a folder; it resumes"),
    ],
    smiles: SmilesColumn = None,
    coverage: Annotated[float, typer.Option(help="of the intervals of numbers, from 0.5 to 0.99")] = 0.9,
    device: Device = "auto",
    workers: Annotated[
        int | None, typer.Option(help="processes that read molecules: 2, with --ray one a CPU", min=1)
    ] = None,
    overwrite: Overwrite = False,
    ray: Annotated[
        str | None,
        typer.Option(help="answer on Ray: on a local one, or with an address (auto, HOST:PORT)", metavar="[ADDRESS]"),
    ] = None,
    gpus: Annotated[int | None, typer.Option(help="with --ray: GPUs that answer, if not all", min=0)] = None,
    by: Annotated[str | None, typer.Option(help="with --ray: a predicted column to select by", metavar="COL")] = None,
    top: Annotated[int | None, typer.Option(help="with --by: keep so many rows, the largest values", min=1)] = None,
    lowest: Annotated[bool, typer.Option("--lowest", help="with --top: the smallest values instead")] = False,
    above: Annotated[float | None, typer.Option(help="with --by: keep rows with larger values")] = None,
    below: Annotated[float | None, typer.Option(help="with --by: keep rows with smaller values")] = None,
    as_json: AsJson = False,
) -> None:
    """Add predictions to a table of any length; rows that cannot be used say why and have none."""
    if ray is None:
        for option, value in (("gpus", gpus), ("by", by), ("top", top), ("above", above), ("below", below)):
            if value is not None or (option == "top" and lowest):
                raise InputError(f"--{option if value is not None else 'lowest'} needs --ray")
        from maggnn.apps.fit.predicting import predict_table

        result = predict_table(model, Path(table), Path(out), smiles, workers or 2, overwrite, coverage, device)
    else:
        if device != "auto":
            raise InputError(f"--device {device}: Ray has its own: use --gpus 0 for CPUs alone")
        from maggnn.apps.scale.screening import screen
        from maggnn.apps.scale.selection import Selection

        selection = Selection(by, top, lowest, above, below)
        result = screen(model, table, out, ray, smiles, workers, gpus, overwrite, coverage, selection)
    if as_json:
        print(json.dumps(result))
        return
    kept = "" if by is None else f", {result['kept']} kept"
    print(f"{result['rows']} rows, {result['without']} without a prediction{kept}; {result['seconds']:.0f} s; {out}")


@app.command()
def export(
    model: Annotated[Path, typer.Argument(help="a folder that `maggnn fit` or `maggnn train` wrote")],
    out: Annotated[Path, typer.Option("-o", "--out", help="the program: a .pt2, or a .onnx")],
    kind: Annotated[str, typer.Option("--format", help=EXPORT_FORMATS)] = "torch",
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Write a model's whole search as one program for serving, which needs torch (or onnxruntime) but not maggnn."""
    from maggnn.apps.export import export_model

    result = export_model(model, out, kind, overwrite)
    if as_json:
        print(json.dumps(result))
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
    out: Annotated[Path, typer.Option("-o", "--out", help="the study's folder; started again, it resumes")],
    smiles: Annotated[str | None, typer.Option(help="for a table: the column of SMILES", metavar="COL")] = None,
    target: Annotated[list[str], typer.Option(help="for a table: a column to predict", metavar="COL")] = [],  # noqa: B006
    trials: Annotated[int, typer.Option(help="total number of trials, including earlier runs", min=1)] = 20,
    minutes: Annotated[float | None, typer.Option(help="time limit, checked at each validation", min=0.01)] = None,
    steps: Annotated[int | None, typer.Option(help="training steps of a trial, instead of the default", min=1)] = None,
    task: Annotated[str, typer.Option(help="auto, classification or regression")] = "auto",
    split: Annotated[str, typer.Option(help=SPLITS)] = "random",
    seed: Annotated[int | None, typer.Option(help="seed of split, trials and training", min=0, max=MOST_SEED)] = None,
    settings: Settings = [],  # noqa: B006
    workers: Workers = 2,
    as_json: AsJson = False,
) -> None:
    """Search m, k, t, the width and a few more settings on the validation split; the test split is not used."""
    from maggnn.apps.tune import study as tuning

    if source.suffix == ".toml":
        if smiles is not None or target:
            raise InputError(f"{source}: --smiles and --target are for a table, not for a config")
        problem = tuning.config_problem(source, settings, seed, steps)
    elif smiles is None or not target:
        raise InputError(f"{source}: a table needs --smiles COL and --target COL")
    elif settings:
        raise InputError(f"{source}: --set is for a config, not for a table")
    else:
        problem = tuning.table_problem(source, smiles, target, task, split, seed or 0, steps, workers)
    result = tuning.tune(problem, out, trials, minutes, tell)
    if as_json:
        print(json.dumps(result))
        return
    rows = [[key, f"{value:.4g}"] for key, value in result["params"].items()]
    print_table(["setting", f"best, trial {result['best_trial']}"], rows)
    began = "" if result["start"] is None else f" ({result['start']:.4g} to start with)"
    print(f"{result['objective']} on the validation part {result['best']:.4g}{began}; {result['seconds']:.0f} s")
    print(f"{out}/best.toml")


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """List all data sets with their origin and size."""
    from maggnn.data.registry import all_datasets

    entries = {
        name: {"graphs": entry.num_graphs, "from": entry.origin, "what": entry.description}
        for name, entry in all_datasets().items()
    }
    if as_json:
        print(json.dumps(entries))
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
        print(json.dumps(dict(facts)))
    else:
        for fact, holds in facts:
            print(f"{'ok  ' if holds else 'FAIL'}  {fact}")
    if not all(holds for _, holds in facts):
        raise InputError(f"{name} is not what it should be")


@data_app.command("pack")
def data_pack(
    table: Annotated[Path, typer.Argument(help="a table with a header: a .csv or .parquet")],
    smiles: Annotated[str, typer.Option(help="the column of SMILES", metavar="COL")],
    target: Annotated[list[str], typer.Option(help="a column of targets; may be given again", metavar="COL")],
    out: Annotated[Path, typer.Option("-o", "--out", help="the packed file, a .npz")],
    features: Annotated[str, typer.Option(help="mol, ogb, zinc or qm9")] = "mol",
    split: Annotated[str | None, typer.Option(help="a column that says train, val or test", metavar="COL")] = None,
    seed: Annotated[int, typer.Option(help="seed of the split, without --split", min=0, max=MOST_SEED)] = 0,
    workers: Annotated[int, typer.Option(help="number of worker processes", min=1)] = 1,
    task: Annotated[str, typer.Option(help="auto, classification or regression")] = "auto",
    regression: Annotated[bool, typer.Option("--regression", help="the same as --task regression")] = False,
    as_json: AsJson = False,
) -> None:
    """Convert a table of molecules into a packed file; rows that cannot be used are listed in a file next to it."""
    from maggnn.apps.fit.packing import pack_table

    task = "regression" if regression else task
    result = pack_table(table, smiles, target, out, features, split, seed, workers, task)
    if as_json:
        print(json.dumps(result))
        return
    for name in ("rows", "kept", "train", "val", "test", "task", "errors", "shared"):
        print(f"{name:7}{result[name]}")
    for error in result["first_errors"]:
        print(f"row {error['row']}: {error['reason']} ({error['smiles']})")
    if result["first_shared"]:
        print(f"in more than one of train, val and test, such as {result['first_shared']}")
    print(out)


@data_app.command("get", hidden=True, context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
def data_get() -> None:
    """Say where this command is now: the sets whose official files it reads are those of the paper's tables."""
    raise InputError("`maggnn data get` is now `maggnn-paper get`: pip install maggnn-paper")


@app.command()
def agents(as_json: AsJson = False) -> None:
    """List the pretrained agents (agent.pretrained): what they were trained on, and their score there."""
    from maggnn.model.pretrained import AGENTS, pretrained_agent

    found = [pretrained_agent(name) for name in AGENTS]
    entries = {
        agent.name: {
            "trained on": agent.config.data.name,
            "tuple order": agent.tuple_order,
            "parameters": sum(value.numel() for value in agent.weights.values()),
            "at home": f"{agent.ledger['metric']} {agent.ledger['mean']:.4g} after {agent.ledger['t']} moves",
        }
        for agent in found
    }
    if as_json:
        print(json.dumps(entries))
        return
    header = ["name", *next(iter(entries.values()))]
    print_table(header, [[name, *map(str, entry.values())] for name, entry in entries.items()])


@app.command()
def settings(
    experimental: Annotated[
        bool, typer.Option("--experimental", help="the settings of single experiments, under [experimental.<section>]")
    ] = False,
) -> None:
    """List every setting of a config file with its default and meaning."""
    from maggnn.config import describe

    print_table(["setting", "default", "meaning"], [list(row) for row in describe(experimental)])


@app.command()
def distinguish(
    graphs: Annotated[str, typer.Argument(help="a data set, or a .g6, .smi, .txt, .csv, .edges, .npz or .pt file")],
    others: Annotated[str | None, typer.Argument(help="compare with these graphs, one by one")] = None,
    order: Annotated[int, typer.Option(help="largest number of marks in a tuple", min=0)] = 2,
    agent: Annotated[
        str | None,
        typer.Option(
            help="for large graphs: do not try all tuples, but look for one that an agent proposes, as a proof that "
            "graphs differ; greedy (colour refinement alone), an agent of `maggnn agents`, or a .safetensors file",
            metavar="NAME",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="a picture of two graphs, a .png")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute how many marks distinguish graphs, without training, and suggest m, k and t."""
    from maggnn.apps.distinguish import distinguish as compare

    result = compare(graphs, others, order, out, agent)
    if as_json:
        print(json.dumps(result.facts))
        return
    if result.rows:
        print_table(result.header, result.rows)
    print("\n".join(result.lines), end="\n" if result.lines else "")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="a folder of `maggnn train` or `fit`, or one that holds several")],
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 admits other machines")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free port", min=0, max=65535)] = 8000,
    molecules: Annotated[Path | None, typer.Option(help="a .smi, .csv or .parquet to show with a fitted model")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="open the page in a browser")] = False,
) -> None:
    """Serve a local page: training curves, model cards, and graphs whose marks you and the agent move."""
    from maggnn.apps.show.server import serve

    serve(folder, host, port, molecules, open_page)


@app.command()
def serve(
    model: Annotated[Path, typer.Argument(help="a folder that `maggnn fit` wrote")],
    host: Annotated[str, typer.Option(help="address to listen at; 0.0.0.0 lets others in")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free", min=0, max=65535)] = 8080,
    name: Annotated[list[str], typer.Option(help="a further host name that clients may ask for", metavar="HOST")] = [],  # noqa: B006
    workers: Annotated[int, typer.Option(help="processes that read molecules", min=1)] = 1,
    most_rows: Annotated[int, typer.Option(help="molecules of a question", min=1, max=65_536)] = 4096,
    most_atoms: Annotated[int, typer.Option(help="atoms of a molecule", min=1, max=1000)] = 200,
) -> None:
    """Answer questions over HTTP: POST /predict with JSON or Arrow; GET /health, /model, /metrics."""
    import prometheus_client  # noqa: F401 (first, since the extra that brings it brings all that a server needs)

    from maggnn.apps.serve.server import serve as serve_model

    serve_model(model, host, port, workers, most_rows, most_atoms, tuple(name))


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(help="a folder of `maggnn fit`, or a run folder of `maggnn train`")],
    graph: Annotated[
        list[str],
        typer.Argument(
            help="fitted to SMILES: SMILES strings, or a table of them (.csv, .smi, .parquet); a run: the number of a "
            "graph of its data set, or a SMILES string where that holds molecules, else graph6; also a file such as "
            "mine.g6, mine.g6:3 for its graph number 3"
        ),
    ],
    out: Annotated[
        list[Path],
        typer.Option(
            "-o",
            "--out",
            help="a .html page, an .svg or .png picture of the marks; may be given again; "
            "replaces a file that is there",
        ),
    ] = [Path("explain.html")],  # noqa: B006
    moves: Annotated[int | None, typer.Option(help="t, if not the model's own", min=0)] = None,
    seed: Annotated[int, typer.Option(help="of random starts and moves", min=0, max=MOST_SEED)] = 0,
    target: Annotated[
        list[str], typer.Option(help="the true class or number, for scores; once a target", metavar="VALUE")
    ] = [],  # noqa: B006
    smiles: SmilesColumn = None,
    as_json: AsJson = False,
) -> None:
    """Show which atoms a model's answer rests on, similar molecules of training, and where the marks went."""
    from maggnn.apps.explain import command

    found, facts = command.explain_all(model, graph, out, moves, seed, target, smiles)
    if as_json:
        print(json.dumps(facts))
        return
    lines = [f"left out: {smiles} ({reason})" for smiles, reason in found.left_out]
    if len(found.searches) == 1:
        print_table(command.HEADER, command.table_rows(found.searches[0]))
        lines = [*found.searches[0].notes, *lines]
    if found.properties:
        print_table(command.PROPERTY_HEADER, command.property_rows(found.properties))
        lines = [*found.properties[0].notes, *lines]
    print("\n".join([*lines, *map(str, out)]))


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="where the pictures go")] = Path("runs/demo"),
    as_json: AsJson = False,
) -> None:
    """Train on embedded data in under three minutes: GIN, random marks, random moves, MAG-GNN, and a picture."""
    from maggnn.apps.demo import run_demo

    result = run_demo(out)
    if as_json:
        print(json.dumps(result))
        return
    sets = list(result["accuracy"])
    methods = list(result["accuracy"][sets[0]])
    rows = [[method, *(f"{result['accuracy'][name][method]:.1f}" for name in sets)] for method in methods]
    print_table(["accuracy in %", *sets], rows)
    print(f"{result['seconds']:.0f} s; marks moving: {result['picture']}")


def _show_evaluation(path: Path, tests: int, moves: int | None, as_json: bool, seconds: dict[str, float]) -> None:
    from maggnn.training.evaluate import evaluate_model

    result = evaluate_model(path, tests, moves)
    if as_json:
        print(json.dumps({"model": str(path), "train_s": seconds, **result}))
        return
    columns = [f"t = {step}" for step in range(result["moves"] + 1)]
    digits = 4 if result["metric"] == "mae" else 2
    rows = [[name, *(f"{value:.{digits}f}" for value in values)] for name, values in result[result["metric"]].items()]
    print_table([f"{result['metric']}, {tests} tests on {result['graphs']} graphs", *columns], rows)
    print(f"model: {path}")


def _show_table_evaluation(
    model: Path, table: Path, targets: list[str], smiles: str | None, workers: int, as_json: bool
) -> None:
    from maggnn.apps.fit.evaluating import evaluate_table

    result = evaluate_table(model, table, targets, smiles, workers)
    if as_json:
        print(json.dumps(result))
        return
    low, high = result["interval"]
    used = result["rows"] - result["left_out"]
    print(f"{result['metric']} {result[result['metric']]:.4g} (95 % interval {low:.4g} to {high:.4g}) on {used} rows")
    _print_metrics(result["metrics"])
    print(f"{result['left_out']} of {result['rows']} rows left out")


def _print_metrics(targets: dict[str, Any]) -> None:
    """A line for each target: all metrics of the model itself."""
    from maggnn.apps.fit.card.reported import metric_name

    for name, report in targets.items():
        own = next(iter(report["methods"].values()))
        known = {key: entry["value"] for key, entry in own.items() if entry["value"] is not None}
        said = ", ".join(
            f"{metric_name(key, report['unit'] or '', report.get('positive', ''))} {value:.4g}"
            for key, value in known.items()
        )
        at = f" (at a threshold of {report['threshold']:.3g})" if "threshold" in report else ""
        print(f"{name}: {said}{at}")
