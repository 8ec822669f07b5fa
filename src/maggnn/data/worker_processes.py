"""Worker processes that end with the command that started them, even if it is killed.

A worker of a pool waits for its next task and does not notice that its parent is gone: it would keep its memory until
the machine is restarted.
"""

from __future__ import annotations

import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context, parent_process


def worker_pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of processes for short tasks, which end with this one.

    They are spawned, since forking threads is unsafe. A terminal sends Ctrl-C to them, too; this process handles it.
    """
    return ProcessPoolExecutor(workers, get_context("spawn"), _begin)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    leave_with_parent()


def leave_with_parent() -> None:
    """End this worker when the command that started it ends, even if it is killed."""
    threading.Thread(target=_wait_and_exit, daemon=True).start()


def _wait_and_exit() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
