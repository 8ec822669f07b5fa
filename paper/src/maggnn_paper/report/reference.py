"""The reference: `docs/api.md`, from signatures and docstrings, the declarations of the command lines and the config.

Nothing is written here by hand but which names belong on the page. The same code gives the same bytes, whatever
machine renders it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from textwrap import indent
from typing import Any, Literal, get_args, get_origin, get_type_hints

from maggnn.config import Config, describe
from maggnn_paper.report.cells import markdown
from maggnn_paper.report.commands import commands, render_command
from maggnn_paper.report.docstrings import rendered, summary

NAMES: dict[str, tuple[str, ...]] = {
    "maggnn": tuple(import_module("maggnn").__all__),
    "maggnn.graphs.conversions": (
        "pack_networkx", "pack_pyg", "pack_graph6", "to_networkx", "to_pyg", "to_graph6", "from_pyg", "batch_from_pyg",
    ),
    "maggnn.data": (
        "Dataset", "DatasetEntry", "Split", "load", "check", "all_datasets", "stratified_folds", "all_in_all",
        "data_root", "load_packed_file",
    ),
    "maggnn.data.molecules.table": ("read_table", "PackedTable"),
    "maggnn.data.molecules.target_column": ("target_kind", "TargetKind"),
    "maggnn.data.packing": ("pack", "save_packed"),
    "maggnn.data.sources": ("read_packed",),
    "maggnn.data.own_file": ("load_own",),
    "maggnn.apps.fit.fitted": ("FittedModel", "Answer", "Facts", "Blend", "own_config", "UnseenWarning"),
    "maggnn.apps.fit.ensemble": ("fit_blend", "trimmed", "OutOfFold"),
    "maggnn.apps.fit.folds": ("deal_folds", "single_fold", "Folds"),
    "maggnn.apps.fit.descriptors": ("described", "Described"),
    "maggnn.apps.explain.command": ("explain",),
    "maggnn.apps.explain.explanation": ("Explanation",),
    "maggnn.apps.explain.trace": ("trace", "Trace", "Step"),
    "maggnn.apps.export": ("export_model",),
    "maggnn.inference.export.program": ("ExportedModel",),
    "maggnn.training.run": ("Trained",),
    "maggnn.training.evaluate": ("evaluate", "Evaluation", "evaluate_model"),
    "maggnn.model.pretrained": ("PretrainedAgent",),
    "maggnn.model.state": ("State", "Move"),
    "maggnn.model.marking": ("Marking", "BinaryMarking", "DistanceMarking", "make_marking"),
    "maggnn.theory.planner": ("partitions", "plan", "Plan", "Level", "Partitions"),
    "maggnn.theory.refinement": ("separating_order", "Comparison", "copy_hashes"),
    "maggnn.theory.canonical": ("answer_canonically", "canonical_form"),
    "maggnn_paper.equivariance": ("answer_equivariantly", "canonical_starts"),
    "maggnn_paper.baselines.particles": ("ParticleFilter",),
    "maggnn.model.named_encoders": ("make_encoder", "baseline_type"),
    "maggnn.config": ("load", "from_dict", "to_dict", "describe"),
    "maggnn.model.runtime": ("make_generator", "pick_device"),
}  # fmt: skip
"""What is on the page: names by the module that users import them from."""

PREAMBLE = """\
# Reference

Rendered by `maggnn-paper report` from the code itself: do not edit it by hand. For a way in, read the
[tutorials](tutorials/README.md); for the ideas behind the code, [architecture.md](architecture.md).

