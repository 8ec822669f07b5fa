"""Rows without end through `maggnn predict`, one in a hundred damaged: each is accounted for, and memory stays flat."""

import csv
import itertools
import json
import lzma
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from maggnn import MagRegressor
from maggnn.apps.fit import predicting

DAMAGED_EVERY = 100
DAMAGES = {
    "empty": lambda smiles: ["", "1"],
    "blanks": lambda smiles: ["   ", "1"],
    "open branch": lambda smiles: [f"{smiles}(", "1"],
    "open ring": lambda smiles: [f"{smiles}C%99", "1"],
    "valence": lambda smiles: [f"{smiles}.C(C)(C)(C)(C)C", "1"],
    "no Kekulé form": lambda smiles: [f"c1cccc1.{smiles}", "1"],
    "two molecules": lambda smiles: [f"{smiles} CCO", "1"],
    "Cyrillic": lambda smiles: [f"{smiles}\u041e", "1"],
    "a NUL": lambda smiles: [f"\x00{smiles}", "1"],
    "too large": lambda smiles: ["C" * 1001, "1"],
    "short row": lambda smiles: [smiles],
    "long row": lambda smiles: [smiles, "1", "2"],
}
"""What becomes of the cells of a row; none of these has an answer."""

SOAKED = int(os.environ.get("MAGGNN_SOAK_ROWS", "1000000"))
"""Rows of the slow test."""

SLACK_MB = 60
"""What memory may grow by after the first tenth of the rows."""


@pytest.fixture(scope="module")
def smiles(data_root: Path) -> list[str]:
    """Molecules of the data sets that are there."""
    found = sorted(data_root.glob("*_smiles.txt.xz"))
    if not found:
        pytest.skip(f"no lists of SMILES in {data_root}")
    return [line for path in found for line in lzma.open(path, "rt", encoding="utf-8").read().split()]


def cells(number: int, smiles: list[str]) -> list[str]:
    """Row `number` of the table."""
    own = smiles[number % len(smiles)]
    if number % DAMAGED_EVERY:
        return [own, f"row {number}"]
    kind = list(DAMAGES)[number // DAMAGED_EVERY % len(DAMAGES)]
    return [cell if cell != "1" else f"row {number}" for cell in DAMAGES[kind](own)]


def write_table(path: Path, rows: int, smiles: list[str]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("smiles", "name"))
        writer.writerows(cells(number, smiles) for number in range(rows))


def resident_mb(root: int) -> float:
    """Memory of a process and of all that it started."""
    total, waiting = 0, [root]
    while waiting:
        process = Path("/proc") / str(waiting.pop())
        try:
            status = (process / "status").read_text()
            below = [task / "children" for task in (process / "task").iterdir()]
            waiting += [int(child) for children in below for child in children.read_text().split()]
        except OSError:  # it has ended meanwhile
            continue
        lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        total += int(lines.get("VmRSS", "0 kB").split()[0])
    return total / 1024


class Memory(threading.Thread):
    """The most memory that a process takes, until its first rows are answered and until its end."""

    def __init__(self, process: int, parts: Path, early: int) -> None:
        super().__init__(daemon=True)
        self.process, self.first_rows = process, parts / f"part-{early // predicting.ROWS:06d}"
        self.early, self.most, self.ended = 0.0, 0.0, threading.Event()

    def run(self) -> None:
        early = True
        while not self.ended.wait(0.5):
            early = early and not self.first_rows.exists()
            self.most = max(self.most, resident_mb(self.process))
            self.early = self.most if early else self.early


def answered(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def check_rows(path: Path, rows: int, smiles: list[str]) -> int:
    """All rows, once, in order, with an answer or a reason; how many have none."""
    without = 0
    for number, row in itertools.zip_longest(range(rows), answered(path)):
        expected = [*cells(number, smiles), ""][:2]
        assert [row["smiles"], row["name"]] == expected, number
        damaged = number % DAMAGED_EVERY == 0
        assert bool(row["predicted_y"]) != damaged, row
        assert row["reason"] or not damaged, row
        without += damaged
    return without


@pytest.mark.dataset
@pytest.mark.parametrize("rows", [5_000, pytest.param(SOAKED, marks=[pytest.mark.slow, pytest.mark.timeout(4 * 3600)])])
def test_every_row_is_accounted_for(smiles, start_command, tmp_path, rows):
    MagRegressor(steps=2).fit(smiles[:40], [float(len(each)) for each in smiles[:40]]).fitted_.save(tmp_path / "model")
    write_table(tmp_path / "long.csv", rows, smiles)
    command = ("predict", "model", "long.csv", "--smiles", "smiles", "-o", "out.csv", "--json")
    process = start_command("maggnn", *command, cwd=tmp_path)
    memory = Memory(process.pid, tmp_path / "out.csv.parts", rows // 10)
    memory.start()
    out, err = process.communicate()
    memory.ended.set()
    memory.join()
    assert process.returncode == 0, err
    said = json.loads(out)
    assert (said["rows"], said["without"]) == (rows, check_rows(tmp_path / "out.csv", rows, smiles))
    print(
        f"{rows} rows in {said['seconds']:.0f} s; MB at {rows // 10} rows {memory.early:.0f}, at most {memory.most:.0f}"
    )
    assert rows <= 5_000 or memory.most < memory.early + SLACK_MB
