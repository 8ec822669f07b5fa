"""One agent in place of a data set's own, without any training of it: SR25, EXP and the super graphs of Theorem 2.

A predictor learns from random marks alone, as ORD does. Then the agent `any` (or the one of `--methods`), which was
trained on other graphs and without labels, moves the marks, and the prediction is made from the last state. It is
compared with random moves in the same predictor, and with controls that use as many encoder passes: the most confident
of t + 1 random states and the mean of t + 1 random starts. Rows are of the table `transfer`, named `any>sr25`.

Two more rows show how useful fine colourings are to this predictor. The method `mag-gnn-finest` is its accuracy at all
finest tuples, which an agent that searches only for these cannot exceed by much. With `keep` = finest the prediction is
made from the state with the most colours of the walk, which colour refinement counts without an encoder pass, both for
the agent and for random moves.

Of the super graphs no predictor is trained: only
marks on opposite blocks say whether a sequence is positive, so the share of walks that end there is measured, in table
`families` as the metric `telling`; the row `refinement` says how many of all finest tuples lie there.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from maggnn import config as configs
from maggnn.config import Config
from maggnn.data import registry
from maggnn.graphs.batch import GraphBatch
from maggnn.graphs.packed import PackedGraphs
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import agent_digest, pretrained_agent
from maggnn.model.refined.copies import refine
from maggnn.model.runtime import make_generator, pick_device
from maggnn.model.saving import load_model
from maggnn.model.state import State
from maggnn.training.evaluate import TEST_SEED, evaluate
from maggnn.training.paradigms import make_model
from maggnn.training.run import count_parameters, train
from maggnn_paper.jobs.job import Job, inference_ms, mean_of, peak_mb
from maggnn_paper.jobs.side_by_side import Result, run_all
from maggnn_paper.jobs.summary import paired_note, run_means, score_row
from maggnn_paper.ledger import LedgerRow, commit_name, hardware_name, torch_version
from maggnn_paper.recipes import recipe
from maggnn_paper.tables.families import UNIVERSAL
from maggnn_paper.tables.theorem2 import opposite
from maggnn_paper.universal.exclusion import bare
from maggnn_paper.universal.game import ValueTable

SETTINGS = {
    "sr25": (
        "encoder.marking=distance",
        *("training.predictor_steps=10000", "training.agent_steps=0"),
    ),
    "exp": (
        *("training.batch_size=64", "training.starts_per_graph=2"),
        *("training.predictor_steps=2000", "training.agent_steps=0"),
    ),
}
"""What is set beside the recipe of each data set: no training of an agent. The predictor of SR25 has the recipe's size
and more steps, because a smaller one (six layers of width 64) limited what agents reached; it needs a GPU, while that
of EXP is for a CPU."""

SUPERGRAPHS = ("supergraph2", "supergraph3")
DATASETS = (*SETTINGS, *SUPERGRAPHS)
MOST_MOVES = 4
TESTS = {"sr25": 100, "exp": 10}
WALKS = 20
"""Of each super graph."""

MOST_FINEST = 200
"""Finest tuples of one graph that a predictor is asked about, evenly spaced."""


@dataclass(frozen=True)
class ZeroShotJob:
    """A predictor that is trained on random marks, and tested with an agent from elsewhere.

    Attributes:
        predictor: the training; its folder keeps the model, whatever the agent.
        agent: by name or path.
    """

    predictor: Job
    agent: str

    @property
    def name(self) -> str:
        """Changes with the agent's file."""
        return f"zero-shot-{self.predictor.name}-{Path(self.agent).stem}-{agent_digest(self.agent)}"


def predictor_jobs(dataset: str, runs: int) -> list[Job]:
    """One training for each run; of EXP a run is one fold."""
    config = recipe(dataset).with_settings(SETTINGS[dataset])
    seeded = [
        config.replaced(data={"fold": run if dataset == "exp" else 0, "split_seed": 0}, runtime={"seed": run})
        for run in range(runs)
    ]
    return [Job(dataset, one, MOST_MOVES, TESTS[dataset], keep_model=True) for one in seeded]


