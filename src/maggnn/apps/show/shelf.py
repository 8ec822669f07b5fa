"""A cache of galleries, each of which is loaded once, when it is first requested."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from maggnn.apps.show.gallery import MOST_TYPED, Gallery, open_gallery
from maggnn.apps.show.runs import Run
from maggnn.errors import InputError

MOST_OPEN = 3


class Shelf:
    """Galleries by run; the least recently used one is removed if there are too many.

    Args:
        molecules: a file of molecules with which every gallery of a fitted model begins.
    """

    def __init__(self, molecules: Path | None = None) -> None:
        self.molecules = molecules
        self._open: OrderedDict[str, tuple[int, Gallery]] = OrderedDict()
        self._typed: dict[str, list[str]] = {}  # typed molecules are kept when a gallery is removed
        self._lock = threading.Lock()

    def gallery(self, run: Run) -> Gallery:
        """Return the gallery of the run's newest model."""
        version = run.model_version
        if not version:
            raise InputError(f"{run.name}: has no model yet; one is written when training ends")
        with self._lock:
            kept = self._open.get(run.name)
            if kept is None or kept[0] != version:
                self._open.pop(run.name, None)
                kept = (version, open_gallery(run, self.molecules, self._typed.get(run.name, [])))
                self._open[run.name] = kept
            self._open.move_to_end(run.name)
            while len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
            return kept[1]

    def add(self, run: Run, smiles: str) -> int:
        """Add a molecule to a run's gallery. Returns its number there."""
        typed = self._typed.setdefault(run.name, [])
        if len(typed) >= MOST_TYPED:
            raise InputError(f"a gallery has at most {MOST_TYPED} added molecules; use `maggnn predict` for more")
        number = self.gallery(run).add(smiles)
        typed.append(smiles)
        return number
