"""A file is replaced by a whole one or not at all: written under another name, flushed to the disk, renamed.

Example:
    with whole_file(out) as waiting:
        waiting.write_bytes(data)
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from maggnn.errors import InputError


@contextlib.contextmanager
def whole_file(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """A name beside `path` to write under, of the same ending; what is there becomes `path` when the block ends.

    Args:
        check: is given the written file before it is renamed; what it raises is no failure of writing.
    """
    with _waiting(path) as waiting:
        with _writing(path):
            yield waiting
            with waiting.open("r+b") as written:
                os.fsync(written.fileno())
        if check is not None:
            check(waiting)
        with _writing(path):
            waiting.replace(path)


def check_writable(path: Path) -> None:
    """Refuse a place that cannot be written to, before long work."""
    with _waiting(path) as waiting, _writing(path):
        waiting.touch()


@contextlib.contextmanager
def _waiting(path: Path) -> Iterator[Path]:
    """A name beside `path`, free again afterwards."""
    waiting = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    try:
        yield waiting
    finally:
        with contextlib.suppress(OSError):
            waiting.unlink(missing_ok=True)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); what was there before is untouched") from error
