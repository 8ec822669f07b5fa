"""Every configuration field is read somewhere: a known key that does nothing is a silent lie."""

import ast
import dataclasses
import typing
from pathlib import Path

from maggnn import config

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "maggnn"


def field_names(section: type, prefix: str = "") -> dict[str, str]:
    """Dotted name -> attribute name of every field, sections and their fields alike."""
    found = {}
    hints = typing.get_type_hints(section)
    for field in dataclasses.fields(section):
        name = f"{prefix}{field.name}"
        found[name] = field.name
        if dataclasses.is_dataclass(hints[field.name]):
            found |= field_names(hints[field.name], f"{name}.")
    return found


def attributes_read() -> set[str]:
    """Names read as `something.name` outside config.py.

    `self.name` does not count: a class that keeps its own `hidden` proves nothing about the setting.
    """
    read = set()
    for path in PACKAGE.rglob("*.py"):
        if path == PACKAGE / "config.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)):
                continue
            if not (isinstance(node.value, ast.Name) and node.value.id == "self"):
                read.add(node.attr)
    return read


def test_sections_have_fields():
    assert len(field_names(config.Config)) > len(dataclasses.fields(config.Config))


def test_every_field_is_read_outside_config():
    read = attributes_read()
    unread = sorted(dotted for dotted, name in field_names(config.Config).items() if name not in read)
    assert not unread, f"known to the configuration but read nowhere: {unread}"
