"""Tables as people really have them, each with what is right for it: strategies for Hypothesis.

`tables` writes a table cell by cell, so it knows, without reading it back, how many rows there are, where each begins
and whether it can be used. `records_of` reads CSV by hand, so that what a command wrote is not judged by the module
that wrote it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from maggnn.errors import InputError

GOOD = [
    "CCO", "c1ccccc1", "CC(=O)O", "C1CCCCC1", "CCN", "C", "O=C=O", "C#N", "N[C@@H](C)C(=O)O", "F/C=C/F", "OC1CCCCC1",
    "[Na+].[Cl-]", "CC(=O)[O-].[Na+]", "CCO.CCO", "[13CH4]", "C" * 300, "CC[Si](C)(C)C", "*CC", "OCC", "C(C)O",
]  # fmt: skip
BAD = [
    "", "  ", "\t", "C(", "C1CC", "c1cccc1", "C(C)(C)(C)(C)C", "CCO CCN", "CCO\tCCN", "CCO\nCCN", "ＣＣＯ", "СС",
    "C\x00C", "\u202eCCO", "CC\u041e", "\x00CC", "éCC", "hello",
    "NA", "nan", "-", "0", "=1+1", "C" * 1001, "C" * 50_001, "[CH999]", "CC>>CO",
    "[R1]", "C%",
]  # fmt: skip
NUMBERS = ["1.5", "-2e-3", "+.5", " 3.25 ", "0", "1", "2", "1e3", "-7.", "1.0"]
MISSING = ["", " ", "NA", "n/a", "NaN", "null", "None", "?", "#N/A", "<na>"]
NO_NUMBERS = ["abc", "inf", "-Infinity", "1e400", "1e39", "1_000", "0x10", "1.5.2", "１", "1 5", "1.5 mg"]
COMMAS = ["1,5", "-0,25", "1,234.5"]
NEWLINES = ["\n", "\r\n", "\r"]
MOST_CHARACTERS = 1_000_000

TEXT = st.text(st.sampled_from([*'ab ,"\n\r\t;', "é", "漢", "\x00", "=", "'", "\u2028", "\x0b"]), max_size=6)


def few_and_many(few: int, many: int) -> Any:
    """So many `examples` by default, and more of them in the long run."""
    slow = pytest.param(many, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])
    return pytest.mark.parametrize("examples", [few, slow])


def answer_or_line(ask: Callable[[], Any]) -> Any:
    """What `ask` returns, or its `InputError`, which has to be one line; anything else that it raises is a bug."""
    try:
        return ask()
    except InputError as error:
        return error


def is_one_line(error: InputError, longest: int = 600) -> bool:
    return "\n" not in str(error) and 0 < len(str(error)) < longest


def fuzz(strategy: st.SearchStrategy[Any], check: Any, examples: int) -> None:
    """Try `check` on so many examples; the same ones in every run, and nothing is kept between runs."""
    health = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    profile = settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=health,
        phases=[Phase.generate, Phase.shrink], print_blob=False,
    )  # fmt: skip

    def checked(example: Any) -> None:
        check(example)

    seed(0)(profile(given(strategy)(checked)))()


@dataclass(frozen=True)
class Row:
    """A row as it was written.

    Attributes:
        line: that it begins on.
        cells: what a reader has to find.
        smiles, target: what its own columns hold; of a row that is ragged, nothing.
        ragged: whether it has more or fewer cells than the header.
    """

    line: int
    cells: list[str]
    smiles: str
    target: str
    ragged: bool

    @property
    def readable(self) -> bool:
        """Whether its molecule can be used."""
        return not self.ragged and self.smiles in GOOD

    @property
    def number(self) -> float | None:
        """Its target; None where that is missing or no number."""
        return float(self.target) if not self.ragged and self.target in NUMBERS else None


@dataclass(frozen=True)
class Table:
    """A file.

    Attributes:
        header: the names of the columns.
        fault: what is wrong with the file as a whole; empty where nothing is.
    """

    content: bytes
    header: list[str]
    rows: list[Row]
    fault: str = ""

    @property
    def has_commas(self) -> bool:
        return any(row.target in COMMAS and not row.ragged for row in self.rows)


FAULTS = (
    "semicolons", "tabs", "latin-1", "utf-16", "an open quote", "a stray quote", "a name twice", "a huge cell",
    "no header", "nothing", "no rows", "other names",
)  # fmt: skip


@st.composite
def tables(draw: Any, targets: list[str] | None = None, faults: bool = True, plain: int = 0) -> Table:
    """Tables with the columns smiles, y and others.

    Args:
        targets: what cells of y may hold.
        faults: whether a whole file may be damaged.
        plain: so many rows without any fault come first.
    """
    fault = draw(st.sampled_from(FAULTS)) if faults and draw(st.integers(0, 4)) == 0 else ""
    others = draw(st.lists(st.sampled_from(["note", "näme", "a,b", 'q"t', " smiles", "two\nlines"]), unique=True))
    header = draw(st.permutations(["smiles", "y", *others]))
    newline = draw(st.sampled_from(NEWLINES))
    always = draw(st.booleans())
    lines = [_written(header, ",", always)]
    line = 2 + _breaks(lines[0])
    rows: list[Row] = []
    for number in range(plain + draw(st.integers(1, 9))):
        if number >= plain and draw(st.integers(0, 6)) == 0:
            lines.append("")
            line += 1
        hostile = _rows(header, line, targets or [*NUMBERS, *MISSING, *NO_NUMBERS])
        row = draw(hostile) if number >= plain else _plain_row(header, line, number)
        lines.append(_written(row.cells, ",", always))
        line += 1 + _breaks(lines[-1])
        rows.append(row)
    text = newline.join(lines) + (newline if draw(st.booleans()) else "")
    content = (b"\xef\xbb\xbf" if draw(st.booleans()) else b"") + text.encode()
    if fault:
        content = _spoiled(fault, content, header, rows, newline)
    return Table(content, header, rows, fault)


def _plain_row(header: list[str], line: int, number: int) -> Row:
    smiles, target = GOOD[number % len(GOOD)], NUMBERS[number % len(NUMBERS)]
    cells = [{"smiles": smiles, "y": target}.get(name, "") for name in header]
    return Row(line, cells, smiles, target, ragged=False)


@st.composite
def _rows(draw: Any, header: list[str], line: int, targets: list[str]) -> Row:
    smiles = draw(st.sampled_from(GOOD if draw(st.integers(0, 2)) else BAD))
    target = draw(st.sampled_from(targets))
    values = {"smiles": smiles, "y": target}
    if smiles in GOOD and draw(st.integers(0, 5)) == 0:
        values["smiles"] = f" {smiles} "
    cells = [values[name] if name in values else draw(TEXT) for name in header]
    kind = draw(st.sampled_from(["whole"] * 8 + ["long", "short"]))
    if kind == "long":
        cells = [*cells, *draw(st.lists(TEXT, min_size=1, max_size=3))]
    elif kind == "short":
        cells = cells[: draw(st.integers(1, len(cells) - 1))]
    return Row(line, cells, smiles, target, ragged=len(cells) != len(header))


@st.composite
def mutated(draw: Any) -> bytes:
    """A table with some of its bytes changed."""
    content = draw(tables(faults=False)).content
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(0, len(content)))
        last = min(len(content), first + draw(st.sampled_from([0, 0, 1, 5, 50])))
        marks = st.sampled_from([b'"', b",", b"\n", b"\r", b"\x00", b"\xff", b'""'])
        new = draw(st.one_of(st.binary(max_size=3), marks))
        content = content[:first] + new + content[last:]
    return content


SMILES_MARKS = "CNOSPFclnos[]()=#+-123%@/\\.*:HBrI \t"


@st.composite
def smiles_texts(draw: Any) -> str:
    """SMILES, sound and damaged ones, and any other text."""
    good = st.sampled_from(GOOD)
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.text(st.sampled_from(SMILES_MARKS), max_size=12))
    if kind == 1:  # any code point, half of a pair too
        return draw(st.text(max_size=8))
    text = ".".join(draw(st.lists(good, min_size=1, max_size=3))) if kind == 2 else draw(good)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from([*SMILES_MARKS, ""])) + text[place + draw(st.integers(0, 1)) :]
    return text


def _written(cells: list[str], comma: str, always: bool) -> str:
    """A row of CSV: cells that need quotes have them, or all; a row of one empty cell must not look like none."""
    if cells == [""]:
        return '""'
    special = f'{comma}"\r\n'
    return comma.join(
        '"' + cell.replace('"', '""') + '"' if always or any(mark in cell for mark in special) else cell
        for cell in cells
    )


def _breaks(text: str) -> int:
    """Line ends within a row, of which \\r\\n is one."""
    return text.replace("\r\n", "\n").replace("\r", "\n").count("\n")


def _spoiled(fault: str, content: bytes, header: list[str], rows: list[Row], newline: str) -> bytes:
    """The file with one fault for which it has to be refused."""
    text = content.decode("utf-8-sig")
    if fault in ("semicolons", "tabs"):
        mark = ";" if fault == "semicolons" else "\t"
        plain = [["smiles", "y"], *([row.smiles.strip()[:9], "1"] for row in rows)]
        return newline.join(mark.join(cells) for cells in plain).encode()
    made = {
        "latin-1": lambda: f"{text}{newline}é".encode("latin-1", "replace"),
        "utf-16": lambda: text.encode("utf-16"),
        "an open quote": lambda: f'{text}{newline}"CCO,1.5{newline}CC,1'.encode(),
        "a stray quote": lambda: f'{text}{newline}"CC"O,1.5{newline}'.encode(),
        "a name twice": lambda: f"smiles,y,smiles{newline}CCO,1.5,CC{newline}".encode(),
        "a huge cell": lambda: f"{text}{newline}{'C' * (MOST_CHARACTERS + 1)},1{newline}".encode(),
        "no header": lambda: f"CCO,1.5{newline}CC,2.5{newline}".encode(),
        "nothing": lambda: b"",
        "no rows": lambda: (_written(header, ",", False) + newline).encode(),
        "other names": lambda: f"Smiles,Y{newline}CCO,1.5{newline}".encode(),
    }
    return made[fault]()


def records_of(text: str) -> list[list[str]]:
    """The rows of a CSV file, empty lines left out, read letter by letter."""
    rows: list[list[str]] = []
    cells, cell, place, quoted, begun = [], "", 0, False, False
    while place < len(text):
        mark = text[place]
        if quoted:
            if mark == '"' and text[place + 1 : place + 2] == '"':
                cell, place = cell + '"', place + 1
            elif mark == '"':
                quoted = False
            else:
                cell += mark
        elif mark == '"' and not cell:
            quoted = begun = True
        elif mark == ",":
            cells, cell, begun = [*cells, cell], "", True
        elif mark in "\r\n":
            if cells or cell or begun:
                rows.append([*cells, cell])
            cells, cell, begun = [], "", False
        else:
            cell += mark
        place += 1
    return [*rows, [*cells, cell]] if cells or cell or begun else rows
