"""What the pages name exists: linked files and headings, paths, commands with their options, settings."""

import dataclasses
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from command_lines import Command, commands
from maggnn.config import Config, describe
from maggnn.data.registry import all_datasets
from maggnn_paper.bench.tables import BENCHES
from maggnn_paper.figures.commands import FIGURES, FROM_LEDGER
from maggnn_paper.tables.registry import TABLES

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (ROOT / "src" / "maggnn", ROOT / "paper" / "src" / "maggnn_paper")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SECTIONS = "|".join(field.name for field in dataclasses.fields(Config))

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MODULE_FILE = re.compile(r"`((?:\w+/)*\w+\.py)\b[^`]*`")
HOLDS = re.compile(r"`((?:\w+/)*\w+\.py)`: ((?:`[\w.]+`(?:, | and )?)+)")
DOTTED = re.compile(r"`(maggnn(?:_paper)?(?:\.\w+)+)\b[^`]*`")
NAMED = re.compile(r"`((?:src|paper|docs|configs|examples|tests|results|benchmarks)/[\w./+-]*)`")
COMMAND = re.compile(r"`(maggnn(?:-paper)? [^`]+)`|^(maggnn(?:-paper)? .+)$", re.MULTILINE)
SETTING = re.compile(rf"(?<![\w./])({SECTIONS})\.([a-z_]+)(?![\w(./*])")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
METHODS = {"predictor.embed", "predictor.read"}  # look like settings
MADE_WHEN_RUN = ("results/ledger.jsonl", "runs/")
MADE_BY_THE_SITE = {"player/index.html"}

CHOICES = {
    "reproduce": TABLES,
    "bench": BENCHES,
    "figure": (*FIGURES, *FROM_LEDGER, "reward"),
    "data check": all_datasets(),
}
"""What the first argument of a command may be."""

by_name = {(command.program, command.name): command for command in commands()}


def anchor(heading: str) -> str:
    """What a heading is linked by, as GitHub makes it."""
    kept = "".join(letter for letter in heading.lower() if letter.isalnum() or letter in "-_ ")
    return kept.replace(" ", "-")


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def prose_of(path: Path) -> str:
    """A page without its code."""
    return FENCE.sub("", text_of(path))


def anchors(path: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose_of(path), re.MULTILINE)}


def files_named(name: str) -> list[Path]:
    """Files that a page may mean by `agent.py`, `model/agent.py`, `unit/model/test_agent.py` or a path of the root."""
    places = [ROOT / name, ROOT / "tests" / name, *(file for home in PACKAGES for file in home.rglob(name))]
    return [place for place in places if place.is_file()]