def reproduce(
    folder: Path,
    runs: int = 1,
    workers: int = 1,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = (UNIVERSAL,),
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the rows.

    Args:
        methods: the agents, by name or path.
    """
    rows: list[LedgerRow] = []
    for dataset, agent in itertools.product(datasets, methods):
        if dataset in SUPERGRAPHS:
            rows += supergraph_rows(dataset, agent)
            continue
        jobs = [ZeroShotJob(job, agent) for job in predictor_jobs(dataset, runs)]
        rows += _rows(f"{Path(agent).stem}>{dataset}", run_all(jobs, run_job, in_words, folder, workers))
    return rows


def run_job(job: ZeroShotJob, folder: Path) -> Result:
    """Train the predictor unless it is there, put the agent in, and test."""
    config = job.predictor.config
    own = folder / job.predictor.name
    began = time.monotonic()
    if not (own / "model.safetensors").exists():
        train(config, own, quiet=True)
    model, dataset = with_agent(own / "model.safetensors", config, job.agent), registry.load(config.data.name)
    device = pick_device(config.runtime.device)
    packed = model.to(device).precomputed(dataset.graphs.to(device))
    ids = dataset.split(config.data.split_seed, config.data.fold).test

    def test(epsilon: float, moves: int, starts: int = 1) -> dict[str, list[list[float]]]:
        generator = make_generator(TEST_SEED + config.runtime.seed, device)
        tests = job.predictor.tests
        seen = evaluate(model, packed, ids, dataset.task, moves, tests, epsilon, generator, starts=starts)
        return {"last": seen.last.tolist(), "confident": seen.kept("confident").tolist()}

    scores = {"mag-gnn": test(0.0, MOST_MOVES), "random-moves": test(1.0, MOST_MOVES)}
    batch = packed[ids]
    for policy, epsilon in (("mag-gnn", 0.0), ("random-moves", 1.0)):
        generator = make_generator(TEST_SEED + config.runtime.seed, device)
        walks = [finest_kept(model, batch, epsilon, generator) for _ in range(job.predictor.tests)]
        scores[policy]["finest"] = torch.stack(walks).tolist()
    scores["finest"] = {"last": [[at_finest(model, packed, ids)]]}
    for starts in range(2, MOST_MOVES + 2):
        scores["random-moves"][mean_of(starts)] = test(1.0, 0, starts)["last"]
    return {
        "name": job.name,
        "recipe": job.predictor.recipe,
        "config": configs.to_dict(config),
        "metric": dataset.metric,
        "scores": scores,
        "params": count_parameters(model),
        "predictor_params": count_parameters(model.predictor),
        "train_s": time.monotonic() - began,
        "infer_ms": inference_ms(model, packed, ids),
        "peak_mb": peak_mb(device),
        "hardware": hardware_name(),
        "torch": torch_version(),
        "commit": commit_name(),
    }


def with_agent(path: Path, config: Config, agent: str) -> MagGNN:
    """The saved model's predictor beside an agent from elsewhere."""
    trained, _ = load_model(path)
    pre = config.replaced(agent={"pretrained": agent}, training={"paradigm": "pre", "starts_per_graph": 1})
    model = make_model(pre, registry.load(config.data.name))
    model.predictor.load_state_dict(trained.predictor.state_dict())
    return model.eval()


@torch.no_grad()
def finest_kept(model: MagGNN, graphs: GraphBatch, epsilon: float, generator: torch.Generator) -> Tensor:
    """Accuracy in percent after each number of moves of one walk, [t + 1], where the finest state so far answers."""
    states = model.walk(graphs, num_moves=MOST_MOVES, epsilon=epsilon, generator=generator)
    right = torch.stack([_right(model, graphs, state.tuples) for state in states])  # [t + 1, B]
    colours = torch.stack([refine(graphs, state.tuples).num_colours[:, 0] for state in states])
    earlier = torch.arange(len(states), 0, -1, device=colours.device)[:, None]
    rank = colours * (len(states) + 1) + earlier  # of equally fine states the first
    kept = [right.gather(0, rank[: moves + 1].argmax(dim=0, keepdim=True)) for moves in range(len(states))]
    return 100 * torch.cat(kept).double().mean(dim=1)


@torch.no_grad()
def at_finest(model: MagGNN, graphs: PackedGraphs, ids: Tensor) -> float:
    """Accuracy in percent at the finest tuples, the mean over graphs of the share of them that is answered right."""
    shares = []
    for own in ids.view(-1, 1):
        finest = ValueTable.of(graphs[own], model.agent.tuple_order).finest()[0].nonzero()  # [F, k]
        some = finest[torch.linspace(0, len(finest) - 1, min(len(finest), MOST_FINEST)).long()]
        shares.append(_right(model, graphs[own.expand(len(some))], some[:, None]).double().mean())
    return 100 * float(torch.stack(shares).mean())


def _right(model: MagGNN, graphs: GraphBatch, tuples: Tensor) -> Tensor:
    """Whether the predictor names the class of each graph from these tuples [B, m, k]: [B]."""
    assert graphs.y is not None
    return model.predictor(graphs, tuples).argmax(dim=-1) == graphs.y.long().view(-1)


def in_words(job: ZeroShotJob, result: Result) -> str:
    """The agent and random moves after each number of moves, for a line of progress."""
    shown = []
    for policy, kept in result["scores"].items():
        means = torch.tensor(kept["last"]).mean(dim=0).tolist()
        shown.append(f"{policy} {' '.join(f'{value:.2f}' for value in means)}")
    return "  ".join(shown)


def _rows(dataset: str, results: Sequence[Result]) -> list[LedgerRow]:
    every = "the mean over all finest tuples, found by colour refinement"
    rows = [score_row("transfer", "random-marks", results, 0, dataset=dataset)]
    rows.append(score_row("transfer", "mag-gnn-finest", results, 0, note=every, dataset=dataset))
    agent, moved = (run_means(results, method, "last") for method in ("mag-gnn-pre", "random-moves"))
    for moves in range(1, MOST_MOVES + 1):
        gain = paired_note(agent[:, moves], moved[:, moves])
        starts = run_means(results, "random-marks", mean_of(moves + 1))[:, 0]
        equal_gain = paired_note(agent[:, moves], starts)
        note = (
            f"the agent was not trained on this set; against random moves {gain}; "
            f"against the mean of {moves + 1} random starts {equal_gain}"
        )
        rows.append(score_row("transfer", "mag-gnn-pre", results, moves, note=note, dataset=dataset))
        rows.append(score_row("transfer", "random-moves", results, moves, dataset=dataset))
        for method in ("mag-gnn-pre", "random-moves"):
            counted = "the first of the finest states on the way, by colour refinement, answers"
            rows.append(score_row("transfer", method, results, moves, "finest", counted, dataset))
        equal = f"as many encoder passes as the agent with {moves} moves"
        rows.append(score_row("transfer", "random-moves", results, moves, "confident", equal, dataset))
        rows.append(score_row("transfer", "random-marks", results, 0, mean_of(moves + 1), equal, dataset))
    return rows


# ---- Theorem 2 ------------------------------------------------------------------------------------------


@torch.no_grad()
def supergraph_rows(dataset: str, agent: str) -> list[LedgerRow]:
    """How often walks lie on opposite blocks after each number of moves, and how many of the finest tuples do."""
    pretrained = pretrained_agent(agent)
    own = replace(pretrained.config.agent, num_moves=MOST_MOVES)
    model = MagGNN(2, encoder=pretrained.config.encoder, predictor=pretrained.config.predictor, agent=own)
    model.q_network = pretrained.q_network()
    graphs = bare(registry.load(dataset).graphs)
    ids = torch.linspace(0, len(graphs) - 1, min(len(graphs), 20)).long()
    batch = model.eval().precomputed(graphs.select(ids))[torch.arange(len(ids)).repeat_interleave(WALKS)]
    name, rows = f"{Path(agent).stem}>{dataset}", []
    for method, epsilon in (("mag-gnn", 0.0), ("random-moves", 1.0)):
        generator = make_generator(TEST_SEED)
        states = model.walk(batch, epsilon=epsilon, generator=generator)
        for moves, state in enumerate(states):
            rows.append(_opposite_row(name, method, float(opposite(state).float().mean()), moves, len(ids)))
    table = ValueTable.of(graphs[ids], pretrained.tuple_order)
    finest = table.finest().nonzero()  # [F, 1 + k], graph and nodes
    state = State.start(graphs[ids[finest[:, 0]]], finest[:, None, 1:], history_width=0)
    rows.append(_opposite_row(name, "refinement", float(opposite(state).float().mean()), None, len(ids)))
    return rows


def _opposite_row(dataset: str, method: str, share: float, moves: int | None, graphs: int) -> LedgerRow:
    note = f"share of tuples on opposite blocks, {graphs} graphs"
    return LedgerRow(
        table="families",
        dataset=dataset,
        method=method,
        metric="telling",
        mean=round(share, 4),
        tests_per_run=1 if moves is None else WALKS,
        m=1,
        k=2,
        t=moves,
        keep="last",
        config=f"agent {dataset.partition('>')[0]}",
        note=note if moves is not None else f"{note}: of the finest tuples",
    )
