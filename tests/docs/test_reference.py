"""The reference says what the code says: it is up to date, complete and the same on every machine."""

import re
from pathlib import Path

import pytest

import maggnn
from maggnn.config import AgentConfig, describe
from maggnn_paper.report import REFERENCE
from maggnn_paper.report.commands import commands
from maggnn_paper.report.docstrings import rendered, summary
from maggnn_paper.report.reference import NAMES, anchor, render_reference, signature

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def page() -> str:
    return render_reference()


def test_the_committed_reference_is_up_to_date(page):
    assert (ROOT / REFERENCE).read_text(encoding="utf-8") == page, "run `maggnn-paper report`"


def test_everything_public_is_there(page):
    assert all(f"\n### maggnn.{name}\n" in page for name in maggnn.__all__)
    assert all(f"\n### {module}.{name}\n" in page for module, names in NAMES.items() for name in names)
    assert all(f"\n### `{command.program} {command.name}" in page for command in commands())
    settings = [*describe(), *describe(experimental=True)]
    assert all(f"| `{name.partition('.')[2]}` |" in page for name, _, _ in settings)


def test_nothing_of_this_machine_is_there(page):
    assert " at 0x" not in page and str(ROOT) not in page and str(Path.home()) not in page
    assert page == render_reference()


def test_its_own_links_and_fences_are_sound(page):
    headings = [anchor(heading) for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)]
    assert all(headings.count(linked) == 1 for linked in re.findall(r"\]\(#([^)]+)\)", page))
    assert len(re.findall(r"^ *```", page, re.MULTILINE)) % 2 == 0


def test_a_docstring_becomes_markdown():
    docstring = """What it does
    on two lines.

        a drawing   ->   of it

    Args:
        name, other: first
            and more.
        last: of all.

    Shapes:
        x: [N, F];
        y: [B]; result: [B, m].

    Example:
        >>> 1 + 1
        2

        >>> 3
    """
    assert rendered(docstring) == "\n".join(
        [
            *("What it does", "on two lines.", "", "```text", "a drawing   ->   of it", "```", ""),
            *("**Args**", "", "- `name`, `other`: first and more.", "- `last`: of all.", ""),
            *("**Shapes**", "", "- `x`: [N, F]", "- `y`: [B]", "- `result`: [B, m].", ""),
            *("**Example**", "", "```python", ">>> 1 + 1", "2", "", ">>> 3", "```"),
        ]
    )
    assert summary(docstring) == "What it does on two lines."
    assert rendered(None) == summary(None) == ""


def test_a_signature_reads_like_source():
    def call(x: int, *rest: str, agent: AgentConfig = AgentConfig(), done=print, **others: float) -> list[int]: ...  # noqa: B008

    lines = [
        "x: int,",
        "*rest: str,",
        "agent: maggnn.config.AgentConfig = AgentConfig(),",
        "done=...,",
        "**others: float,",
    ]
    assert signature("call", call) == "\n".join(["call(", *(f"    {line}" for line in lines), ") -> list[int]"])

    def keywords(*, steps: int | None = None) -> None: ...

    assert signature("keywords", keywords) == "keywords(*, steps: int | None = None)"


def test_commands_as_a_user_writes_them():
    found = {command.name: command for command in commands() if command.program == "maggnn"}
    assert {"train", "fit", "predict", "data pack"} <= found.keys()
    paper = {command.name for command in commands() if command.program == "maggnn-paper"}
    assert paper == {"reproduce", "bench", "figure", "get", "report"}
    options = {option.name: option for option in found["predict"].parameters}
    assert list(options)[:3] == ["MODEL", "TABLE", "-o, --out PATH"]
    assert options["TABLE"].argument and options["TABLE"].required and options["TABLE"].default == "required"
    assert options["--coverage NUMBER"].default == "`0.9`" and not options["--json"].default
    explain = {option.name: option.default for option in found["explain"].parameters}
    assert explain["-o, --out PATH"] == "`explain.html`"
    assert "--open, --no-open" in [option.name for option in found["show"].parameters]
