"""Many trainings side by side: each in its own process, each result kept in its own file as soon as it is there.

Started again, a reproduction skips the jobs whose results lie in its folder, so nothing measured is lost.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from maggnn import config as configs
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.experiments.ledger import commit_name, hardware_name, torch_version
from maggnn.graphs import PackedGraphs
from maggnn.model import MagGNN
from maggnn.runtime import make_generator, pick_device
from maggnn.training.checkpoint import load_model
from maggnn.training.evaluate import TEST_SEED, evaluate
from maggnn.training.run import train

Result = dict[str, Any]
"""What a job measured: `accuracy[policy][keep]` is [tests][t + 1]; see `run_job`."""


@dataclass(frozen=True)
class Job:
    """Train as `config` says (from the file `configs/<recipe>.toml`) and test after 0, 1, ..., `max_moves` moves."""

    recipe: str
    config: Config
    max_moves: int
    tests: int
    keep_model: bool = False
    predictor_of: Job | None = None
    """Take the predictor of that job's kept model instead of training one: same environment, another agent. Not part
    of the name: the predictor of equal settings is meant, wherever it was trained."""

    @property
    def name(self) -> str:
        """A readable name that is unique to the settings."""
        settings = f"{configs.to_json(self.config)} {self.max_moves} {self.tests}"
        data, agent, runtime = self.config.data, self.config.agent, self.config.runtime
        shape = f"m{agent.num_tuples}k{agent.tuple_order}"
        digest = hashlib.sha256(settings.encode()).hexdigest()[:8]
        target = self.config.training.target
        return f"{data.name}-{shape}-{target}-seed{runtime.seed}-fold{data.fold}-{digest}"


def run_jobs(jobs: Sequence[Job], folder: Path, workers: int) -> list[Result]:
    """Run all jobs, in `workers` processes, and return their results in order."""
    folder.mkdir(parents=True, exist_ok=True)
    waiting = [job for job in jobs if not (folder / f"{job.name}.json").exists()]
    began = time.monotonic()
    if workers <= 1:
        for number, job in enumerate(waiting):
            _tell(number + 1, len(waiting), began, _run_and_keep(job, folder))
    else:
        # Largest first would be faster still; jobs of one reproduction are alike enough.
        with ProcessPoolExecutor(workers, get_context("spawn"), _single_thread) as pool:
            futures = [pool.submit(_run_and_keep, job, folder) for job in waiting]
            for number, future in enumerate(as_completed(futures)):
                _tell(number + 1, len(waiting), began, future.result())
    return [json.loads((folder / f"{job.name}.json").read_text()) for job in jobs]


def run_job(job: Job, folder: Path | None = None) -> Result:
    """Train and test one model; `folder` keeps its weights and logs where the job asks for that."""
    config = job.config
    kept = folder / job.name if folder is not None and job.keep_model else None
    device = pick_device(config.runtime.device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    predictor, phase_s = _borrowed_predictor(job, folder)
    trained = train(config, kept, quiet=True, predictor=predictor)
    phase_s = {**trained.seconds, **phase_s}
    packed = trained.dataset.graphs.to(device)
    test_ids = trained.split.test
    policies = {"mag-gnn": 0.0, "random-moves": 1.0} if config.agent.tuple_order else {"gin": 1.0}
    accuracy: dict[str, dict[str, list[list[float]]]] = {}
    for policy, epsilon in policies.items():
        generator = make_generator(TEST_SEED + config.runtime.seed, device)
        evaluation = evaluate(
            trained.model,
            packed,
            test_ids,
            trained.dataset.task,
            job.max_moves,
            job.tests,
            epsilon,
            generator,
        )
        accuracy[policy] = {"last": evaluation.last.tolist()}
        if evaluation.confident is not None:
            accuracy[policy]["confident"] = evaluation.confident.tolist()
    return {
        "name": job.name,
        "recipe": job.recipe,
        "config": configs.to_dict(config),
        "accuracy": accuracy,
        "params": sum(parameter.numel() for parameter in trained.model.parameters()),
        "train_s": sum(phase_s.values()),
        "phase_s": phase_s,
        "infer_ms": inference_ms(trained.model, packed, test_ids),
        "peak_mb": peak_mb(device),
        "hardware": hardware_name(),
        "torch": torch_version(),
        "commit": commit_name(),
    }


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
    """Median time of one search and answer for graphs `ids`, warm, with the model's own m, k and t."""
    times = []
    for _ in range(repeats + 1):
        began = time.monotonic()
        with torch.no_grad():
            model(packed[ids])
        if packed.device.type == "cuda":
            torch.cuda.synchronize()
        times.append(1000 * (time.monotonic() - began))
    return sorted(times[1:])[repeats // 2]


def peak_mb(device: torch.device) -> float:
    """Most memory this process held: of the GPU's where it runs on one, else of the machine's."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _run_and_keep(job: Job, folder: Path) -> Result:
    result = run_job(job, folder)
    path = folder / f"{job.name}.json"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.write_text(json.dumps(result))
    temporary.replace(path)
    return result


def _single_thread() -> None:
    """Processes side by side already use every core."""
    torch.set_num_threads(1)


def _tell(done: int, total: int, began: float, result: Result) -> None:
    left = (time.monotonic() - began) / done * (total - done)
    last = {policy: kept["last"] for policy, kept in result["accuracy"].items()}
    scores = "  ".join(f"{policy} {sum(row[-1] for row in rows) / len(rows):.2f}" for policy, rows in last.items())
    line = f"[{done}/{total}, {left:.0f} s left] {result['name']}  {scores}  {result['train_s']:.0f} s"
    print(line, file=sys.stderr, flush=True)
