"""The paper's table of cycle counting, and what it leaves open: nodes and edges with a reward of their own, links.

| data set | who is rewarded for a move | config |
|---|---|---|
| cycle3 ... cycle6 | all nodes of the graph on average, as in the paper | cycle6 |
| cycle3_nodes ... | the node that the tuples belong to | cycle6_nodes |
| cycle3_edges ... | the edge that the tuples belong to (table `edges`) | cycle6_nodes |
| links, links_unmarked | the pair that may hide a link (table `edges`) | links |

Cycles are judged by mean absolute errors of standardised counts; a model is said to count below 0.01. Links are judged
by the area under the ROC curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.config import Config
from maggnn.data.benchmarks import CYCLES
from maggnn.experiments.jobs import Job, run_jobs
from maggnn.experiments.ledger import LedgerRow
from maggnn.experiments.recipes import plain_gnn, recipe
from maggnn.experiments.summary import paired_note, run_means, score_row

NODE_SETS = tuple(f"cycle{length}" for length in CYCLES)
ROOTED_SETS = tuple(f"{name}_nodes" for name in NODE_SETS)
LINK_SETS = ("links", "links_unmarked")
EDGE_SETS = (*(f"{name}_edges" for name in NODE_SETS), *LINK_SETS)
TESTS = 10


def set_config(dataset: str) -> tuple[str, Config]:
    """The recipe of a set, by name, with the set put in."""
    name = "cycle6" if dataset in NODE_SETS else "links" if dataset in LINK_SETS else "cycle6_nodes"
    return name, recipe(name).replaced(data={"name": dataset})


def agent_jobs(dataset: str, runs: int) -> list[Job]:
    """ORD: predictor, then agent."""
    name, config = set_config(dataset)
    moves = config.agent.num_moves
    return [Job(name, config.replaced(runtime={"seed": run}), moves, TESTS, keep_model=True) for run in range(runs)]


def gin_jobs(dataset: str, runs: int) -> list[Job]:
    """The same predictor without marks: a plain GNN, or on rooted graphs one that knows its root."""
    return [Job(job.recipe, plain_gnn(job.config), 0, 1) for job in agent_jobs(dataset, runs)]


def reproduce(
    folder: Path,
    runs: int = 1,
    workers: int = 1,
    datasets: Sequence[str] = (*NODE_SETS, *ROOTED_SETS),
    methods: Sequence[str] = ("gin", "mag-gnn"),
) -> list[LedgerRow]:
    """Run what is not in `folder` yet; rows of tables `cycles` and `edges`."""
    rows: list[LedgerRow] = []
    for dataset in datasets:
        table = "edges" if dataset in EDGE_SETS else "cycles"
        if "gin" in methods:
            rows.append(score_row(table, "gin", run_jobs(gin_jobs(dataset, runs), folder, workers), moves=0))
        if "mag-gnn" in methods:
            results = run_jobs(agent_jobs(dataset, runs), folder, workers)
            moves = results[0]["config"]["agent"]["num_moves"]
            agent, random = (run_means(results, method, "last")[:, moves] for method in ("mag-gnn", "random-moves"))
            note = f"against random moves {paired_note(agent, random)}"
            rows.append(score_row(table, "random-marks", results, moves=0))
            rows.append(score_row(table, "random-moves", results, moves))
            rows.append(score_row(table, "mag-gnn", results, moves, note=note))
    return rows


def reproduce_edges(
    folder: Path,
    runs: int = 1,
    workers: int = 1,
    datasets: Sequence[str] = EDGE_SETS,
    methods: Sequence[str] = ("gin", "mag-gnn"),
) -> list[LedgerRow]:
    """Rows of table `edges`."""
    return reproduce(folder, runs, workers, datasets, methods)
