"""Commands in processes of their own that start at once, to be stopped or killed at any moment and started again.

A command that starts anew takes seconds to import torch, and most kills would come before it has done anything. Here
a server of `multiprocessing` has imported it all and forks a process for each command, which works in a fraction of a
second; it is a process of its own and dies of `kill -9` as any other.
"""

import os
import random
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from maggnn.config import Config

PRELOADED = [
    "maggnn.apps.cli", "maggnn.apps.export", "maggnn.apps.fit.fitting", "maggnn.apps.fit.predicting",
    "maggnn.apps.tune.study", "maggnn.training.evaluate", "torch.export", "matplotlib.figure", "optuna.importance",
    "optuna.storages", "rdkit.Chem", "sklearn.ensemble", "sklearn.metrics", "torch_geometric.data",
]  # fmt: skip
MOST_IN_A_ROW = 3
"""Kills before a command may run to its end; `maggnn tune` gives settings up that were killed four times."""

LONGEST_S = 120.0


def run_main(arguments: list[str], folder: Path, printed: Path, largest_file: int) -> None:
    """In the process that may be killed: the command line as at a terminal, with what it prints in files."""
    from maggnn.apps.cli import main

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in the background
    os.chdir(folder)
    for number, name in ((1, "out.txt"), (2, "err.txt")):
        os.dup2(os.open(printed / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    sys.argv = ["maggnn", *arguments]
    main()
    sys.stdout.flush()


def started(
    arguments: list[str], folder: Path, printed: Path | None = None, largest_file: int = resource.RLIM_INFINITY
) -> BaseProcess:
    """The command in a process and a group of processes of its own.

    Args:
        folder: where it works.
        printed: the folder of `out.txt` and `err.txt`, which hold what it prints; by default where it works.
        largest_file: files that grow past so many bytes fail with an OSError, as on a disk without room.
    """
    return forked(run_main, arguments, folder, printed or folder, largest_file)


def forked(work: Callable[..., None], *arguments: Any) -> BaseProcess:
    """A function of a module in a process in which torch is loaded already."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=work, args=arguments)
    process.start()
    return process


def train_in(config: Config, folder: Path, seconds_between_checkpoints: float) -> None:
    """In the process that may be killed: a training."""
    from maggnn.training import run

    run.SECONDS_BETWEEN_CHECKPOINTS = seconds_between_checkpoints
    run.train(config, folder, quiet=True)


def ended(process: BaseProcess, folder: Path) -> None:
    """Wait until the command has succeeded, or says that an earlier one had, which was killed on its way out."""
    process.join(LONGEST_S)
    said = (folder / "err.txt").read_text()
    assert process.exitcode == 0 or (process.exitcode == 2 and " already; " in said), (process.exitcode, said)


@dataclass
class Killed:
    """How a command fared.

    Attributes:
        kills: how often it was killed.
        equal: how often it then ended with the result of the run that nobody killed.
        others: results that were not equal.
    """

    kills: int = 0
    equal: int = 0
    others: list[Any] = field(default_factory=list)


def kill_and_compare(
    arguments: list[str], result: Callable[[Path], Any], folder: Callable[[str], Path], kills: int, seed: int
) -> Killed:
    """Kill a command at random moments, up to three times in a row, then let it end and compare.

    Args:
        result: of a folder in which the command has ended: what has to be equal.
        folder: makes a folder of the given name with all that the command needs.
    """
    rng, fared = random.Random(seed), Killed()
    whole = folder("whole")
    ended(started(["--version"], whole), whole)  # the first of all waits for the server
    began = time.monotonic()
    ended(started(arguments, whole), whole)
    seconds, expected = time.monotonic() - began, result(whole)
    while fared.kills < kills:
        broken = folder(f"killed_{fared.equal + len(fared.others)}")
        for _ in range(min(MOST_IN_A_ROW, kills - fared.kills)):
            process = started(arguments, broken)
            process.join(rng.uniform(0, seconds))
            if process.exitcode is not None:  # it goes on where it was, and so ends earlier
                break
            process.kill()
            process.join()
            fared.kills += 1
        else:
            process = started(arguments, broken)
        ended(process, broken)
        found = result(broken)
        fared.equal += found == expected
        fared.others += [] if found == expected else [found]
    return fared
