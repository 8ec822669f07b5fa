"""What the reference lists is documented: every argument, every returned value, every field."""

import re
from pathlib import Path

import griffe
import pytest
import yaml

import maggnn

DOCS = Path(__file__).resolve().parents[2] / "docs"
SOURCES = [DOCS.parent / "src", DOCS.parent / "paper" / "src"]
LISTED = re.compile(r"^::: (\S+)\n((?:    .*\n?|\n(?=    ))*)", re.MULTILINE)
SETTINGS = "maggnn.config."
"""Settings have one-line descriptions (`tests/architecture/test_config_fields.py`)."""

collection = griffe.ModulesCollection()
for package in ("maggnn", "maggnn_paper"):
    griffe.load(package, search_paths=SOURCES, modules_collection=collection, docstring_parser="google")


def listed() -> dict[str, griffe.Object]:
    """All functions, methods and classes that pages of the reference show, by their paths."""
    found: dict[str, griffe.Object] = {}
    for page in sorted((DOCS / "api").glob("*.md")):
        for name, options in LISTED.findall(page.read_text(encoding="utf-8")):
            given = (yaml.safe_load(options) or {}).get("options", {})
            add(found, real(collection[name]), given.get("members"), given.get("filters", []))
    return found


def real(thing: griffe.Object | griffe.Alias) -> griffe.Object:
    """What a public name stands for: `maggnn.MagGNN` is imported from its module."""
    return thing.final_target if isinstance(thing, griffe.Alias) else thing


def add(found: dict[str, griffe.Object], thing: griffe.Object, members: list[str] | None, hidden: list[str]) -> None:
    """An object of the reference with its members: those that the page names, or all but those that it hides."""
    if not thing.is_module:
        found[thing.path] = thing
    if not (thing.is_class or thing.is_module):
        return
    assert {*(members or [])} <= {*thing.members}, f"{thing.path} has no { ({*members} - {*thing.members}) }"
    for name, member in thing.members.items():
        shown = name in members if members is not None else not any(re.search(rule[1:], name) for rule in hidden)
        if shown and not name.startswith("_") and not member.is_alias and not member.is_attribute:
            add(found, member, None, [])


def section(thing: griffe.Object, kind: str) -> list[str] | None:
    """The names that a section of a docstring has, None without such a section."""
    for part in thing.docstring.parsed if thing.docstring else []:
        if part.kind.value == kind:
            return [entry.name for entry in part.value]
    return None


def parameters(thing: griffe.Object) -> list[str]:
    names = [parameter for parameter in thing.parameters if parameter.name not in ("self", "cls")]
    return [f"{STARS.get(parameter.kind.value, '')}{parameter.name}" for parameter in names]


STARS = {"variadic positional": "*", "variadic keyword": "**"}


def missing(thing: griffe.Object) -> list[str]:
    """What the docstring does not say."""
    described = {*(section(thing, "parameters") or []), *(section(thing, "attributes") or [])}
    described |= {name for name, member in thing.members.items() if member.is_attribute and member.has_docstring}
    absent = [name for name in parameters(thing) if name not in described and name.strip("*") not in described]
    returned = str(thing.returns) if thing.is_function and thing.returns is not None else "None"
    if returned != "None" and not (section(thing, "returns") or section(thing, "yields")):
        absent.append("Returns")
    return absent


THINGS = {path: thing for path, thing in listed().items() if not path.startswith(SETTINGS) or not thing.is_class}


@pytest.mark.parametrize("path", THINGS)
def test_all_arguments_and_results_are_described(path):
    thing = THINGS[path]
    assert thing.has_docstring, "no docstring"
    assert not missing(thing), f"{thing.filepath.name}:{thing.lineno} does not describe {', '.join(missing(thing))}"


def test_all_public_names_are_listed():
    names = {path.rpartition(".")[2] for path in listed()}
    assert {*maggnn.__all__} <= names
