"""The paper's tables of molecules: ZINC, ZINC-FULL and MOLHIV, the twelve targets of QM9, and the transfer of agents.

Every method has the predictor, the budget and the validation of the set's config; what differs is who places the marks:

| method | marks while the predictor learns |
|---|---|
| gin | none (k = 0) |
| random-marks, random-moves | random; tested as they are, after t random moves, and as the mean of t + 1 starts |
| central-starts | random; tested on the most central nodes, with as many marks and without moves |
| central-marks | on the most central nodes, k = 1, m as many as the agent takes encoder passes; on request |
| mag-gnn | moved by an agent that learns beside the predictor (SIMUL) |
| mag-gnn-pre | moved by an agent from other data (PRE) |
| mag-gnn-shared | random; then an agent that reads the predictor's own embeddings learns in it (ORD); on request |
| mag-gnn-dqn | as mag-gnn, but the agent learns from the paper's experience replay; on request |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from maggnn.config import Config
from maggnn_paper.datasets.molecules import QM9_TARGETS
from maggnn_paper.jobs.job import CENTRAL, MEAN, STARTS, Job, Result, mean_of, run_jobs
from maggnn_paper.jobs.summary import paired_note, run_errors, run_means, score_row, trimmed_note, validation_note
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.recipes import plain_gnn, recipe
from maggnn_paper.tables import baselines

DIRECTED = (
    "zinc_directed", "zinc_full_directed", "molhiv_directed", "zinc_directed_walks", "zinc_full_directed_walks",
)  # fmt: skip
DATASETS = ("zinc", "zinc_full", "molhiv", "zinc_distance", "zinc_full_distance", *DIRECTED)
QM9_SETS = ("qm9", "qm9_directed")
"""Rows of the table: data sets, and configs that take one of them with other inputs or marks."""

TRANSFERRED = ("zinc", "zinc_full", "molhiv", "zinc_directed", "molhiv_directed")
RUNS = {
    "zinc": 4, "zinc_full": 1, "molhiv": 4, "qm9": 1, "zinc_distance": 8, "zinc_full_distance": 3, "zinc_directed": 8,
    "zinc_full_directed": 3, "molhiv_directed": 16, "zinc_directed_walks": 4, "zinc_full_directed_walks": 1,
}  # fmt: skip
BASELINE_RUNS = 1
METHODS = ("gin", "random-marks", "mag-gnn", "mag-gnn-pre")
TESTS = 10
REPLAY = {"target": "dqn", "gamma": 0.9, "standardise_rewards": False, "agent_batch_size": 128}
"""The paper's replay instead of lookahead; the paper does not state discount and batch size."""

SYNCS = 20
"""Copies to the target network in a run. The paper's sync rate, 3000, is about that share of its own steps."""

SHARED = "mag-gnn-shared"
"""The agent whose encoder is the predictor's: each pass of a walk gives an answer, too."""

BEST_AGENT = "cycles6"
"""Of the pretrained agents, the one the paper found best."""

AGENT_FOR: dict[str, str] = dict.fromkeys((*DIRECTED, "qm9_directed"), "rings")
"""The agent of PRE with directed marks: on ZINC it was better on the validation split, and the others follow ZINC."""

_SMALLER = {"encoder": {"hidden": 112}, "training": {"predictor_steps": 12_000, "agent_steps": 4000}}
OWN_AGENT: dict[str, dict[str, dict[str, int]]] = dict.fromkeys(
    ("zinc_distance", "zinc_directed", "zinc_directed_walks"), _SMALLER
)
"""Settings of SIMUL where an agent of its own would not fit beside the config's predictor into the set's budget of
parameters; it takes more time for each step too."""

QM9_ALONE = ("r2",)
"""Targets of QM9 that have a network of their own, as all have in the paper: beside the others R2 is learned worse."""

SOURCES = {"cycles3": "cycle3", "cycles6": "cycle6", "sr25": "sr25"}
"""Agents of the transfer table and their data sets in the ledger."""


