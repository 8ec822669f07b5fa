r"""Trainings of the paper's tables on a machine that has only torch, PyG, numpy and safetensors, side by side.

    PYTHONPATH=src:paper/src MAGGNN_DATA=... python benchmarks/on_gpu.py OUT --seconds 540 --workers 14 \
        ablation:zinc_distance "molecules:zinc_distance:mag-gnn,mag-gnn-pre:8" agents:rings,rings_one \
        brec:all/finest:gin,mag-gnn:10
    PYTHONPATH=src:paper/src MAGGNN_DATA=... python benchmarks/on_gpu.py OUT --seconds 560 --workers 6 \
        universal:any:base,binary,batch-norm,deep,wide,imitation:400

The second command trains variants of the universal agent (`maggnn_paper.universal.jobs`) for 400 seconds each, side by
side, and tests them; the agents come back in `OUT/agents*.tar.gz`.

Every job's result is a file of `OUT/jobs` as soon as it is there; `OUT/results.tar.gz` holds all of them at the end.
Unpack it where `maggnn-paper reproduce TABLE --folder` looks: it finds the jobs done and writes the ledger's rows.
What is not finished in time is stopped, and its newest checkpoint comes back in `OUT/unfinished*.tar.gz`. With
`--resume FOLDER`, where these archives lie, the same command goes on from there.

Jobs share the card equally, so the longest one decides when all are done. `--first 2` gives the first two jobs
processes of their own whose kernels go before those of the others.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from maggnn.training.checkpoint import FILE as CHECKPOINT
from maggnn_paper.brec import reproduce as brec
from maggnn_paper.brec.reproduce import BrecJob
from maggnn_paper.jobs.job import Job, in_words, run_job
from maggnn_paper.jobs.side_by_side import Result, run_and_keep, single_thread
from maggnn_paper.tables import ablation, cycles, learners, molecules, passes, pretrained_agents, theorem2, zero_shot
from maggnn_paper.tables.zero_shot import ZeroShotJob
from maggnn_paper.universal.jobs import AGENT, UniversalJob, run_universal
from maggnn_paper.universal.jobs import in_words as universal_in_words

MOST_BYTES = 12_000_000
"""Of the models in one archive."""


AnyJob = Job | BrecJob | UniversalJob | ZeroShotJob


def jobs_of(what: str) -> Sequence[AnyJob]:
    """The jobs of `table:row[:names][:runs]`, or of `universal:any[:variants][:seconds]`.

    `brec:all/finest` is the test `finest` of all categories of BREC.
    """
    table, row, *rest = what.split(":")
    names = rest[0].split(",") if rest and rest[0] else []
    if table == "universal":
        return universal_jobs(names or ["base"], float(rest[1]) if len(rest) > 1 else UniversalJob.seconds)
    runs = int(rest[1]) if len(rest) > 1 else 1
    if table == "ablation":
        return ablation.jobs(row, runs, [name.replace("/", ", ") for name in names])
    if table == "brec":
        return brec.all_jobs([row.replace("/", ":")], names or brec.METHODS, runs)
    if table == "passes":
        return passes.all_jobs(row, runs, names or passes.METHODS)
    if table == "theorem2":
        return theorem2.jobs(int(row), runs)
    if table == "cycles":
        return cycles.agent_jobs(row, runs)
    if table == "learners":
        return learner_jobs([learner.replace("/", ", ") for learner in row.split(",")], runs)
    if table == "zero_shot":
        return [ZeroShotJob(job, agent) for agent in names for job in zero_shot.predictor_jobs(row, runs)]
    if table == "agents":
        return pretrained_agents.agent_jobs(row.split(","))
    return [job for method in names for job in molecules.method_jobs(row, *method_and_runs(method, runs))]


def learner_jobs(names: list[str], runs: int) -> list[Job]:
    """Learners by name; each waits for the predictor of its environment, which comes first."""
    own = [job for name in names for job in learners.jobs(runs, name)]
    environments = {job.predictor_of.name: job.predictor_of for job in own if job.predictor_of is not None}
    return [*environments.values(), *own]


def universal_jobs(variants: list[str], seconds: float) -> list[UniversalJob]:
    """One training for each variant; they share the processors that make graphs."""
    makers = max(1, (len(os.sched_getaffinity(0)) - len(variants)) // len(variants))
    return [UniversalJob(variant, seconds, makers) for variant in variants]


def work(job: AnyJob) -> tuple[Callable, Callable]:
    """What measures a job, and what says its result in words."""
    if isinstance(job, BrecJob):
        return brec.run_job, brec.in_words
    if isinstance(job, ZeroShotJob):
        return zero_shot.run_job, zero_shot.in_words
    return (run_universal, universal_in_words) if isinstance(job, UniversalJob) else (run_after_predictor, in_words)


def run_after_predictor(job: Job, folder: Path) -> Result:
    """Wait for the result of the job whose predictor is taken, then run."""
    while job.predictor_of is not None and not (folder / f"{job.predictor_of.name}.json").exists():
        time.sleep(1)
    return run_job(job, folder)


def method_and_runs(method: str, runs: int) -> tuple:
    """`mag-gnn-pre@rings` names the agent too."""
    method, _, agent = method.partition("@")
    return (method, runs, agent) if agent else (method, runs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("what", nargs="+")
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--workers", type=int, default=14)
    parser.add_argument("--first", type=int, default=0, help="how many of the jobs, the longest, go before the others")
    parser.add_argument("--resume", type=Path, help="a folder with the archives of a call before")
    parser.add_argument("--models", default="", help="bring back the models of jobs whose names begin with this")
    options = parser.parse_args()
    began, folder = time.monotonic(), options.out / "jobs"
    folder.mkdir(parents=True, exist_ok=True)
    if options.resume is not None:
        unpack(options.resume, folder)
    jobs = [job for what in options.what for job in jobs_of(what)]
    jobs = [job for job in jobs if not (folder / f"{job.name}.json").exists()]
    stop_daemon = share_the_card()
    first, others = jobs[: options.first], jobs[options.first :]
    pools = [pool_of(len(first), single_thread), pool_of(options.workers, after_others if first else single_thread)]
    futures = {
        pool.submit(run_and_keep, job, work(job)[0], folder): job
        for pool, submitted in zip(pools, (first, others), strict=True)
        for job in submitted
    }
    try:
        for number, future in enumerate(as_completed(futures, timeout=options.seconds), start=1):
            job = futures[future]
            seconds = time.monotonic() - began
            try:
                words = work(job)[1](job, future.result())
            except Exception as error:
                words = f"failed: {error!r}"[:600]
            print(f"{seconds:4.0f} s [{number}/{len(jobs)}] {job.name}  {words}", flush=True)
    except TimeoutError:
        print(f"time is up: {sum(future.done() for future in futures)} of {len(jobs)} done", flush=True)
    for process in [process for pool in pools for process in pool._processes.values()]:
        process.kill()
    pack(folder, options.out, options.models)
    stop_daemon()
    os._exit(0)  # without waiting for processes that were stopped


def pool_of(workers: int, prepare: Callable[[], None]) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(max(1, workers), get_context("spawn"), prepare)


def after_others() -> None:
    """Make this process's kernels wait for those of processes of normal priority; read when CUDA starts."""
    os.environ["CUDA_MPS_CLIENT_PRIORITY"] = "1"
    single_thread()