def importable(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def named_commands(path: Path) -> Iterator[list[str]]:
    """Every `maggnn ...` of a page in words, one for each alternative of `maggnn fit|predict`."""
    for match in COMMAND.finditer(text_of(path).replace("\\\n", " ")):
        line = (match[1] or match[2]).replace("\\|", "|").replace("...", "")
        yield from alternatives(shlex.split(re.sub(r"[\[\]]", " ", line), comments=True))


def alternatives(words: list[str]) -> Iterator[list[str]]:
    for place, word in enumerate(words):
        if "|" in word:
            for choice in word.split("|"):
                yield from alternatives([*words[:place], choice, *words[place + 1 :]])
            return
    yield words


def command_of(program: str, words: list[str]) -> Command | None:
    return by_name.get((program, " ".join(words[:2]))) or by_name.get((program, words[0]))


def links_that_lead_nowhere(path: Path) -> Iterator[str]:
    for link in LINK.findall(prose_of(path)):
        file, _, heading = link.partition("#")
        if re.match(r"[a-z]+:", link) or link in MADE_BY_THE_SITE:
            continue
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (heading and target.suffix == ".md" and heading not in anchors(target)):
            yield link


def absent_paths(path: Path) -> Iterator[str]:
    named = (name for name in NAMED.findall(text_of(path)) if not name.startswith(MADE_WHEN_RUN))
    yield from (name for name in named if not (ROOT / name).exists())


def absent_modules_and_objects(path: Path) -> Iterator[str]:
    """`agent.py` is a file of a package, `unit/model/test_agent.py` a test, `maggnn.MagGNN` can be imported."""
    yield from (name for name in sorted(set(MODULE_FILE.findall(prose_of(path)))) if not files_named(name))
    yield from (name for name in sorted(set(DOTTED.findall(prose_of(path)))) if not importable(name))


def absent_tests(path: Path) -> Iterator[str]:
    named = set(re.findall(r"\b(test_\w+)`", prose_of(path))) - {"test_mask"}  # which is an attribute of PyG's data
    written = "\n".join(map(text_of, (ROOT / "tests").rglob("test_*.py"))) if named else ""
    yield from sorted(name for name in named if f"def {name}(" not in written)


def what_files_do_not_hold(path: Path) -> Iterator[str]:
    """As in `mag_gnn.py`: `MagGNN`, `walk`."""
    for name, held in HOLDS.findall(prose_of(path)):
        text = "\n".join(map(text_of, files_named(name)))
        words = [word for dotted in re.findall(r"`([\w.]+)`", held) for word in dotted.split(".")]
        yield from (f"{name}: {word}" for word in words if not re.search(rf"\b{word}\b", text))


def wrong_commands(path: Path) -> Iterator[str]:
    for program, *words in named_commands(path):
        if not words or words[0].startswith("-"):
            continue
        command, line = command_of(program, words), " ".join([program, *words])
        if command is None:
            yield line
            continue
        first = words[len(command.name.split())] if len(words) > len(command.name.split()) else ""
        if re.fullmatch(r"[a-z]\w*", first) and first not in CHOICES.get(command.name, {first}):
            yield f"{line}: {first}"
        known = {flag.strip(",") for option in command.parameters for flag in option.name.split()}
        yield from (f"{line}: {word}" for word in words if re.match(r"--?[a-z]", word) and word not in known)


def unknown_settings(path: Path) -> Iterator[str]:
    known = {name for name, _, _ in [*describe(), *describe(experimental=True)]}
    named = {f"{section}.{key}" for section, key in SETTING.findall(prose_of(path))}
    files = {name for name in named if name.endswith((".md", ".py", ".json", ".png"))}
    yield from sorted(named - files - METHODS - known)


MISTAKES = {
    links_that_lead_nowhere: ("[a](nowhere.md)", "[a](page.md#nothing)"),
    absent_paths: ("`docs/nothing.md`", "`paper/configs/nothing/`"),
    absent_modules_and_objects: ("`nothing.py`", "`maggnn.inference.engine.Motor`", "`maggnn_paper.nothing`"),
    absent_tests: ("`unit/model/test_agent.py::test_nothing_of_the_kind`",),
    what_files_do_not_hold: ("`model/mag_gnn.py`: `MagGNN`, `Nothing`",),
    wrong_commands: (
        "`maggnn trian configs/sr25.toml`",
        "```bash\nmaggnn fit a.csv --colour red\n```",
        "`maggnn-paper reproduce synthetic\\|nothing`",
        "`maggnn reproduce synthetic`",
        "`maggnn-paper train configs/sr25.toml`",
    ),
    unknown_settings: ("set `agent.num_move`",),
}
"""Every check, and what it must object to."""

Check = Callable[[Path], Iterator[str]]
each_check = pytest.mark.parametrize("check", MISTAKES, ids=lambda check: check.__name__)


@each_check
def test_the_pages_are_sound(check: Check):
    wrong = [f"{path.relative_to(ROOT)}: {found}" for path in PAGES for found in check(path)]
    assert not wrong, "\n".join(wrong)


@each_check
def test_the_checks_see_mistakes(check: Check, tmp_path):
    page = tmp_path / "page.md"
    fine = (
        "# Title\n\n[fine](#title), `src/maggnn/model/mag_gnn.py`, `mag_gnn.py`: `MagGNN`, `agent.num_moves`, "
        "`maggnn train configs/sr25.toml -o runs/mine` and `maggnn-paper reproduce synthetic|moves --row csl`.\n\n"
    )
    page.write_text(fine, encoding="utf-8")
    assert not list(check(page))
    for mistake in MISTAKES[check]:
        page.write_text(fine + mistake + "\n", encoding="utf-8")
        assert len(list(check(page))) == 1, mistake


def test_every_page_of_a_folder_is_in_its_index():
    docs = ROOT / "docs"
    for folder in (docs / "api", docs / "results", docs / "tutorials"):
        linked = set(LINK.findall(text_of(folder / "README.md")))
        assert {path.name for path in folder.glob("*.md")} - {"README.md"} <= linked
