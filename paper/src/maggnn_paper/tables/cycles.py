"""The paper's table of cycle counting, and beyond it: separate rewards for nodes and edges, and hidden links.

| data set | who is rewarded for a move | marks start | config |
|---|---|---|---|
| cycle3 ... cycle6 | all nodes of the graph on average, as in the paper | at random | cycle6 |
| cycle3_directed ... | the same, with four tuples of four directed marks | at random | cycle6_directed |
| cycle3_nodes ... | the node that the tuples belong to | at random | cycle6_nodes |
| cycle3_neighbours ... | the same | on the node's neighbours; `random-marks` means that they stay | cycle6_neighbours |
| cycle3_edges ... | the edge that the tuples belong to (table `edges`) | at random | cycle6_nodes |
| links, links_unmarked | the pair that may hide a link (table `edges`) | at random | links |

`maggnn-paper reproduce credit` sets the first two beside each other on 6-cycles at one budget, with as many marked
copies of each graph in the predictor's steps and in an answer, and as many steps and rewards for the agent (rows
cycle6:one_budget and cycle6_nodes:one_budget of table `cycles`). An agent's step costs more with the averaged reward:
its states have all tuples of a graph. Cycles are judged by mean absolute errors of standardised counts; a model is said
to count below 0.01. Links are judged by the area under the ROC curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from maggnn.config import Config
from maggnn_paper.datasets.cycle_counts import CYCLES
from maggnn_paper.jobs.job import Job, mean_of, run_jobs
from maggnn_paper.jobs.side_by_side import Result
from maggnn_paper.jobs.summary import paired_note, run_means, score_row
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import plain_gnn, recipe
from maggnn_paper.tables import baselines

NODE_SETS = tuple(f"cycle{length}" for length in CYCLES)
ROOTED_SETS = tuple(f"{name}_nodes" for name in NODE_SETS)
NEIGHBOUR_SETS = tuple(f"{name}_neighbours" for name in NODE_SETS)
DIRECTED_SETS = tuple(f"{name}_directed" for name in NODE_SETS)
LINK_SETS = ("links", "links_unmarked")
SETS = (*NODE_SETS, *DIRECTED_SETS, *ROOTED_SETS, *NEIGHBOUR_SETS)
EDGE_SETS = (*(f"{name}_edges" for name in NODE_SETS), *LINK_SETS)
TESTS = 10
"""From random starts; there is only one start on the neighbours of a root."""

CAUTIONS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""In units of the spread of a state's rewards, for marks that already start at informative nodes."""

NODES_A_GRAPH = 19
"""Of the CYCLE graphs, on average (18.8): a mark tuple for each node is that many for each graph."""


def set_config(dataset: str) -> tuple[str, Config]:
    """The recipe of a row, by name, with its data set put in."""
    if dataset in NEIGHBOUR_SETS:
        return "cycle6_neighbours", recipe("cycle6_neighbours").replaced(
            data={"name": dataset.replace("_neighbours", "_nodes")}
        )
    if dataset in DIRECTED_SETS:
        return "cycle6_directed", recipe("cycle6_directed").replaced(data={"name": dataset.removesuffix("_directed")})
    name = "cycle6" if dataset in NODE_SETS else "links" if dataset in LINK_SETS else "cycle6_nodes"
    return name, recipe(name).replaced(data={"name": dataset})


def agent_jobs(dataset: str, runs: int) -> list[Job]:
    """ORD: predictor, then agent."""
    name, config = set_config(dataset)
    moves, tests = config.agent.num_moves, TESTS if config.agent.start == "random" else 1
    cautions = CAUTIONS if dataset in NEIGHBOUR_SETS else ()
    means = (moves + 1,) if dataset in DIRECTED_SETS else ()
    return [
        Job(name, config.replaced(runtime={"seed": run}), moves, tests, keep_model=True, means=means, cautions=cautions)
        for run in range(runs)
    ]


