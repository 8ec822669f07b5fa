"""Code that all command lines of this project share: common options, exit codes and messages of errors, and tables.

Any `InputError` is a user's mistake: it is reported in one line on standard error, with exit code 2 and no traceback.
"""

from __future__ import annotations

import difflib
import errno
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from maggnn.errors import InputError, missing_extra

UsageError: Any = typer.BadParameter.__mro__[1]
"""Click's error for a wrong option or argument, found through typer's subclass because typer has moved click itself."""

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

LONGEST = 120
"""The number of characters of a path that a message shows."""

STOPPED = 130
"""The exit code after Ctrl-C, which typer returns instead of raising the interrupt."""

STOPPED_MESSAGE = "stopped; all written files are complete, and the same command resumes if it can be resumed"

MOST_SEED = 2**61
"""The largest seed of an option. With offsets of repeats and networks, it is within the bound of `runtime.seed`."""

Overwrite = Annotated[bool, typer.Option("--overwrite", help="replace existing files")]
AsJson = Annotated[bool, typer.Option("--json", help="print the result as one JSON object")]
SmilesColumn = Annotated[str | None, typer.Option(help="the column of SMILES (default: as in training)", metavar="COL")]


def run_app(app: typer.Typer, name: str) -> None:
    """Run a command line and exit with its code: 0, 2 after a user's mistake, or 130 after Ctrl-C."""
    # Idle OpenMP threads that spin slow down everything on shared cores. Torch reads this variable when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # oneDNN and torch each cache what they prepared for a thousand shapes, hundreds of megabytes in total, but batches
    # of graphs hardly ever repeat a shape. Only both limits together keep memory use constant.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "16")
    # A warning is one line, too: the source line that Python adds says nothing to the user of a command.
    warnings.formatwarning = lambda message, *_, **__: printable(f"{name}: warning: {message}") + "\n"
    sys.unraisablehook = _stop_even_where_interrupts_are_ignored(name)
    try:
        _check_arguments(sys.argv[1:])
        code = app(prog_name=name, standalone_mode=False)  # an exit code, if the command does not just return
    except UsageError as error:
        sys.exit(_fail(name, f"{_usage_words(error)} (see {_command(name, error, app)} --help)", code=2))
    except InputError as error:
        sys.exit(_fail(name, str(error), code=2))
    except ModuleNotFoundError as error:
        message = missing_extra(error)
        if message is None:
            raise
        sys.exit(_fail(name, message, code=2))
    except OSError as error:  # such as a file name that is too long, or a disk that is full or cannot be read
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
    """Return a hook for exceptions that Python cannot propagate, which ends the program if one of them is Ctrl-C.

    Python ignores exceptions raised while an object is finalised or a weak reference is cleared, as happens during
    imports, so the command would continue. A sudden end damages no files, because they are replaced as a whole.
    """

    def hook(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)
            return
        _fail(name, STOPPED_MESSAGE, STOPPED)
        sys.stderr.flush()
        os._exit(STOPPED)

    return hook


def _command(name: str, error: Any, app: typer.Typer) -> str:
    """Return the command whose arguments are wrong, such as `maggnn data pack`, as people type it."""
    if error.ctx is not None:
        return error.ctx.command_path
    found, path = typer.main.get_command(app), [name]  # an option without its value has no context
    for argument in sys.argv[1:]:
        if argument not in getattr(found, "commands", {}):
            break
        found = found.commands[argument]  # pyright: ignore[reportAttributeAccessIssue]
        path.append(argument)
    return " ".join(path)


def _usage_words(error: Any) -> str:
    """Describe a wrong option or argument in one line, with the options of that command that resemble it."""
    if not hasattr(error, "possibilities"):  # only an unknown option has them
        return " ".join(error.format_message().split()).removesuffix(".")
    name: str = error.option_name
    known = [option for param in error.ctx.command.params for option in param.opts] if error.ctx else []
    names = {option.lstrip("-"): option for option in known if option.startswith("--")}
    near = [names[found] for found in difflib.get_close_matches(name.lstrip("-"), names, n=3)]
    hint = f". Did you mean {' or '.join(near)}?" if near else ""
    return f"No such option: {name}{hint}"


def _check_arguments(arguments: list[str]) -> None:
    """Reject arguments that are not UTF-8 before any work: model files and cards contain names and are UTF-8."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(f"{argument!a} is not UTF-8: rename it") from None


def _shortened(path: str) -> str:
    return path if len(path) <= LONGEST else f"{path[: LONGEST // 2]}...{path[-LONGEST // 2 :]}"


def tell(line: str) -> None:
    """Print a line about progress on standard error."""
    print(printable(line), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """Escape line ends and other control characters, which text quoted from a file may contain."""
    return "".join(mark if mark.isprintable() else repr(mark)[1:-1] for mark in text)


def print_json(found: Any) -> None:
    """Print a result as one JSON object; a number that is not finite is null, since JSON has no other word for it."""
    print(json.dumps(finite_or_none(found), allow_nan=False))


def finite_or_none(found: Any) -> Any:
    """Return plain values with None for numbers that are not finite, such as the score of a target without values."""
    if isinstance(found, Mapping):
        return {key: finite_or_none(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return [finite_or_none(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def print_table(header: list[str], rows: list[list[str]]) -> None:
    """Print a table with aligned columns on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, box=None, pad_edge=False, header_style="bold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _fail(name: str, message: str, code: int) -> int:
    print(printable(f"{name}: {message}"), file=sys.stderr)
    return code
