"""Every command with its arguments and options, read off the declarations of both command lines without running any."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, ParameterInfo

from maggnn.apps import cli
from maggnn_paper import cli as paper_cli

PROGRAMS = {"maggnn": cli.app, "maggnn-paper": paper_cli.app}
"""Both command lines, by the names of their programs."""


@dataclass(frozen=True)
class Parameter:
    """An argument or an option as a user writes it."""

    name: str
    meaning: str
    default: str
    argument: bool
    required: bool


@dataclass(frozen=True)
class Command:
    """A program, what is written behind it, and what does it."""

    program: str
    name: str
    callback: Callable[..., Any]

    @property
    def parameters(self) -> list[Parameter]:
        """All of them, in the order of their declaration."""
        hints = get_type_hints(self.callback, include_extras=True)
        signature = inspect.signature(self.callback)
        return [_parameter(hints[name], parameter) for name, parameter in signature.parameters.items()]


def commands() -> Iterator[Command]:
    """All commands of both programs, those of groups (`data list`) too, in the order in which help lists them."""
    for program, app in PROGRAMS.items():
        yield from _commands(program, app, "")


def _commands(program: str, group: typer.Typer, prefix: str) -> Iterator[Command]:
    for info in group.registered_commands:
        assert info.callback is not None
        if info.hidden:  # only says where a command went
            continue
        yield Command(program, prefix + (info.name or info.callback.__name__.replace("_", "-")), info.callback)
    for info in group.registered_groups:
        assert info.typer_instance is not None
        yield from _commands(program, info.typer_instance, f"{prefix}{info.name} ")


def _parameter(hint: Any, parameter: inspect.Parameter) -> Parameter:
    kind, *notes = get_args(hint)
    info = next(note for note in notes if isinstance(note, ParameterInfo))
    argument, required = isinstance(info, ArgumentInfo), parameter.default is inspect.Parameter.empty
    name = parameter.name.upper() if argument else _option(kind, info, parameter.name)
    again = "; may be given again" if "list" in str(kind) and "again" not in (info.help or "") else ""
    return Parameter(name, (info.help or "") + again, _default(parameter.default), argument, required)


def _option(kind: Any, info: ParameterInfo, name: str) -> str:
    # In `Annotated[..., typer.Option("-o", "--out")]` typer keeps the first name where a default could stand.
    given = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
    plain = name.replace("_", "-")
    if kind is bool:
        return ", ".join(given).replace("/", ", ") or f"--{plain}, --no-{plain}"
    return f"{', '.join(given) or '--' + plain} {info.metavar or _placeholder(kind)}"


def _placeholder(kind: Any) -> str:
    inner = next((part for part in get_args(kind) if part is not type(None)), kind)
    return {"Path": "PATH", "int": "N", "float": "NUMBER"}.get(getattr(inner, "__name__", ""), "TEXT")


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    values = value if isinstance(value, list) else [] if value is None or value is False else [value]
    return ", ".join(f"`{entry}`" for entry in values)
