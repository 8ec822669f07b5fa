"""Commands that show models, graphs and settings: `maggnn agents`, `settings`, `distinguish`, `show`, `explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from maggnn.apps.terminal import MOST_SEED, AsJson, SmilesColumn, print_json, print_table


def agents(as_json: AsJson = False) -> None:
    """List the pretrained agents (agent.pretrained). The table has their training data and scores."""
    from maggnn.model.pretrained import AGENTS, pretrained_agent

    found = [pretrained_agent(name) for name in AGENTS]
    entries = {
        agent.name: {
            "trained on": agent.config.data.name,
            "tuple order": agent.tuple_order,
            "parameters": sum(value.numel() for value in agent.weights.values()),
            "score there": f"{agent.ledger['metric']} {agent.ledger['mean']:.4g} after {agent.ledger['t']} moves",
        }
        for agent in found
    }
    if as_json:
        print_json(entries)
        return
    header = ["name", *next(iter(entries.values()))]
    print_table(header, [[name, *map(str, entry.values())] for name, entry in entries.items()])


def settings(
    experimental: Annotated[
        bool, typer.Option("--experimental", help="list the experimental settings, under [experimental.<section>]")
    ] = False,
) -> None:
    """List every setting of a config file. The table has defaults and meanings."""
    from maggnn.config import describe

    print_table(["setting", "default", "meaning"], [list(row) for row in describe(experimental)])


def distinguish(
    graphs: Annotated[str, typer.Argument(help="a data set, or a .g6, .smi, .txt, .csv, .edges, .npz or .pt file")],
    others: Annotated[str | None, typer.Argument(help="compare with these graphs, pair by pair")] = None,
    order: Annotated[int, typer.Option(help="largest number of marks in a tuple", min=0)] = 2,
    agent: Annotated[
        str | None,
        typer.Option(
            help="for large graphs: instead of all tuples, try one that an agent proposes, to prove that graphs "
            "differ; greedy (colour refinement alone), an agent of `maggnn agents`, or a .safetensors file",
            metavar="NAME",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="draw two graphs in this .png file")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute how many marks distinguish graphs.

    Nothing is trained. For a set of graphs, the command suggests m, k and t.
    """
    from maggnn.apps.distinguish import distinguish as compare

    result = compare(graphs, others, order, out, agent)
    if as_json:
        print_json(result.facts)
        return
    if result.rows:
        print_table(result.header, result.rows)
    print("\n".join(result.lines), end="\n" if result.lines else "")


def show(
    folder: Annotated[Path, typer.Argument(help="a folder of `maggnn train` or `fit`, or one with several")],
    host: Annotated[str, typer.Option(help="address to listen on; 0.0.0.0 admits other machines")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any free port", min=0, max=65535)] = 8000,
    molecules: Annotated[Path | None, typer.Option(help="a .smi, .csv or .parquet to show with a fitted model")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="open the page in a browser")] = False,
) -> None:
    """Show runs and models on a local web page.

    The page has training curves, model cards, and graphs whose marks you and the agent can move.
    """
    from maggnn.apps.show.server import serve

    serve(folder, host, port, molecules, open_page)


def explain(
    model: Annotated[Path, typer.Argument(help="a folder of `maggnn fit`, or a run folder of `maggnn train`")],
    graph: Annotated[
        list[str],
        typer.Argument(
            help="for a model fitted to SMILES: SMILES strings, or a table of them (.csv, .smi, .parquet); for a run: "
            "the number of a graph in its data set, a SMILES (for sets of molecules) or graph6 string, or a file such "
            "as mine.g6; mine.g6:3 is graph 3 of that file"
        ),
    ],
    out: Annotated[
        list[Path],
        typer.Option(
            "-o",
            "--out",
            help="a .html page, or an .svg or .png picture of the marks; may be repeated; replaces an existing file",
        ),
    ] = [Path("explain.html")],  # noqa: B006
    moves: Annotated[int | None, typer.Option(help="number of moves t, if not the model's own", min=0)] = None,
    seed: Annotated[int, typer.Option(help="seed of random starts and moves", min=0, max=MOST_SEED)] = 0,
    target: Annotated[
        list[str], typer.Option(help="the true class or number, for scores; one for each target", metavar="VALUE")
    ] = [],  # noqa: B006
    smiles: SmilesColumn = None,
    as_json: AsJson = False,
) -> None:
    """Explain a model's answer for a molecule or graph.

    Shows atom contributions, similar training molecules, and the moves of the marks.
    """
    from maggnn.apps.explain import command

    found, facts = command.explain_all(model, graph, out, moves, seed, target, smiles)
    if as_json:
        print_json(facts)
        return
    lines = [f"left out: {smiles} ({reason})" for smiles, reason in found.left_out]
    if len(found.searches) == 1:
        print_table(command.HEADER, command.table_rows(found.searches[0]))
        lines = [*found.searches[0].notes, *lines]
    if found.properties:
        print_table(command.PROPERTY_HEADER, command.property_rows(found.properties))
        lines = [*found.properties[0].notes, *lines]
    print("\n".join([*lines, *map(str, out)]))
