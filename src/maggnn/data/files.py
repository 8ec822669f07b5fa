"""Files that stay whole: replaced by a complete one or not at all, and written by one process at a time.

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
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold the lock file `path`, which is made where it is missing, until the block ends or the process does.

    Where the system has no such locks (Windows), nobody is kept out.

    Args:
        busy: what to say where another process holds it; None waits for that process.
    """
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    with file:
        try:
            import fcntl
        except ImportError:
            yield
            return
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if busy is None else fcntl.LOCK_NB))
        except OSError:
            raise InputError(busy or f"{path}: cannot be locked") from None
        yield


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
