"""Processes that others start: they end with the one that started them, even where that was killed."""

from __future__ import annotations

import os
import threading
from multiprocessing import parent_process


def leave_with_parent() -> None:
    """End this process when the one that started it ends, however that happens."""
    threading.Thread(target=_wait_and_leave, daemon=True).start()


def _wait_and_leave() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