def pack(folder: Path, out: Path, models: str) -> None:
    """All results in one archive; in small ones the models whose jobs' names begin with `models`, and checkpoints."""
    results = sorted(folder.glob("*.json"))
    done = {result.stem for result in results}
    wanted = [
        path for name in sorted(done) if models and name.startswith(models) for path in (folder / name).glob("m*")
    ]
    unfinished = [path for path in sorted(folder.glob(f"*/{CHECKPOINT}")) if path.parent.name not in done]
    agents = [
        path for name in (AGENT, "families.json", "log.txt") for path in sorted(folder.glob(f"universal_*/{name}"))
    ]
    named = {"results.tar.gz": results}
    named |= {f"agents{number}.tar.gz": paths for number, paths in enumerate(_small(agents), 1)}
    named |= {f"models{number}.tar.gz": paths for number, paths in enumerate(_small(wanted), 1)}
    named |= {f"unfinished{number}.tar.gz": paths for number, paths in enumerate(_small(unfinished), 1)}
    for name, paths in named.items():
        with tarfile.open(out / name, "w:gz") as archive:
            for path in paths:
                archive.add(path, arcname=path.relative_to(folder))


def _small(paths: list[Path]) -> list[list[Path]]:
    """The files in runs of at most MOST_BYTES, or of one file."""
    runs: list[list[Path]] = []
    size = 0
    for path in paths:
        if not runs or size + path.stat().st_size > MOST_BYTES:
            runs.append([])
            size = 0
        runs[-1].append(path)
        size += path.stat().st_size
    return runs


def unpack(source: Path, folder: Path) -> None:
    """Results and checkpoints of a call before."""
    for path in [*source.glob("results.tar.gz"), *sorted(source.glob("unfinished*.tar.gz"))]:
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")


def share_the_card():
    """Start CUDA's multi-process service where there is one: kernels of several trainings then run at the same time."""
    pipe = "/tmp/maggnn_mps"
    try:
        Path(pipe).mkdir(exist_ok=True)
        os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": pipe, "CUDA_MPS_LOG_DIRECTORY": pipe}
        subprocess.run(["nvidia-cuda-mps-control", "-d"], check=True, capture_output=True, timeout=20)
        program = "import torch; print(float(torch.ones(3, device='cuda').sum()))"
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=90)
        print("several trainings share the card by CUDA's multi-process service", flush=True)
    except (OSError, subprocess.SubprocessError) as error:
        subprocess.run(["pkill", "-f", "nvidia-cuda-mps"], check=False)
        for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
            os.environ.pop(name, None)
        print(f"no multi-process service: {str(error)[:200]}", flush=True)
        return lambda: None
    return lambda: subprocess.run(["nvidia-cuda-mps-control"], input=b"quit", check=False, timeout=20)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
