"""A job: one training and its tests. A reproduction is many of them, side by side (`side_by_side`).

A result holds `scores[policy][keep]`, [tests][t + 1] of `metric`, and of a regression `errors[policy]`,
[tests][t + 1][out], the absolute errors, and `trimmed[policy]`, [tests][t + 1], the same without the worst rows; of an
agent's learning curve `looks[steps]`, [tests][t + 1]; see `run_job`. Errors of answers that are averaged over random
starts are those of `averaged(starts)`.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from pathlib import Path
from typing import Literal

import torch

from maggnn import config as configs
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.inference.engine import Engine
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import agent_digest
from maggnn.model.runtime import make_generator, pick_device
from maggnn.model.saving import load_model, save_model
from maggnn.model.starts import central_tuples
from maggnn.training.evaluate import TEST_SEED, Evaluation, evaluate
from maggnn.training.run import Trained, count_parameters, train
from maggnn.training.validation import VALIDATION_SEED
from maggnn_paper.jobs.learning_curve import LearningCurve
from maggnn_paper.jobs.side_by_side import Result, run_all
from maggnn_paper.ledger import commit_name, hardware_name, torch_version

LONGEST_S = 30.0
"""After which no further time is taken of an answer."""

CAUTION_GRAPHS = 2000
"""Of the validation part, that a caution is chosen by."""

MEAN = "mean"
"""The keep rule of answers that are averaged over `STARTS` starts, each from its last state."""

CENTRAL = "central-starts"
"""The policy of marks that stay on the most central nodes, in a predictor that was trained on random marks."""

WALK = "mean of the walk"
"""The keep rule of the mean answer of all states of a walk, from its start to its last state."""

STARTS = 10
"""Of the further rows whose answers are averaged over several starts."""


def mean_of(starts: int) -> str:
    """The keep rule of answers that are averaged over so many starts."""
    return f"{MEAN} of {starts}"


def averaged(starts: int) -> str:
    """The name in `errors` of answers that are averaged over so many random starts, without a move."""
    return f"random-moves, {mean_of(starts)}"


@dataclass(frozen=True)
class Job:
    """Train as `config` says (from the file `configs/<recipe>.toml`) and test after 0, 1, ..., `max_moves` moves."""

    recipe: str
    config: Config
    max_moves: int
    tests: int
    keep_model: bool = False
    starts: int = 1
    """Also test answers averaged over that many starts."""
    means: tuple[int, ...] = ()
    """Also test answers averaged over each of these numbers of starts, without a move, as often as the others."""
    central: bool = False
    """Also test from marks on the most central nodes instead of random ones: without a move, after the agent's moves,
    and the mean answer of t + 1 sets of nodes, the most central ones, the next most central ones, and so on."""
    part: Literal["test", "val"] = "test"
    """Which part of the split is tested: choices between settings are made on `val`."""
    cautions: tuple[float, ...] = ()
    """Test with the one of these cautions that does best on the validation part."""
    test_every: int = 0
    """Also test the agent after every so many of its steps, on the validation part: a learning curve; 0: no curve."""
    predictor_of: Job | None = None
    """Take the predictor of that job's kept model instead of training one: same environment, another agent. Not part
    of the name: the predictor of equal settings is meant, wherever it was trained."""

    @property
    def name(self) -> str:
        """A readable name that is unique to the settings."""
        settings = f"{configs.to_json(self.config)} {self.max_moves} {self.tests}"
        settings += f" {self.starts}" if self.starts > 1 else ""
        settings += f" means {self.means}" if self.means else ""
        settings += " central" if self.central else ""
        settings += f" {self.part}" if self.part != "test" else ""
        settings += f" {self.cautions}" if self.cautions else ""
        settings += f" looks {self.test_every}" if self.test_every else ""
        settings += f" {agent_digest(self.config.agent.pretrained)}" if self.config.agent.pretrained else ""
        data, agent, runtime = self.config.data, self.config.agent, self.config.runtime
        shape = f"m{agent.num_tuples}k{agent.tuple_order}"
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        training = self.config.training
        how = training.target if training.paradigm == "ord" else f"{training.paradigm}{Path(agent.pretrained).stem}"
        return f"{Path(data.name).stem}-{shape}-{how}-seed{runtime.seed}-fold{data.fold}-{digest}"


def run_jobs(jobs: Sequence[Job], folder: Path, workers: int) -> list[Result]:
    """Run all jobs that have no result in `folder` yet, in `workers` processes, and return their results in order."""
    return run_all(jobs, run_job, in_words, folder, workers)


def run_job(job: Job, folder: Path | None = None) -> Result:
    """Train and test one model; `folder` keeps its weights and logs where the job asks for that."""
    config = job.config
    kept = folder / job.name if folder is not None and job.keep_model else None
    device = pick_device(config.runtime.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    predictor, phase_s = _borrowed_predictor(job, folder)
    alone = parent_process() is None  # processes side by side would write over each other's progress
    curves = [LearningCurve(config, job.test_every, job.max_moves)] if job.test_every else []
    trained = train(config, kept, quiet=not alone, predictor=predictor, callbacks=curves)
    phase_s = {**trained.seconds, **phase_s}
    packed = trained.model.precomputed(trained.dataset.graphs.to(device))
    if job.cautions:
        config = config.replaced(agent={"caution": choose_caution(job, trained, packed)})
        trained.model.agent = config.agent
        if kept is not None:
            save_model(kept / "model.safetensors", trained.model, config)
    return {
        "name": job.name,
        "recipe": job.recipe,
        "config": configs.to_dict(config),
        "metric": trained.dataset.metric,
        **_tested(job, trained, packed),
        "looks": curves[0].scores if curves else {},
        "best_validation": trained.best_validation,
        "score_spread": trained.score_spread,
        "params": count_parameters(trained.model),
        "predictor_params": count_parameters(trained.model.predictor),
        "train_s": sum(phase_s.values()),
        "phase_s": phase_s,
        "infer_ms": inference_ms(trained.model, packed, _tested_ids(job, trained)),
        "peak_mb": peak_mb(device),
        "hardware": hardware_name(),
        "torch": torch_version(),
        "commit": commit_name(),
    }


def _tested_ids(job: Job, trained: Trained) -> torch.Tensor:
    return trained.split.test if job.part == "test" else trained.split.val


def choose_caution(job: Job, trained: Trained, packed: PackedGraphs) -> float:
    """Of `job.cautions`, the one with the least loss on (some of) the validation part after all moves."""
    model, dataset, ids = trained.model, trained.dataset, trained.split.val[:CAUTION_GRAPHS]
    losses = []
    for caution in job.cautions:
        model.agent = replace(model.agent, caution=caution)
        generator = make_generator(VALIDATION_SEED + job.config.runtime.seed, packed.device)
        seen = evaluate(
            model, packed, ids, dataset.task, job.max_moves, 1, 0.0, generator, metric=dataset.metric, starts=1
        )
        losses.append(float(seen.loss[0, -1]))
    return job.cautions[losses.index(min(losses))]


def _tested(job: Job, trained: Trained, packed: PackedGraphs) -> Result:
    """Scores of every policy and keep rule on the test part, and for regression the errors of each output."""
    agent, dataset = job.config.agent, trained.dataset
    policies = {"mag-gnn": 0.0, "random-moves": 1.0} if agent.tuple_order else {"gin": 1.0}
    scores: dict[str, dict[str, list[list[float]]]] = {}
    errors: dict[str, list[list[list[float]]]] = {}
    trimmed: dict[str, list[list[float]]] = {}

    def test(epsilon: float, tests: int, starts: int, moves: int = job.max_moves) -> Evaluation:
        generator = make_generator(TEST_SEED + job.config.runtime.seed, packed.device)
        ids, model, metric = _tested_ids(job, trained), trained.model, dataset.metric
        return evaluate(
            model, packed, ids, dataset.task, moves, tests, epsilon, generator, metric=metric, starts=starts
        )

    for policy, epsilon in policies.items():
        evaluation = test(epsilon, job.tests, starts=1)
        scores[policy] = {"last": evaluation.last.tolist(), WALK: evaluation.mean.tolist()}
        if evaluation.confident is not None:
            scores[policy]["confident"] = evaluation.confident.tolist()
        if evaluation.errors is not None:
            errors[policy] = evaluation.errors.tolist()
        if evaluation.trimmed is not None:
            trimmed[policy] = evaluation.trimmed.tolist()
        if job.starts > 1:
            scores[policy][MEAN] = test(epsilon, 1, job.starts).last.tolist()
    for starts in job.means:
        evaluation = test(1.0, job.tests, starts, moves=0)
        scores["random-moves"][mean_of(starts)] = evaluation.last.tolist()
        if evaluation.errors is not None:
            errors[averaged(starts)] = evaluation.errors.tolist()
    if job.central:
        scores |= _tested_from_central_nodes(job, trained, packed)
    return {"scores": scores, "errors": errors, "trimmed": trimmed}


def _tested_from_central_nodes(job: Job, trained: Trained, packed: PackedGraphs) -> dict[str, dict[str, list]]:
    """Scores from the most central nodes, [1][t + 1], and of the mean of t + 1 sets of central nodes, [1][1].

    Without a trained agent there are no moves.
    """
    model, dataset, ids = trained.model, trained.dataset, _tested_ids(job, trained)
    agent = model.agent
    sets = job.max_moves + 1
    moves = job.max_moves if job.config.training.agent_steps or agent.pretrained else 0
    all_sets = [central_tuples(packed[chunk], sets * agent.num_tuples, agent.tuple_order) for chunk in ids.split(512)]
    tuples = torch.cat(all_sets).unflatten(1, (sets, agent.num_tuples))  # [B, sets, m, k]

    def test(count: int, moves: int) -> Evaluation:
        generator = make_generator(TEST_SEED + job.config.runtime.seed, packed.device)
        first = tuples[:, :count].transpose(0, 1).flatten(0, 1)
        return evaluate(
            model, packed, ids, dataset.task, moves, 1, 0.0, generator,
            metric=dataset.metric, starts=count, tuples=first,
        )  # fmt: skip

    walk = test(1, moves)
    own = {"last": walk.last.tolist(), WALK: walk.mean.tolist()}
    return {CENTRAL: {**own, mean_of(sets): test(sets, 0).last.tolist()}}


def _borrowed_predictor(job: Job, folder: Path | None) -> tuple[dict[str, torch.Tensor] | None, dict[str, float]]:
    """The weights of `predictor_of`'s predictor and the seconds its training took; nothing where a job has none."""
    source = job.predictor_of
    if source is None:
        return None, {}
    if folder is None:
        raise InputError(f"{job.name}: a job that borrows a predictor needs the folder where it is kept")
    model, config = load_model(folder / source.name / "model.safetensors")
    if (config.data, config.encoder, config.predictor) != (job.config.data, job.config.encoder, job.config.predictor):
        raise InputError(f"{job.name}: the predictor of {source.name} was made with other settings")
    seconds = json.loads((folder / f"{source.name}.json").read_text())["phase_s"]["predictor"]
    return model.predictor.state_dict(), {"predictor": seconds}


def inference_ms(model: MagGNN, packed: PackedGraphs, ids: torch.Tensor, repeats: int = 5) -> float:
    """Median time of one search and answer for graphs `ids` by the engine, warm, with the model's own m, k and t.

    Where that takes minutes, one time after the warm-up has to do.
    """
    engine = Engine(model, packed.device)
    packed = engine.precomputed(packed)
    times: list[float] = []
    while (len(times) <= repeats and sum(times) < 1000 * LONGEST_S) or len(times) < 2:
        began = time.monotonic()
        engine.predict(packed, ids)
        if packed.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.monotonic() - began))
    return statistics.median(times[1:])


def peak_mb(device: torch.device) -> float:
    """Most memory this process held: of the GPU's where it runs on one, else of the machine's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def in_words(job: Job, result: Result) -> str:
    """The scores after all moves and the training time, for a line of progress."""
    last = {policy: kept["last"] for policy, kept in result["scores"].items()}
    scores = "  ".join(f"{policy} {sum(row[-1] for row in rows) / len(rows):.4g}" for policy, rows in last.items())
    return f"{scores}  {result['train_s']:.0f} s"
