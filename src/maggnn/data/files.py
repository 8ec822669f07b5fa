"""Atomic writes of files, and lock files, so that files are always complete and one process writes at a time.

Example:
    with whole_file(out) as waiting:
        waiting.write_bytes(data)
"""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from maggnn.errors import InputError


@contextlib.contextmanager
def whole_file(path: Path, check: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Yield a temporary path next to `path`, with the same suffix, which is renamed to `path` when the block ends.

    Args:
        check: called with the written file before it is renamed; its exceptions are not reported as write errors.
    """
    with _waiting(path) as waiting:
        with _writing(path):
            mode = _mode_of_new(waiting)
            yield waiting
            with waiting.open("r+b") as written:
                os.fsync(written.fileno())
        with contextlib.suppress(OSError):  # some file systems have no permissions
            waiting.chmod(mode)
        if check is not None:
            check(waiting)
        with _writing(path):
            waiting.replace(path)


def _mode_of_new(path: Path) -> int:
    """Return the permissions that a new file at this path gets from the process and the folder.

    safetensors ignores them: it makes files that only their owner can read, but models are shared with other users.
    """
    path.touch()
    mode = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    return mode


def check_writable(path: Path) -> None:
    """Raise an `InputError` before long work if a path cannot be written to."""
    with _waiting(path) as waiting, _writing(path):
        waiting.touch()


def check_output(out: Path, overwrite: bool) -> None:
    """Raise an `InputError` if `out` cannot be written or would replace a file; to be called before long work.

    Args:
        out: the path of a file.
        overwrite: whether an existing file may be replaced.
    """
    if out.is_dir():
        raise InputError(f"{out} is a folder: give the path of a file")
    if out.exists() and not overwrite:
        raise InputError(f"{out}: exists already; choose another name, or --overwrite to replace it")


def check_not_input(out: Path, source: Path) -> None:
    """Raise an `InputError` if `out` is the file that a command reads, which `--overwrite` must not replace."""
    if out.exists() and source.exists() and out.samefile(source):
        raise InputError(f"{out}: is the input of this command; choose another name for its output")


@contextlib.contextmanager
def locked(path: Path, busy: str | None = None) -> Iterator[None]:
    """Hold the lock file `path` until the block ends, which removes it, or until the process ends in any way.

    The file contains the id of the process that holds it. On systems without such locks (Windows, some network file
    systems), other processes are not locked out.

    Args:
        busy: the error message if another process holds the lock; its id is added. None waits for that process.
    """
    file = _held(path, busy)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink(
                missing_ok=True
            )  # while it is held: a process that has it open then notices that the path is another file, or none
        file.close()


def _held(path: Path, busy: str | None) -> IO[bytes]:
    """Return the open, locked lock file, with the id of this process in it."""
    while True:
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a+b", buffering=0)  # on a full disk, closing a buffer would fail instead of the work
        try:
            _lock(file, wait=busy is None)
        except BlockingIOError:
            file.seek(0)
            owner = file.read(20).decode("ascii", "replace").strip()
            file.close()
            raise InputError(f"{busy} (process {owner})" if owner else str(busy)) from None
        if _is(file, path):
            file.truncate(0)
            with contextlib.suppress(OSError):  # on a full disk the file stays empty
                file.write(f"{os.getpid()}\n".encode())
            return file
        file.close()  # its owner has removed it in the meantime


def _lock(file: IO[bytes], wait: bool) -> None:
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # a file system without locks
        return


def _is(file: IO[bytes], path: Path) -> bool:
    """Whether `path` still names the open file."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except OSError:
        return False


@contextlib.contextmanager
def _waiting(path: Path) -> Iterator[Path]:
    """Yield a temporary path next to `path` and remove it afterwards, together with those of killed processes."""
    waiting = path.with_name(_waiting_name(path, os.getpid()))
    with _writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # a folder that cannot be listed can still be written to
        for left in _stale_files(path):
            left.unlink(missing_ok=True)
    try:
        yield waiting
    finally:
        with contextlib.suppress(OSError):
            waiting.unlink(missing_ok=True)


def _waiting_name(path: Path, process: int | str) -> str:
    """Return the temporary name of a process; it contains the host, since disks may be shared between machines."""
    return f".{path.stem}.{zlib.crc32(platform.node().encode()):08x}-{process}{path.suffix}"


def _stale_files(path: Path) -> list[Path]:
    """Return the temporary files of `path` whose process has died."""
    before, after = _waiting_name(path, "\n").split("\n")
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(before) and entry.name.endswith(after)]
    processes = {name: name[len(before) : len(name) - len(after)] for name in names}
    return [path.with_name(name) for name, number in processes.items() if number.isdecimal() and _is_dead(int(number))]


def _is_dead(process: int) -> bool:
    """Whether no process has this id; always False on Windows, where a signal would end the process."""
    if os.name != "posix":
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it belongs to another user
        return False
    return False


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{path}: cannot be written ({reason}); the previous file is unchanged") from error
