"""Code on the pages runs as printed: every block in order, in one namespace for each page, in an empty folder.

    ```python   is executed
    ```bash     its lines that begin with `maggnn ` are commands
    ```toml     is written to the file that its first line names, as in `# rings.toml`
    ```text     is what the block above it prints; ... stands for anything
    ```console  is only shown: commands for files that a reader has

A comment `<!-- check: ... -->` holds what the prose claims of numbers that differ a little from machine to machine.
"""

import contextlib
import io
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from maggnn.apps import cli
from maggnn.data.registry import DATASETS
from maggnn_paper.tables.own_loop import loop_code

DOCS = Path(__file__).resolve().parents[2] / "docs"
TUTORIALS = sorted(path for path in (DOCS / "tutorials").glob("*.md") if path.name != "README.md")
PAGES = [
    *TUTORIALS,
    DOCS.parent / "README.md",
    *sorted(path for path in DOCS.glob("*.md") if "```python\n" in path.read_text(encoding="utf-8")),
]
"""All pages with code; drawings of other pages are no output."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$|^<!-- check: (.*?) -->$", re.MULTILINE | re.DOTALL)
MOST_LINES = 130


@dataclass(frozen=True)
class Block:
    kind: str
    text: str
    line: int
    """Where its text begins in the file, counted from 1."""


def blocks(path: Path) -> Iterator[Block]:
    text = path.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        kind = match[1] or "check"
        start = match.start(2 if match[1] else 3)
        yield Block(kind, match[2] or match[3], text.count("\n", 0, start) + 1)


def run_python(path: Path, block: Block, namespace: dict[str, object]) -> None:
    """With the line numbers of the file, so that a failure points into it."""
    exec(compile("\n" * (block.line - 1) + block.text, str(path), "exec"), namespace)


def run_commands(block: Block) -> None:
    for line in block.text.replace("\\\n", " ").splitlines():
        if line.startswith("maggnn "):
            cli.app(shlex.split(line, comments=True)[1:], standalone_mode=False)


def write_toml(block: Block) -> None:
    name = re.match(r"# (\S+\.toml)\b", block.text)
    assert name, f"line {block.line}: a toml block begins with the name of its file"
    Path(name[1]).write_text(block.text, encoding="utf-8")


def matches(expected: str, printed: str) -> bool:
    """Line ends do not count, and ... stands for anything."""
    lines, found = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (expected, printed))
    return re.fullmatch(re.escape(lines).replace(r"\.\.\.", ".*"), found, re.DOTALL) is not None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_page_runs_as_printed(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(DATASETS, "rings", None)  # a tutorial adds it: gone after the test
    namespace: dict[str, object] = {"__name__": path.stem}
    printed, began = "", time.process_time()
    for block in blocks(path):
        where = f"{path.name}, line {block.line}"
        if block.kind == "text":
            assert matches(block.text, printed), f"{where}: it printed\n{printed}"
        elif block.kind == "check":
            assert eval(block.text, namespace), f"{where}: {block.text}"
        elif block.kind == "console":
            continue
        elif block.kind == "toml":
            write_toml(block)
        else:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                run_python(path, block, namespace) if block.kind == "python" else run_commands(block)
            printed = out.getvalue()
    assert time.process_time() - began < 60, "a page is a matter of seconds"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_the_whole_training_of_the_loop_beats_random_moves():
    """The loop of the tutorial with as many steps as it names: the agent does better than random moves."""
    path = DOCS / "tutorials" / "own_training_loop.md"
    loop, comparison = [block for block in blocks(path) if block.kind == "python"][:2]
    namespace: dict[str, object] = {"__name__": path.stem}
    run_python(path, Block("python", loop_code(path.read_text(encoding="utf-8")), loop.line), namespace)
    run_python(path, comparison, namespace)
    agent, random = (eval(f"accuracy({epsilon}, repeats=100)", namespace) for epsilon in (0.0, 1.0))
    assert agent[2] > max(97, random[2] + 10)


def test_tutorials_are_short_and_use_known_blocks():
    for path in TUTORIALS:
        assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES, path.name
        kinds = {block.kind for block in blocks(path)}
        assert kinds <= {"python", "bash", "toml", "text", "check"} and "python" in kinds, path.name


def test_there_is_a_tutorial_for_each_kind_of_reader():
    names = {"own_molecules", "own_graphs", "new_data_set", "new_base_gnn", "reading_the_page"}
    names |= {"own_training_loop", "node_level", "edge_level"}
    assert names <= {path.stem for path in TUTORIALS}


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("a\n", "a  \n", True),
        ("a ... c\n", "a b\nc\n", False),
        ("a ...c\n", "a b\nc\n", True),
        ("1.5\n", "145\n", False),
        ("a\n", "a\nb\n", False),
    ],
)
def test_matching(expected, printed, same):
    assert matches(expected, printed) is same
