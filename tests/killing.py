"""Commands that die at any moment: started from a process in which everything is loaded, killed, started again.

A command that starts anew takes seconds to import torch, and most kills would come before it has done anything. Here
a server of `multiprocessing` has imported it all and forks a process for each command, which works in a fraction of a
second; it is a process of its own and dies of `kill -9` as any other.
"""

import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

PRELOADED = [
    "maggnn.apps.cli", "maggnn.apps.export", "maggnn.apps.fit.fitting", "maggnn.apps.fit.predicting",
    "maggnn.apps.tune.study", "maggnn.training.evaluate", "torch.export", "matplotlib.figure", "optuna.importance",
    "optuna.storages", "rdkit.Chem", "sklearn.ensemble", "sklearn.metrics", "torch_geometric.data",
]  # fmt: skip
MOST_IN_A_ROW = 3
"""Kills before a command may run to its end; `maggnn tune` gives settings up that were killed four times."""

LONGEST_S = 120.0


def run_main(arguments: list[str], folder: Path) -> None:
    """In the process that may be killed: the command line, with what it prints in files."""
    from maggnn.apps.cli import main

    os.chdir(folder)
    for number, name in ((1, "out.txt"), (2, "err.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.argv = ["maggnn", *arguments]
    main()
    sys.stdout.flush()


def started(arguments: list[str], folder: Path) -> BaseProcess:
    """The command in a process of its own."""
    context = get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=run_main, args=(arguments, folder))
    process.start()
    return process


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