def method_config(dataset: str, method: str, agent: str | None = None) -> Config:
    """The set's config as `method` trains; single targets of QM9 have that of all together.

    Args:
        agent: of PRE, if not the best one for the set.
    """
    config = recipe(recipe_name(dataset))
    if method in ("mag-gnn", "mag-gnn-dqn") and dataset in OWN_AGENT:
        config = config.replaced(**OWN_AGENT[dataset])
    if dataset.startswith("qm9"):
        config = config.replaced(data={"name": dataset.removesuffix("_directed")})
    if method == "mag-gnn":
        return config
    if method == SHARED:
        return config.replaced(agent={"encoder": "shared"}, training={"paradigm": "ord", "unmoved_share": 0.0})
    if method == "mag-gnn-dqn":
        steps = config.training.predictor_steps  # the agent steps as often, as in Algorithm 3
        return config.replaced(training=REPLAY | {"agent_steps": steps, "sync_every": max(1, steps // SYNCS)})
    if method == "mag-gnn-pre":
        agent = agent or AGENT_FOR.get(recipe_name(dataset), BEST_AGENT)
        return config.replaced(agent={"pretrained": agent}, training={"paradigm": "pre", "agent_steps": 0})
    control = config.replaced(training={"paradigm": "ord", "agent_steps": 0, "unmoved_share": 0.0})
    if method == "central-marks":
        passes = config.agent.num_tuples * (config.agent.num_moves + 1)
        return control.replaced(
            agent={"start": "central", "tuple_order": 1, "num_tuples": passes, "num_moves": 0},
        )
    return plain_gnn(control) if method == "gin" else control


def recipe_name(dataset: str) -> str:
    """Which config: the targets of QM9 (`qm9_r2`, and `qm9_r2_directed` with directed marks) share one."""
    if not dataset.startswith("qm9"):
        return dataset
    return "qm9_directed" if dataset.endswith("_directed") else "qm9"


def method_jobs(dataset: str, method: str, runs: int, agent: str | None = None) -> list[Job]:
    """One job a run. QM9, which has no official split, gets another one with each run."""
    config = method_config(dataset, method, agent)
    draws = config.agent.tuple_order > 0 and config.agent.start == "random"
    control = draws and method == "random-marks"
    return [
        Job(
            recipe_name(dataset),
            config.replaced(runtime={"seed": run}, data={"split_seed": run if dataset.startswith("qm9") else 0}),
            max_moves=config.agent.num_moves,
            tests=TESTS if draws else 1,
            keep_model=True,
            starts=STARTS if draws else 1,
            means=(config.agent.num_moves + 1,) if control else (),
            central=control,
        )
        for run in range(runs)
    ]


def reproduce(
    folder: Path,
    runs: int | None = None,
    workers: int = 1,
    datasets: Sequence[str] = (),
    methods: Sequence[str] = METHODS,
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the rows of the table of molecules.

    Args:
        datasets: empty means all, and for baselines those of them that they have settings for.
    """
    known = [dataset for dataset in DATASETS if dataset in baselines.TASKS]
    # First, since a data set that was asked for and has no settings is refused before anything is trained.
    of_baselines = baselines.rows("molecules", datasets or known, methods, runs or BASELINE_RUNS, folder, workers)
    rows: list[LedgerRow] = []
    own = [method for method in methods if method not in baselines.METHODS]
    for dataset in datasets or DATASETS:
        results = _run(dataset, own, runs or RUNS[dataset], folder, workers)
        for method, measured in results.items():
            rows += method_rows("molecules", method, measured, results.get("random-marks"))
    return rows + of_baselines


def method_rows(
    table: str, method: str, results: Sequence[Result], control: Sequence[Result] | None, dataset: str | None = None
) -> list[LedgerRow]:
    """Rows of one method: its last state, and the mean over starts; random marks bring random moves along.

    Args:
        control: what was trained on random marks, for the paired comparison.
        dataset: its name in the ledger, if not that of the config.
    """
    moves = results[0]["config"]["agent"]["num_moves"]
    if method in ("gin", "central-marks"):
        return [score_row(table, method, results, 0, dataset=dataset)]
    names = {"random-marks": 0, "random-moves": moves} if method == "random-marks" else {method: moves}
    rows = []
    for name, after in names.items():
        notes = (_against_random(name, results, control, after), validation_note(results))
        said = "; ".join(note for note in notes if note) + trimmed_note(results, name, after)
        note = said.removeprefix("; ") or None
        rows.append(score_row(table, name, results, after, "last", note, dataset))
        rows.append(score_row(table, name, results, after, MEAN, f"mean prediction of {STARTS} starts", dataset))
    return rows if method != "random-marks" else rows + _controls_at_equal_cost(table, results, dataset)


def _controls_at_equal_cost(table: str, results: Sequence[Result], dataset: str | None) -> list[LedgerRow]:
    """Rows of a predictor that was trained on random marks: central nodes, and the mean of t + 1 random starts.

    The latter takes as many encoder passes as a search with t moves and its answer.
    """
    agent = results[0]["config"]["agent"]
    keep = mean_of(agent["num_moves"] + 1)
    note = f"as many encoder passes as an agent with {agent['num_moves']} moves"
    central = "a predictor trained on random marks, read at the most central nodes"
    return [
        score_row(table, "random-marks", results, 0, keep, note, dataset),
        score_row(table, CENTRAL, results, 0, "last", central, dataset),
    ]


def _against_random(method: str, results: Sequence[Result], control: Sequence[Result] | None, moves: int) -> str | None:
    """How far the agent is from its controls, paired over runs.

    They are random moves in the agent's own predictor and, in a predictor that was trained on random marks, random
    moves, the mean of t + 1 random starts and the most central nodes.
    """
    if method not in ("mag-gnn", "mag-gnn-dqn", "mag-gnn-pre"):
        return None
    agent = run_means(results, method, "last")[:, moves]
    others = {"random moves in the same predictor": run_means(results, "random-moves", "last")[:, moves]}
    if control is not None and len(control) == len(results):
        others["random moves in a predictor trained on them"] = run_means(control, "random-moves", "last")[:, moves]
        others |= _equal_cost_scores(control, moves)
    return "against " + "; against ".join(f"{name} {paired_note(agent, other)}" for name, other in others.items())


def _equal_cost_scores(control: Sequence[Result], moves: int) -> dict[str, Tensor]:
    """Scores of each run, [runs], of the tests of a predictor trained on random marks that cost no more than a search.

    Jobs of other tables and of earlier versions have no such tests.
    """
    scores = control[0]["scores"]
    mean, found = mean_of(moves + 1), {}
    if mean in scores["random-moves"]:
        name = f"the {mean} random starts, as many passes, in that predictor"
        found[name] = run_means(control, "random-moves", mean)[:, 0]
    if CENTRAL in scores:
        found["the most central nodes in that predictor"] = run_means(control, CENTRAL, "last")[:, 0]
    return found


def reproduce_transfer(
    folder: Path,
    runs: int | None = None,
    workers: int = 1,
    datasets: Sequence[str] = TRANSFERRED,
    methods: Sequence[str] = ("random-marks", "mag-gnn", *SOURCES),
) -> list[LedgerRow]:
    """Rows of the transfer table: no PRE (SIMUL), then PRE with each of the agents that travel.

    Args:
        methods: SIMUL, agents by name, and `random-marks`, which are trained only to compare the others with them.
    """
    rows: list[LedgerRow] = []
    for dataset in datasets:
        count, control = runs or RUNS[dataset], None
        if "random-marks" in methods:
            control = run_jobs(method_jobs(dataset, "random-marks", count), folder, workers)
        if "mag-gnn" in methods:
            results = run_jobs(method_jobs(dataset, "mag-gnn", count), folder, workers)
            rows += method_rows("transfer", "mag-gnn", results, control)
        for agent, source in SOURCES.items():
            if agent in methods:
                results = run_jobs(method_jobs(dataset, "mag-gnn-pre", count, agent), folder, workers)
                target = dataset.removesuffix("_directed")
                rows += method_rows("transfer", "mag-gnn-pre", results, control, f"{source}>{target}")
    return rows


def reproduce_qm9(
    folder: Path,
    runs: int | None = None,
    workers: int = 1,
    datasets: Sequence[str] = QM9_SETS,
    methods: Sequence[str] = METHODS,
) -> list[LedgerRow]:
    """Rows of the twelve targets: one network learns all of them at once, those of `QM9_ALONE` have another alone.

    Args:
        datasets: `qm9_directed` has atoms and bonds alone and directed marks.
    """
    count = runs or RUNS["qm9"]
    rows: list[LedgerRow] = []
    for dataset in datasets:
        together = _run(dataset, methods, count, folder, workers)
        for method, results in together.items():
            for output, target in enumerate(QM9_TARGETS):
                if target not in QM9_ALONE:
                    network = "one network for the twelve targets"
                    rows += _qm9_rows(method, results, target, output, network, together.get("random-marks"))
        for target in QM9_ALONE:
            of_target = _run(f"qm9_{target}{dataset.removeprefix('qm9')}", methods, count, folder, workers)
            for method, results in of_target.items():
                network = "a network for this target alone"
                rows += _qm9_rows(method, results, target, 0, network, of_target.get("random-marks"))
    return rows


def _qm9_rows(
    method: str,
    results: Sequence[Result],
    target: str,
    output: int,
    network: str,
    control: Sequence[Result] | None,
) -> list[LedgerRow]:
    """One target of one method; random marks bring random moves and the mean of t + 1 random starts along.

    Args:
        control: what was trained on random marks, with which an agent is compared at equal cost.
    """
    moves = results[0]["config"]["agent"]["num_moves"]
    sets = mean_of(moves + 1)
    dataset, note = f"qm9_{target}", f"no coordinates; {network}"
    if method == "random-marks":
        means = [score_row("qm9", method, results, 0, sets, note, dataset, output)]
        return means + [
            score_row("qm9", name, results, after, "last", note, dataset, output)
            for name, after in (("random-marks", 0), ("random-moves", moves))
        ]
    if method.startswith("mag-gnn"):
        own = run_errors(results, method)[:, moves, output]
        others = {"random moves in the same predictor": run_errors(results, "random-moves")[:, moves, output]}
        if control is not None:
            name = f"the {sets} random starts, as many passes, in a predictor trained on random marks"
            others[name] = run_errors(control, "random-marks", sets)[:, 0, output]
        note += "".join(
            f"; against {name} {float((own.mean() - other.mean()) / other.mean()):+.2%}"
            for name, other in others.items()
        )
    return [score_row("qm9", method, results, moves, "last", note, dataset, output)]


def _run(dataset: str, methods: Sequence[str], runs: int, folder: Path, workers: int) -> dict[str, list[Result]]:
    """Results of each method; all jobs lie side by side, so that no process waits for the last of a method."""
    jobs = {method: method_jobs(dataset, method, runs) for method in methods}
    results = run_jobs([job for own in jobs.values() for job in own], folder, workers)
    return {method: results[number * runs : (number + 1) * runs] for number, method in enumerate(jobs)}