def gin_jobs(dataset: str, runs: int) -> list[Job]:
    """The same predictor without marks: a plain GNN, or on rooted graphs one that knows its root."""
    return [Job(job.recipe, plain_gnn(job.config), 0, 1) for job in agent_jobs(dataset, runs)]  # nobody to be cautious


def reproduce(
    folder: Path,
    runs: int = 1,
    workers: int = 1,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = ("gin", "mag-gnn"),
) -> list[LedgerRow]:
    """Run what is not in `folder` yet; rows of tables `cycles` and `edges`.

    Args:
        datasets: empty means all of `cycles`, and for baselines, which need no root of their own, those of nodes.
    """
    of_baselines = baselines.rows(
        "cycles", datasets or NODE_SETS, methods, runs, folder, workers
    )  # refuses before training
    rows: list[LedgerRow] = []
    for dataset in datasets or SETS:
        table = "edges" if dataset in EDGE_SETS else "cycles"
        if "gin" in methods:
            results = run_jobs(gin_jobs(dataset, runs), folder, workers)
            rows.append(score_row(table, "gin", results, moves=0, dataset=_in_ledger(dataset)))
        if "mag-gnn" in methods:
            rows += _agent_rows(table, dataset, run_jobs(agent_jobs(dataset, runs), folder, workers))
    return rows + of_baselines


def _agent_rows(table: str, dataset: str, results: Sequence[Result]) -> list[LedgerRow]:
    """The agent and its controls in the same predictor."""
    moves = results[0]["config"]["agent"]["num_moves"]
    agent, random = (run_means(results, method, "last")[:, moves] for method in ("mag-gnn", "random-moves"))
    note = f"against random moves {paired_note(agent, random)}"
    if dataset in NEIGHBOUR_SETS:
        cautions = ", ".join(f"{result['config']['agent']['caution']:g}" for result in results)
        note += f"; caution {cautions}, chosen on the validation part"
    equal_cost = []
    if dataset in DIRECTED_SETS:
        sets = mean_of(moves + 1)
        note += f"; against the {sets} random starts, as many passes, "
        note += paired_note(agent, run_means(results, "random-moves", sets)[:, 0])
        equal_cost = [score_row(table, "random-marks", results, 0, sets, dataset=_in_ledger(dataset))]
    return [
        *equal_cost,
        score_row(table, "random-marks", results, moves=0, dataset=_in_ledger(dataset)),
        score_row(table, "random-moves", results, moves, dataset=_in_ledger(dataset)),
        score_row(table, "mag-gnn", results, moves, note=note, dataset=_in_ledger(dataset)),
    ]


def _in_ledger(dataset: str) -> str:
    """The name of a data set in the ledger, where a column of its own says which marks are read."""
    return dataset.removesuffix("_directed")


def credit_jobs(runs: int) -> dict[str, list[Job]]:
    """6-cycles with the averaged reward and with each node's own: as many copies in an answer, steps and weights."""
    _, own = set_config("cycle6_nodes")
    graphs, copies = -(-own.training.batch_size // NODES_A_GRAPH), own.agent.num_tuples * NODES_A_GRAPH
    averaged = own.replaced(
        data={"name": "cycle6"},
        predictor={"read_roots": False},
        agent={"num_tuples": copies},
        training={"batch_size": graphs},
    )
    return {
        config.data.name: [
            Job("cycle6_nodes", config.replaced(runtime={"seed": run}), config.agent.num_moves, TESTS, keep_model=True)
            for run in range(runs)
        ]
        for config in (averaged, own)
    }


def reproduce_credit(folder: Path, runs: int = 1, workers: int = 1) -> list[LedgerRow]:
    """The rows at one budget."""
    rows: list[LedgerRow] = []
    for dataset, jobs in credit_jobs(runs).items():
        rows += _agent_rows("cycles", f"{dataset}:one_budget", run_jobs(jobs, folder, workers))
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