Shape letters: B graphs, N nodes of the batch, E directed edges, m tuples, k nodes a tuple, d width, t moves.
"""

WIDTH = 100
"""Signatures longer than this have one parameter a line."""


def render_reference() -> str:
    """The whole of `docs/api.md`."""
    contents = [f"- [{module}](#{anchor(f'Module {module}')})" for module in NAMES]
    contents += ["- [Baselines](#baselines)", "- [Commands](#commands)", "- [Settings](#settings)"]
    parts = [PREAMBLE, "\n".join(contents) + "\n"]
    parts += [_module(module, names) for module, names in NAMES.items()]
    parts += [_baselines(), _commands(), _settings()]
    return "\n".join(parts)


def anchor(heading: str) -> str:
    """What a heading is linked by, as GitHub makes it."""
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in "-_ ")
    return kept.replace(" ", "-")


def _module(module: str, names: tuple[str, ...]) -> str:
    home = import_module(module)
    parts = [f"## Module {module}\n", rendered(home.__doc__) + "\n"]
    for name in names:
        thing = getattr(home, name)
        parts.append(f"### {module}.{name}\n")
        parts.append((_class if inspect.isclass(thing) else _function)(name, thing))
    return "\n".join(parts)


def _function(name: str, function: Any) -> str:
    return f"```python\n{signature(name, function)}\n```\n\n{rendered(function.__doc__)}\n"


def _class(name: str, thing: type) -> str:
    if issubclass(thing, Exception):
        return rendered(thing.__doc__) + "\n"
    parts = [f"```python\nclass {signature(name, thing)}\n```", rendered(thing.__doc__)]
    described = _described_fields(thing)
    if described:
        parts.append("**Attributes**\n\n" + "\n".join(described))
    members = [_member(line, docstring) for line, docstring in _members(thing)]
    if members:
        parts.append("**Methods and properties**\n\n" + "\n".join(members))
    return "\n\n".join(parts) + "\n"


def _described_fields(thing: type) -> list[str]:
    """Fields with a docstring of their own, on the line below them."""
    (body,) = ast.parse(inspect.getsource(thing)).body
    assert isinstance(body, ast.ClassDef)
    found = []
    for entry, after in pairwise(body.body):
        if isinstance(entry, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found.append(f"- `{ast.unparse(entry.target)}`: {summary(str(after.value.value))}")
    return found


def _member(line: str, docstring: str | None) -> str:
    """One method or property: its first sentence beside it, the rest indented under it."""
    first, _, rest = rendered(docstring).partition("\n\n")
    beside = f"- `{line}`" + (f": {' '.join(first.split())}" if first else "")
    return beside + (f"\n\n{indent(rest, '  ')}\n" if rest else "")


def _members(thing: type) -> Iterator[tuple[str, str | None]]:
    """Public methods and properties that the package wrote, those of the class before those of its bases."""
    written = (base for base in thing.__mro__ if base.__module__.startswith("maggnn"))
    names = dict.fromkeys(name for base in written for name in vars(base) if not name.startswith("_"))
    for name in names:
        member = inspect.getattr_static(thing, name)
        if isinstance(member, property | cached_property):
            yield name, (member.fget if isinstance(member, property) else member.func).__doc__
        elif inspect.isfunction(member):
            yield signature(name, member, bound=True, wide=True), member.__doc__
        elif isinstance(member, classmethod | staticmethod):
            yield signature(name, getattr(thing, name), wide=True), member.__doc__


def signature(name: str, thing: Any, bound: bool = False, wide: bool = False) -> str:
    """How it is called, with types; the same on every machine and in every version of Python.

    Args:
        bound: leave out `self`.
        wide: on one line, however long.
    """
    found = inspect.signature(thing)
    parameters = list(found.parameters.values())[1 if bound else 0 :]
    texts: list[str] = []
    for place, parameter in enumerate(parameters):
        before = parameters[place - 1].kind if place else None
        if parameter.kind is parameter.KEYWORD_ONLY and before not in (
            parameter.KEYWORD_ONLY,
            parameter.VAR_POSITIONAL,
        ):
            texts.append("*")
        texts.append(_parameter(parameter))
    returns = "" if inspect.isclass(thing) else _returned(found)
    line = f"{name}({', '.join(texts)}){returns}"
    if wide or len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {text}," for text in texts), f"){returns}"])


def _returned(found: inspect.Signature) -> str:
    empty = found.return_annotation in (inspect.Signature.empty, None, "None")
    return "" if empty else f" -> {_type(found.return_annotation)}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    typed = "" if parameter.annotation is parameter.empty else f": {_type(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{typed}"
    return f"{stars}{parameter.name}{typed}{' = ' if typed else '='}{_default(parameter)}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _default(parameter: inspect.Parameter) -> str:
    """A default as source would say it: settings as `AgentConfig()`, what has no such form as three dots."""
    if dataclasses.is_dataclass(parameter.default):
        return f"{type(parameter.default).__name__}()"
    text = repr(parameter.default)
    if text == "<factory>" and _type(parameter.annotation).isidentifier():
        return f"{_type(parameter.annotation)}()"
    return "..." if text.startswith("<") or " at 0x" in text else text


def _baselines() -> str:
    from maggnn.model.named_encoders import BASELINES, baseline_type

    body = [
        [f"`{name}`", f"`{kind.__module__}.{kind.__name__}`", summary(kind.__doc__)]
        for name, kind in ((name, baseline_type(name)) for name in BASELINES)
    ]
    text = "The methods that the paper compares with: `baseline.name` in a config, or an encoder of `make_encoder`.\n"
    return f"## Baselines\n\n{text}\n{markdown(['name', 'class', 'idea'], body)}"


def _commands() -> str:
    text = (
        "`maggnn` is the package's command line. `maggnn-paper` reproduces the paper; it is installed by itself.\n"
        "A user's mistake is one line on standard error and exit code 2; `--json` prints one object last.\n"
    )
    return "\n".join(["## Commands\n", text, *(render_command(command) for command in commands())])


def _settings() -> str:
    parts = ["## Settings\n", "Of a TOML file, of `--set section.key=value` and of `Config.replaced`.\n"]
    for section in dataclasses.fields(Config):
        kind = type(getattr(Config(), section.name))
        parts += [f"### [{section.name}]\n", rendered(kind.__doc__) + "\n", _setting_table(section.name, kind, False)]
    text = "Settings of single experiments. In a TOML file they stand under `[experimental.<section>]`.\n"
    parts += ["### Experimental settings\n", text]
    for section in dataclasses.fields(Config):
        table = _setting_table(section.name, type(getattr(Config(), section.name)), True)
        parts += [f"#### [experimental.{section.name}]\n", table] if table else []
    return "\n".join(parts)


def _setting_table(section: str, kind: type, experimental: bool) -> str:
    """The settings of a section, or its experimental ones; empty where it has none."""
    rows = {name: (default, meaning) for name, default, meaning in describe(experimental)}
    body = []
    for key, hint in get_type_hints(kind).items():
        if f"{section}.{key}" in rows:
            default, meaning = rows[f"{section}.{key}"]
            choices = ", ".join(get_args(hint)) if get_origin(hint) is Literal else hint.__name__
            body.append([f"`{key}`", choices, f"`{default}`", meaning])
    return markdown(["setting", "values", "default", "meaning"], body) if body else ""
