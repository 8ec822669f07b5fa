"""The accuracy of `maggnn fit` on practice tables, compared with its parts and with two baselines.

A cell is a set of `practice_sets`, a split (random or scaffold) and its seed: `maggnn fit` with its default settings,
in a process of its own, and on the same training and validation rows

    descriptor-boosting   gradient boosting on descriptors, one model
    fingerprint-forest    a random forest on Morgan fingerprints, one model
    chemprop              only if `--methods chemprop` asks for it: the program of that name, with its default settings

the first two as the parts of the blend are made, but with all rows and with as many trees as a baseline has alone
(`cheap_baselines`). The test split is used once and chooses nothing. Each finished cell is a file, so that an
interrupted call resumes; small and early cells come first. A row of the ledger is the mean over the finished splits
of a set.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.fit.blend import NETWORK, WITH_DESCRIPTORS
from maggnn.apps.fit.card.metrics import number_metrics, two_class_metrics
from maggnn.apps.fit.card.model_card import OWN, PARTS
from maggnn.apps.fit.classical.cheap_baselines import BOOSTING, FOREST, fit_trees, table, tree_answers, tree_task
from maggnn.apps.fit.classical.descriptors import descriptors_of
from maggnn.apps.fit.classical.kernel import KERNEL
from maggnn.apps.fit.own_table import OwnTable, read_own_table
from maggnn.data.files import whole_file
from maggnn.errors import InputError
from maggnn_paper.bench import chemprop
from maggnn_paper.bench.people import run_command
from maggnn_paper.bench.practice_sets import NUMBERS, SETS, TARGET, PracticeSet
from maggnn_paper.bench.rows import mean_row
from maggnn_paper.ledger import LedgerRow, commit_name

FOLDER = Path("runs/chemist")
SPLITS = ("random", "scaffold")
SEEDS = 10
ALONE = {BOOSTING: "descriptor-boosting", FOREST: "fingerprint-forest"}
PARTS_OF_BLEND = {
    PARTS[NETWORK]: "part-networks",
    PARTS[WITH_DESCRIPTORS]: "part-network+descriptors",
    PARTS[BOOSTING]: "part-boosting",
    PARTS[FOREST]: "part-forest",
    PARTS[KERNEL]: "part-kernel",
}
BLEND = "mag-gnn-blend"
LEDGER_METRICS = {"rmse": "rmse", "mae": "mae", "roc_auc": "auroc", "pr_auc": "prauc"}
"""The reported metrics that become rows, and what the ledger calls them; areas are in percent there."""


@dataclass(frozen=True)
class Cell:
    """One split of one set, measured.

    Attributes:
        scores: of each method each metric, in the ledger's units.
        coverage: of the intervals of 90 % on the test split, in percent; None for classes.
        seconds: of `maggnn fit`.
        test_rows: how many molecules were judged.
        versions: of the other programs that were compared with.
    """

    name: str
    split: str
    seed: int
    scores: dict[str, dict[str, float]]
    coverage: float | None
    seconds: float
    test_rows: int
    commit: str
    versions: dict[str, str] = field(default_factory=dict)


def bench(
    limit: int | None = None,
    tell: Callable[[str], None] = print,
    folder: Path = FOLDER,
    sets: Sequence[str] = (),
    methods: Sequence[str] = (),
) -> list[LedgerRow]:
    """Measure cells that are not there yet, and return the rows of all that are.

    Args:
        limit: cells to measure in this call; all if None. With 0 only the rows of finished cells are returned.
        tell: is given one line a cell.
        folder: where the files of cells are.
        sets: names of practice sets; all if none are given.
        methods: other programs to compare with (`chemprop`); cells that were measured without them are measured again.
    """
    if methods:
        chemprop.program()  # complains before anything is measured
    missing = [cell for cell in cells(sets) if not _complete(_read(_path(folder, *cell)), methods)]
    for one, split, seed in missing[:limit]:
        cell = measure(one, split, seed, methods)
        with whole_file(_path(folder, one, split, seed)) as waiting:
            waiting.write_text(json.dumps(asdict(cell), indent=1) + "\n", encoding="utf-8")
        tell(_line(cell))
    return rows([read for cell in cells(sets) if (read := _read(_path(folder, *cell))) is not None])


def cells(sets: Sequence[str] = ()) -> Iterator[tuple[PracticeSet, str, int]]:
    """All cells, by their size times the number of the split, so that every set has a few before any has all."""
    chosen = [SETS[name] for name in sets] if sets else list(SETS.values())
    found = [(one, split, seed) for one in chosen for split in SPLITS for seed in range(SEEDS)]
    return iter(sorted(found, key=lambda cell: cell[0].rows * (cell[2] + 1)))


def _path(folder: Path, one: PracticeSet, split: str, seed: int) -> Path:
    return folder / f"{one.name}-{split}-{seed}.json"


def _read(path: Path) -> Cell | None:
    try:
        return Cell(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def _complete(cell: Cell | None, methods: Sequence[str]) -> bool:
    return cell is not None and set(methods) <= cell.scores.keys()


def measure(one: PracticeSet, split: str, seed: int, methods: Sequence[str] = (), extra: Sequence[str] = ()) -> Cell:
    """Run one cell.

    Args:
        methods: other programs to compare with.
        extra: further options of `maggnn fit`, for a test that has to be short.
    """
    with tempfile.TemporaryDirectory() as name:
        path = one.write(Path(name) / "table.csv")
        options = ["--smiles", "smiles", "--target", TARGET, "--task", one.task, "--split", split, "--seed", str(seed)]
        run = run_command(["fit", str(path), *options, "-o", str(Path(name) / "model"), "--json", *extra])
        said = run.answer
        judged = said["metrics"][TARGET]["methods"]
        names = {OWN: BLEND, **PARTS_OF_BLEND}
        values = {method: {key: entry["value"] for key, entry in own.items()} for method, own in judged.items()}
        scores = {names[method]: _ledger_metrics(own) for method, own in values.items()}
        own_table = read_own_table(path, "smiles", [TARGET], one.task, split, seed, workers=1)
        scores |= _baselines(own_table, seed)
        scores |= {method: _others(own_table, seed) for method in methods}
    coverage = None if said["coverage"] is None else 100 * said["coverage"]["share"]
    versions = {method: chemprop.version() for method in methods}
    return Cell(one.name, split, seed, scores, coverage, run.seconds, said["test"], commit_name(), versions)


def _ledger_metrics(values: dict[str, Any]) -> dict[str, float]:
    share = ("roc_auc", "pr_auc")
    return {
        word: (100 if key in share else 1) * values[key]
        for key, word in LEDGER_METRICS.items()
        if values.get(key) is not None
    }


def _baselines(own: OwnTable, seed: int) -> dict[str, dict[str, float]]:
    """Both baselines alone, which learn from the training and validation rows."""
    parts = own.dataset.split(0, 0)
    learned = np.sort(np.concatenate([parts.train.numpy(), parts.val.numpy()]))
    test, classify = parts.test.numpy(), own.dataset.task != NUMBERS
    molecules = descriptors_of(own.table.canonical)
    found = {}
    for kind, name in ALONE.items():
        trees = fit_trees(tree_task(kind, molecules, own.dataset, learned, seed, folds=1))
        answers = tree_answers(kind, trees, table(kind, molecules.select(test)), 1, own.dataset.task)[0]
        found[name] = _scores(own, answers[:, 1] if classify else answers[:, 0])
    return found


def _others(own: OwnTable, seed: int) -> dict[str, float]:
    return _scores(own, chemprop.predict_test_rows(own, seed))


def _scores(own: OwnTable, answers: np.ndarray) -> dict[str, float]:
    """Judge values, or probabilities of the second class, of the test rows [T]."""
    y = own.dataset.y.numpy()[own.dataset.split(0, 0).test.numpy()]
    if own.dataset.task == NUMBERS:
        return _ledger_metrics(number_metrics(y[:, 0], answers))
    return _ledger_metrics(two_class_metrics(y, answers))


def _line(cell: Cell) -> str:
    key = next(iter(cell.scores[BLEND]))
    scores = "  ".join(f"{method} {values[key]:.4g}" for method, values in cell.scores.items())
    covered = "" if cell.coverage is None else f"  coverage {cell.coverage:.1f} %"
    return f"{cell.name} {cell.split} {cell.seed}: {key} {scores}{covered}  {cell.seconds:.0f} s"


def rows(found: Sequence[Cell]) -> list[LedgerRow]:
    """Means over the splits of each set, one row for each method and metric."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in found:
        groups.setdefault((cell.name, cell.split), []).append(cell)
    result = []
    for (name, split), own in groups.items():
        for method, metrics in own[0].scores.items():
            for metric in metrics:
                values = [cell.scores[method][metric] for cell in own]
                result.append(
                    mean_row("chemist", f"{name}-{split}", method, metric, values, _note(own, method, metric))
                )
        if own[0].coverage is not None:
            covered = [cell.coverage for cell in own if cell.coverage is not None]
            result.append(mean_row("chemist", f"{name}-{split}", BLEND, "coverage", covered, _note(own)))
        seconds = f"time on the clock of `maggnn fit`, whatever else the machine did meanwhile; {_note(own)}"
        result.append(
            mean_row("chemist", f"{name}-{split}", BLEND, "ms", [1000 * cell.seconds for cell in own], seconds)
        )
    return result


def _note(own: Sequence[Cell], method: str = BLEND, metric: str = "") -> str:
    """Which splits, and against how many the blend is at least level with this method."""
    seeds = ", ".join(str(cell.seed) for cell in sorted(own, key=lambda cell: cell.seed))
    note = f"splits {seeds}; {own[0].test_rows} test rows"
    commits = sorted({cell.commit for cell in own})
    note += f"; measured at {', '.join(commits)}"
    versions = sorted({cell.versions[method] for cell in own if method in cell.versions})
    if versions:
        note += f"; {method} {', '.join(versions)}"
    if method == BLEND or not metric:
        return note
    sign = 1 if metric in ("rmse", "mae") else -1
    level = sum(sign * cell.scores[BLEND][metric] <= sign * cell.scores[method][metric] for cell in own)
    return f"{note}; the blend is at least level in {level} of {len(own)} splits"


def check_sets(names: Sequence[str]) -> None:
    """Complain about a name that no practice set has."""
    for name in names:
        if name not in SETS:
            raise InputError(f"no practice set {name!r}: there are {', '.join(SETS)}")
