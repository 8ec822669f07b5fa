"""Processes that do part of a command's work, and that end with it, also where the command is killed.

A worker of a pool waits for its next task, and nothing tells it that nobody is left to send one: it would keep its
memory until the machine is restarted.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """A pool of processes that end with this one. They are spawned: a process with threads must not be forked."""
    return ProcessPoolExecutor(workers, get_context("spawn"), leave_with_parent)


def leave_with_parent() -> None:
    """End this worker when the command that started it ends, even if that was killed."""
    threading.Thread(target=_wait_and_leave, daemon=True).start()


def _wait_and_leave() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
