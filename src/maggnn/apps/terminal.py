"""What every command line of this project shares: common options, how errors end a command, and how tables are printed.

A user's mistake is an `InputError` anywhere below: one line on standard error, exit code 2, no traceback.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from maggnn.errors import InputError, missing_extra

UsageError: Any = typer.BadParameter.__mro__[1]
"""Click's error for a wrong flag or argument; typer has moved click about, its own subclass has not moved."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

LONGEST = 120
"""Letters of a path that a message shows."""

STOPPED = 130
"""Exit code after Ctrl-C; typer returns it in place of the interrupt."""

STOPPED_MESSAGE = "stopped; what was written is whole, and what can be resumed the same command resumes"

MOST_SEED = 2**62
"""Of options that seed generators, as of `runtime.seed`: what is added to a seed still fits 64 bits."""

AsJson = Annotated[bool, typer.Option("--json", help="print one machine-readable object last")]
SmilesColumn = Annotated[str | None, typer.Option(help="the column of SMILES, if not the model's own", metavar="COL")]


def run_app(app: typer.Typer, name: str) -> None:
    """Run a command line and leave with its exit code: 0, 2 after a user's mistake, 130 after Ctrl-C."""
    # Idle OpenMP threads that spin slow everything down where cores are shared; read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # oneDNN, and torch beside it, keep what they prepared for a thousand shapes each, hundreds of megabytes in all, and
    # batches of graphs never have the same shape twice. Only both limits together keep memory flat.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "16")
    sys.unraisablehook = _stop_even_where_interrupts_are_ignored(name)
    try:
        _check_arguments(sys.argv[1:])
        code = app(standalone_mode=False)  # what a command's exit code is to be, where it does not just return
    except UsageError as error:
        sys.exit(_fail(name, f"{' '.join(error.format_message().split())} (see {name} --help)", code=2))
    except InputError as error:
        sys.exit(_fail(name, str(error), code=2))
    except ModuleNotFoundError as error:
        message = missing_extra(error)
        if message is None:
            raise
        sys.exit(_fail(name, message, code=2))
    except OSError as error:  # a name that is too long, a disk that is full or cannot be read
        if error.filename is None and error.errno not in NO_ROOM:
            raise
        where = "" if error.filename is None else f"{_shortened(str(error.filename))}: "
        sys.exit(_fail(name, f"{where}{error.strerror}", code=2))
    except KeyboardInterrupt:
        code = STOPPED
    if code == STOPPED:
        sys.exit(_fail(name, STOPPED_MESSAGE, STOPPED))
    if isinstance(code, int):
        sys.exit(code)


def _stop_even_where_interrupts_are_ignored(name: str) -> Callable[[Any], None]:
    """A hook for exceptions that Python can only report, which ends the program where one of them is Ctrl-C.

    Python drops what is raised while an object is finalised or a weak reference is cleared, as happens while modules
    are imported, and the command would go on to its end. Files are safe from a sudden end: they are replaced whole.
    """

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        _fail(name, STOPPED_MESSAGE, STOPPED)
        sys.stderr.flush()
        os._exit(STOPPED)

    return hook


def _check_arguments(arguments: list[str]) -> None:
    """Refuse names that are not UTF-8 before any work: model files and cards, which hold names, are."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(f"{argument!a}: is not UTF-8; rename it") from None


def _shortened(path: str) -> str:
    return path if len(path) <= LONGEST else f"{path[: LONGEST // 2]}...{path[-LONGEST // 2 :]}"


def tell(line: str) -> None:
    """A line about progress, on standard error."""
    print(printable(line), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """One line that does nothing to a terminal: what is quoted from a file may hold line ends and other controls."""
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """A table for people, on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _fail(name: str, message: str, code: int) -> int:
    print(printable(f"{name}: {message}"), file=sys.stderr)
    return code
