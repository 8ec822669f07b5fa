"""Google docstrings as Markdown: paragraphs stay, `Args:` and its like become lists, examples and drawings code.

first line
                             first line
Args:
    name: what it is.   ->   **Args**
        more of it.          - `name`: what it is. more of it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

HEADING = re.compile(r"([A-Z][a-z]+):$")
ENTRY = re.compile(r"(\*{0,2}\w[\w, *]*?): +(.*)$")


def rendered(docstring: str | None) -> str:
    """A docstring as Markdown, empty for none."""
    if not docstring:
        return ""
    blocks = _blocks(inspect.cleandoc(docstring).splitlines())
    return "\n\n".join(text for text in (_block(lines) for lines in blocks) if text)


def summary(docstring: str | None) -> str:
    """The first paragraph on one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Paragraphs, tables, indented drawings, and sections with all that is indented under their heading."""
    block: list[str] = []
    for line in lines:
        inside = block and (block[0].startswith("    ") or HEADING.match(block[0]))
        ends = line and not line.startswith("    ") if inside else not line
        if ends and any(block):
            yield block
            block = []
        if line or block:
            block.append(line)
    if any(block):
        yield block


def _block(lines: list[str]) -> str:
    heading = HEADING.match(lines[0])
    if heading:
        return _section(heading[1], inspect.cleandoc("\n" + "\n".join(lines[1:])).splitlines())
    if lines[0].startswith("    "):
        return _code("text" if ">>>" not in lines[0] else "python", lines)
    return "\n".join(lines)


def _section(name: str, lines: list[str]) -> str:
    if name == "Example":
        return f"**{name}**\n\n{_code('python', lines)}"
    if name == "Shapes":  # several on a line
        lines = [shape.strip() for shape in " ".join(lines).split(";")]
    entries: list[str] = []
    for line in lines:
        entry = ENTRY.match(line)
        if entry and name != "Returns":
            names = ", ".join(f"`{part.strip()}`" for part in entry[1].split(","))
            entries.append(f"- {names}: {entry[2]}")
        elif entries:
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line.strip())
    return f"**{name}**\n\n" + "\n".join(entries)


def _code(language: str, lines: list[str]) -> str:
    text = inspect.cleandoc("\n" + "\n".join(lines))
    return f"```{language}\n{text}\n```"
