"""What the pages name exists: linked files and headings, paths, commands with their options, settings."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from maggnn.apps.draw.commands import FIGURES
from maggnn.config import describe
from maggnn.data.registry import DATASETS
from maggnn_paper.bench.tables import BENCHES
from maggnn_paper.report.commands import Command, commands
from maggnn_paper.report.reference import anchor
from maggnn_paper.tables.registry import TABLES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "maggnn"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MODULE_FILE = re.compile(r"`((?:\w+/)*\w+\.py)\b[^`]*`")
HOLDS = re.compile(r"`((?:\w+/)*\w+\.py)`: ((?:`[\w.]+`(?:, | and )?)+)")
DOTTED = re.compile(r"`(maggnn(?:\.\w+)+)\b[^`]*`")
NAMED = re.compile(r"`((?:src|docs|configs|examples|tests|results|benchmarks)/[\w./-]*)`")
COMMAND = re.compile(r"`(maggnn [^`]+)`|^(maggnn .+)$", re.MULTILINE)
SETTING = re.compile(r"(?<![\w./])(data|encoder|predictor|agent|rival|replay|training|runtime)\.([a-z_]+)(?![\w(./*])")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
METHODS = {"predictor.embed", "predictor.read"}  # look like settings
MADE_WHEN_RUN = ("results/ledger.jsonl", "runs/")

CHOICES = {"reproduce": TABLES, "bench": BENCHES, "figure": (*FIGURES, "reward"), "data check": DATASETS}
"""What the first argument of a command may be."""

by_name = {command.name: command for command in commands()}
each_page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(path: Path) -> str:
    """A page without its code."""
    return FENCE.sub("", text_of(path))


def anchors(path: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text_of(path)), re.MULTILINE)
    return {anchor(heading) for heading in headings}


def named_commands(path: Path) -> Iterator[str]:
    """Every `maggnn ...` of a page, one for each alternative of `maggnn fit|predict`."""
    for match in COMMAND.finditer(text_of(path).replace("\\\n", " ")):
        line = (match[1] or match[2]).replace("\\|", "|").replace("...", "")
        yield from alternatives(re.sub(r"[\[\]]", " ", line))


def alternatives(line: str) -> Iterator[str]:
    for word in line.split():
        if "|" in word:
            for choice in word.split("|"):
                yield from alternatives(line.replace(word, choice, 1))
            return
    yield line


def command_of(words: list[str]) -> Command | None:
    return by_name.get(" ".join(words[:2])) or by_name.get(words[0])


@each_page
def test_relative_links_lead_somewhere(path):
    missing = []
    for link in LINK.findall(prose_of(path)):
        file, _, heading = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (heading and target.suffix == ".md" and heading not in anchors(target)):
            missing.append(link)
    assert not missing


@each_page
def test_named_files_exist(path):
    named = [name for name in NAMED.findall(text_of(path)) if not name.startswith(MADE_WHEN_RUN)]
    assert not [name for name in named if not (ROOT / name).exists()]


@each_page
def test_named_modules_and_objects_exist(path):
    """`agent.py` is a file of the package, `unit/model/test_agent.py` a test, `maggnn.MagGNN` can be imported."""
    text = prose_of(path)
    homes = (ROOT, ROOT / "tests")
    lost = {name for name in MODULE_FILE.findall(text) if not any((home / name).exists() for home in homes)}
    assert not [name for name in lost if not list(PACKAGE.rglob(name))]
    assert not [name for name in set(DOTTED.findall(text)) if not importable(name)]


@each_page
def test_named_tests_exist(path):
    named = set(re.findall(r"\b(test_\w+)`", prose_of(path)))
    written = "\n".join(map(text_of, (ROOT / "tests").rglob("test_*.py"))) if named else ""
    assert not [name for name in named if f"def {name}(" not in written]


@each_page
def test_what_a_file_is_said_to_hold_is_there(path):
    """As in `model.py`: `MagGNN`, `described`."""
    wrong = []
    for name, held in HOLDS.findall(prose_of(path)):
        homes = [file for file in (ROOT / name, ROOT / "tests" / name, *PACKAGE.rglob(name)) if file.is_file()]
        text = "\n".join(map(text_of, homes))
        words = [word for dotted in re.findall(r"`([\w.]+)`", held) for word in dotted.split(".")]
        wrong += [f"{name}: {word}" for word in words if not re.search(rf"\b{word}\b", text)]
    assert not wrong


def importable(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


@each_page
def test_named_commands_and_their_options_exist(path):
    wrong = []
    for line in named_commands(path):
        words = shlex.split(line, comments=True)[1:]
        if not words or words[0].startswith("-"):
            continue
        command = command_of(words)
        if command is None:
            wrong.append(line)
            continue
        first = words[len(command.name.split())] if len(words) > len(command.name.split()) else ""
        if re.fullmatch(r"[a-z]\w*", first) and first not in CHOICES.get(command.name, {first}):
            wrong.append(f"{line}: {first}")
        known = {flag.strip(",") for option in command.parameters for flag in option.name.split()}
        wrong += [f"{line}: {word}" for word in words if re.match(r"--?[a-z]", word) and word not in known]
    assert not wrong


@each_page
def test_named_settings_exist(path):
    known = {name for name, _, _ in describe()}
    named = {f"{section}.{key}" for section, key in SETTING.findall(prose_of(path))}
    files = {name for name in named if name.endswith((".md", ".py", ".json", ".png"))}
    assert named - files - METHODS <= known


def test_every_tutorial_and_page_is_in_an_index():
    docs = ROOT / "docs"
    for folder in (docs, docs / "tutorials"):
        linked = set(LINK.findall(text_of(folder / "README.md")))
        assert {path.name for path in folder.glob("*.md")} - {"README.md"} <= linked


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("[a](nowhere.md)", test_relative_links_lead_somewhere),
        ("[a](page.md#nothing)", test_relative_links_lead_somewhere),
        ("`docs/nothing.md`", test_named_files_exist),
        ("`nothing.py`", test_named_modules_and_objects_exist),
        ("`maggnn.inference.engine.Motor`", test_named_modules_and_objects_exist),
        ("`unit/test_agent.py::test_nothing_of_the_kind`", test_named_tests_exist),
        ("`model.py`: `MagGNN`, `Nothing`", test_what_a_file_is_said_to_hold_is_there),
        ("`maggnn trian configs/sr25.toml`", test_named_commands_and_their_options_exist),
        ("```bash\nmaggnn fit a.csv --colour red\n```", test_named_commands_and_their_options_exist),
        ("`maggnn-paper reproduce synthetic\\|nothing`", test_named_commands_and_their_options_exist),
        ("set `agent.num_move`", test_named_settings_exist),
    ],
)
def test_the_checks_see_mistakes(text, check, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n[fine](#title) and `src/maggnn/model.py`\n\n{text}\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        check(page)
