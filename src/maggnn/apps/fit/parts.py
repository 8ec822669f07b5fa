"""Long work that may be killed at any point: its result is written as parts to a folder next to it.

    out.csv.parts/run.json        identifies the run, so that the parts of another run are not mixed in
    out.csv.parts/part-000000     one chunk each, written under another name and renamed
    out.csv.parts/joined          all parts joined, before it is renamed to out.csv

A run that is started again makes the missing parts. `out` itself is only ever replaced by a complete file.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maggnn.data.files import check_output, locked, whole_file
from maggnn.errors import InputError

RUN, JOINED, FINISHED = "run.json", "joined", "finished"


@dataclass(frozen=True)
class Parts:
    """The parts of the file `out`."""

    out: Path

    @property
    def folder(self) -> Path:
        return self.out.with_name(f"{self.out.name}.parts")

    def lock(self) -> AbstractContextManager[None]:
        """Lock out a second process that writes `out`. The lock is not in the parts' folder, which may be removed."""
        return locked(self.out.with_name(f".{self.out.name}.lock"), f"{self.out}: another process is writing it")

    def begin(self, identity: dict[str, Any], overwrite: bool) -> bool:
        """Create the folder, or resume from existing parts. Returns False if `out` is complete already.

        Args:
            identity: everything that the result depends on, as plain values.
            overwrite: whether to replace `out` and the parts of another run.
        """
        known = self._known()
        joined = (self.folder / FINISHED).exists() and not (self.folder / JOINED).exists()
        if known == identity and joined and self.out.exists():
            self._tidy()
            return False
        check_output(self.out, overwrite)
        if known is not None and known != identity and not overwrite:
            raise InputError(f"{self.folder}: contains parts of another run; remove it, or --overwrite to start again")
        self._prepare(identity, keep=known == identity)
        return True

    def has(self, number: int) -> bool:
        return self.path(number).exists()

    def add(self, number: int, write: Callable[[Path], None]) -> None:
        """Write part `number` atomically."""
        with whole_file(self.path(number)) as waiting:
            write(waiting)

    def finish(self, count: int, join: Callable[[list[Path], Path], None]) -> None:
        """Join `count` parts into `out`, and remove them."""
        joined = self.folder / JOINED
        with whole_file(joined) as waiting:
            join([self.path(number) for number in range(count)], waiting)
        with whole_file(self.folder / FINISHED) as waiting:
            waiting.touch()
        try:
            joined.replace(self.out)
        except OSError as error:
            raise InputError(f"{self.out}: cannot be written ({error.strerror}); its parts are kept") from error
        self._tidy()

    def path(self, number: int) -> Path:
        """Return the path of part `number`."""
        return self.folder / f"part-{number:06d}"

    def _known(self) -> dict[str, Any] | None:
        """Return the identity of the run that existing parts belong to, if it is known."""
        try:
            return json.loads((self.folder / RUN).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _prepare(self, identity: dict[str, Any], keep: bool) -> None:
        if not keep:
            self._tidy()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.out}: cannot be written ({error.strerror})") from error
        if not keep:
            with whole_file(self.folder / RUN) as waiting:
                waiting.write_text(json.dumps(identity), encoding="utf-8")

    def _tidy(self) -> None:
        """Remove the folder, beginning with run.json, so that a partly removed folder belongs to no run."""
        with contextlib.suppress(OSError):
            (self.folder / RUN).unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
