"""Whether rewriting, renumbering, kills or damage change a prediction: rows of the table `right_answers`.

    spellings   1,000 molecules, half of MOLHIV and half of ZINC-FULL, each written in ten other ways (random SMILES):
                the largest difference between answers for one molecule, relative to the largest answer, from
                `maggnn predict`, the estimators and an exported program
    blend       the same of a blend of five folds
    numberings  graphs of NetworkX and PyG whose nodes are numbered in ten other ways, likewise
    ordering    what the canonical order of nodes, which makes these differences small, costs of the time of `maggnn
                predict`, in percent, for one network and for a blend
    kills       fit, train, tune, predict and export, killed twenty times each at random moments and started again
    damage      model folders that were damaged on purpose: how many end with a traceback or take a gigabyte
    soak        rows through `maggnn predict`, one in a hundred damaged: how many are not accounted for

The last three are what the slow tests of this repository do and print; they run in its root.
"""

from __future__ import annotations

import csv
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.fit.estimator import MagRegressor
from maggnn.apps.fit.featurised_chunks import featurised_chunk
from maggnn.apps.fit.fitted import UnseenWarning
from maggnn.apps.fit.predicting import ROWS, answers_for, read_by
from maggnn.apps.fit.row_files import Chunk
from maggnn.data.molecules.smiles import Molecule, featurise_rows
from maggnn.data.ordered import in_order
from maggnn.data.packing import pack
from maggnn.errors import InputError
from maggnn.inference.export.program import load_exported
from maggnn_paper.bench.people import run_command, smiles_of
from maggnn_paper.ledger import LedgerRow

MOLECULES, SPELLINGS = 1_000, 10
LISTS = ("molhiv_smiles.txt.xz", "zinc_full_smiles.txt.xz")
ROWS_TO_FIT, STEPS, FOLDS = 300, 60, 5
GRAPHS = 200
REPEATS = 3
SOAKED = 1_000_000
KILLED = ("fit", "train", "tune", "predict", "export")
TESTS = {
    "kills": "tests/cli/test_killed.py",
    "damage": "tests/unit/apps/fit/test_damaged_folders.py::test_many_damaged_folders",
    "soak": "tests/fuzz/test_soak.py",
}
SIZED = ("spellings", "blend", "numberings", "ordering", "soak")
"""Parts whose size can be chosen."""

PARTS = ("spellings", "blend", "numberings", "ordering", *TESTS)


def bench(part: str, limit: int | None = None, tell: Callable[[str], None] = print) -> list[LedgerRow]:
    """The rows of one of `PARTS`.

    Args:
        limit: molecules, graphs or rows, if not as many as above.
        tell: is given one line a row.
    """
    measured = {
        "spellings": lambda: _spellings(limit or MOLECULES, 1, ""),
        "blend": lambda: _spellings(limit or MOLECULES, FOLDS, "-blend"),
        "numberings": lambda: _numberings(limit or GRAPHS),
        "ordering": lambda: _ordering(limit or ROWS),
        "kills": _kills,
        "damage": _damage,
        "soak": lambda: _soak(limit or SOAKED),
    }
    rows = []
    for row in measured[part]():
        tell(f"{row.dataset:28} {row.metric:10} {row.mean:10.3g}  {row.note}")
        rows.append(row)
    return rows


# ---- one molecule, one answer -----------------------------------------------------------------------------


def _spellings(count: int, folds: int, ending: str) -> Iterator[LedgerRow]:
    asked, stereo = spelled(molecules(count))
    note = f"{count} molecules, {stereo} of them with stereochemistry, {SPELLINGS} random SMILES each"
    train = list(islice(smiles_of(LISTS[1]), ROWS_TO_FIT))
    flat = [smiles for spellings in asked for smiles in spellings]
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore", UnseenWarning)
        folder = Path(name)
        model = MagRegressor(steps=STEPS, ensemble=folds).fit(train, _heavy_atoms_and_stereo(train))
        model.fitted_.save(folder / "model")
        for how, answers in _answers(model, folder, flat, exported=folds == 1):
            yield _row(f"spellings-{how}{ending}", apart(answers.reshape(len(asked), -1)), note)


def molecules(count: int) -> list[str]:
    """Molecules from both lists, drawn by a fixed seed; RDKit reads all of them."""
    from rdkit import Chem
    from rdkit.rdBase import BlockLogs

    chosen: list[str] = []
    with BlockLogs():
        for name in LISTS:
            drawn = random.Random(0).sample(list(smiles_of(name)), count)
            chosen += islice((smiles for smiles in drawn if Chem.MolFromSmiles(smiles) is not None), count // 2)
    return chosen


def spelled(smiles: Sequence[str]) -> tuple[list[list[str]], int]:
    """Each molecule in other spellings, the given one first, and how many molecules have stereochemistry.

    A spelling that RDKit itself reads as another molecule is replaced by the given one.
    """
    from rdkit import Chem

    table, stereo = [], 0
    for seed, own in enumerate(smiles):
        mol = Chem.MolFromSmiles(own)
        canonical = Chem.MolToSmiles(mol)
        stereo += any(sign in canonical for sign in "@/\\")
        written = Chem.MolToRandomSmilesVect(mol, SPELLINGS, randomSeed=seed + 1)
        table.append([own, *(text if Chem.CanonSmiles(text) == canonical else own for text in written)])
    return table, stereo


def _heavy_atoms_and_stereo(smiles: Sequence[str]) -> np.ndarray:
    """A target that needs more than a count: heavy atoms, with stereocentres by their kind."""
    from rdkit import Chem

    atoms = [Chem.MolFromSmiles(text).GetNumAtoms() for text in smiles]
    return np.array(atoms, dtype=float) + np.array([text.count("@@") - text.count("O") / 2 for text in smiles])


def _answers(
    model: MagRegressor, folder: Path, asked: Sequence[str], exported: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """What each way of asking says of all spellings."""
    yield "estimator", model.predict(asked)
    table, out = folder / "asked.csv", folder / "out.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["smiles"], *([smiles] for smiles in asked)])
    run_command(["predict", str(folder / "model"), str(table), "--smiles", "smiles", "-o", str(out)])
    with out.open(newline="", encoding="utf-8") as file:
        yield "predict", np.array([float(row["predicted_y"]) for row in csv.DictReader(file)])
    if exported:
        run_command(["export", str(folder / "model"), "-o", str(folder / "model.pt2")])
        yield "exported", load_exported(folder / "model.pt2", trust=True).predict(asked).numpy()


def apart(answers: np.ndarray) -> float:
    """The largest difference within a row, relative to the largest answer of all: [things, ways] in."""
    if float(np.ptp(answers[:, 0])) == 0.0:
        raise InputError("the model says the same of everything, so nothing can be compared")
    return float(np.ptp(answers, axis=1).max() / np.abs(answers).max())


# ---- one graph, one answer --------------------------------------------------------------------------------


def _numberings(count: int) -> Iterator[LedgerRow]:
    from torch_geometric.utils import from_networkx

    graphs = many_graphs(count)
    rng = random.Random(0)
    ways = [graphs, *([renumbered(graph, rng) for graph in graphs] for _ in range(SPELLINGS))]
    note = f"{count} graphs: trees, random, circulant and regular ones; {SPELLINGS} numberings each"
    as_given: dict[str, Callable[[Any], Any]] = {"networkx": lambda graph: graph, "pyg": from_networkx}
    for kind, given in as_given.items():
        asked = [given(graph) for way in ways for graph in way]
        model = MagRegressor(steps=STEPS).fit(asked[:count], np.linspace(0, 1, count))
        yield _row(f"numberings-{kind}", apart(model.predict(asked).reshape(len(ways), count).T), note)
        with tempfile.TemporaryDirectory() as name:
            model.fitted_.save(Path(name) / "model")
            run_command(["export", str(Path(name) / "model"), "-o", str(Path(name) / "model.pt2")])
            said = load_exported(Path(name) / "model.pt2", trust=True).predict(asked).numpy()
        yield _row(f"numberings-{kind}-exported", apart(said.reshape(len(ways), count).T), note)


def many_graphs(count: int) -> list[Any]:
    """Graphs of several kinds, from equal seeds equal ones."""
    import networkx as nx

    makers: list[Callable[[int], Any]] = [
        lambda seed: nx.random_labeled_tree(8 + seed % 20, seed=seed),
        lambda seed: nx.gnp_random_graph(8 + seed % 15, 0.3, seed=seed),
        lambda seed: nx.circulant_graph(7 + seed % 20, [1, 2 + seed % 3]),
        lambda seed: nx.random_regular_graph(3, 2 * (3 + seed % 8), seed=seed),
    ]
    return [makers[seed % len(makers)](seed) for seed in range(count)]


def renumbered(graph: Any, rng: random.Random) -> Any:
    """The same graph with its nodes and edges in another order."""
    import networkx as nx

    numbers = list(range(len(graph)))
    rng.shuffle(numbers)
    edges = [(numbers[u], numbers[v]) for u, v in graph.edges]
    rng.shuffle(edges)
    made = nx.Graph()
    made.add_nodes_from(range(len(graph)))
    made.add_edges_from(edges)
    return made


# ---- what it costs ----------------------------------------------------------------------------------------


def _ordering(count: int) -> Iterator[LedgerRow]:
    """Seconds of the processor, the least of some tries, for everything that `maggnn predict` does with a chunk."""
    smiles = list(islice(smiles_of(LISTS[1]), ROWS_TO_FIT + count))
    train, asked = smiles[:ROWS_TO_FIT], smiles[ROWS_TO_FIT:]
    chunk = Chunk([asked], asked, [""] * len(asked))
    for folds, ending in ((1, ""), (FOLDS, "-blend")):
        fitted = MagRegressor(steps=STEPS, ensemble=folds).fit(train, _heavy_atoms_and_stereo(train)).fitted_
        if len(fitted.networks) != folds or not fitted.facts.blend.uses_networks:
            raise InputError("the blend leaves its networks out, so there is nothing to compare their order with")
        wanted = read_by(fitted)[1:]
        seconds: dict[str, list[float]] = {"all": [], "order": []}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnseenWarning)
            for _ in range(REPEATS):
                began = time.process_time()
                molecules = featurised_chunk(asked, fitted.facts.features, *wanted)
                answers_for(fitted, chunk, molecules, seed=0).cells()
                seconds["all"].append(time.process_time() - began)
                found = featurise_rows(asked, fitted.facts.features)
                packed = pack(one for one in found if isinstance(one, Molecule))
                began = time.process_time()
                in_order(packed)
                seconds["order"].append(time.process_time() - began)
        whole, order = min(seconds["all"]), min(seconds["order"])
        note = f"{1e6 * order / count:.0f} of {1e6 * whole / count:.0f} microseconds of processor time for a molecule"
        yield _row(f"ordering{ending}", 100 * order / whole, note, "percent")


# ---- slow tests -------------------------------------------------------------------------------------------


def _kills() -> Iterator[LedgerRow]:
    said = _slow_tests("kills")
    for command in KILLED:
        kills, ended = _numbers(rf"{command}: (\d+) kills, (\d+) equal", said)
        note = f"random kills; the {ended} runs that then ended gave the result of an uninterrupted run"
        yield _row(f"kills-{command}", kills, note, "kills")


def _damage() -> Iterator[LedgerRow]:
    folders, refused = _numbers(r"(\d+) damaged folders, (\d+) refused", _slow_tests("damage"))
    note = (
        f"of {folders} folders: {refused} were refused in one line, the others made predictions; none took a gigabyte"
    )
    yield _row("damaged-folders", 0, note, "tracebacks")


def _soak(count: int) -> Iterator[LedgerRow]:
    pattern = r"(\d+) rows in (\d+) s; MB at \d+ rows (\d+), at most (\d+)"
    rows, seconds, early, most = _numbers(pattern, _slow_tests("soak", MAGGNN_SOAK_ROWS=str(count)))
    note = f"of {rows} rows in {seconds} s, one in a hundred damaged in twelve ways; {early} MB after the first tenth"
    yield _row(f"soak{rows}", 0, note, "lost", peak=float(most))


def _slow_tests(part: str, **environment: str) -> str:
    """What the slow tests of a part print, which have to pass."""
    if not Path(TESTS[part].split("::")[0]).is_file():
        raise InputError(f"{TESTS[part]}: no such file; bench {part} runs in the root of the repository")
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-n", "0", "-m", "slow", TESTS[part]]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if ended.returncode:
        lines = ended.stdout.strip().splitlines() or [""]
        reason = next((line[2:].strip() for line in lines if line.startswith("E ")), lines[-1])
        raise InputError(f"{TESTS[part]}: the slow tests fail: {reason}")
    return ended.stdout


def _numbers(pattern: str, text: str) -> tuple[int, ...]:
    found = re.search(pattern, text)
    if found is None:
        raise InputError(f"the slow tests did not print what was expected ({pattern})")
    return tuple(map(int, found.groups()))


def _row(dataset: str, value: float, note: str, metric: str = "difference", peak: float | None = None) -> LedgerRow:
    return LedgerRow(
        table="right_answers",
        dataset=dataset,
        method="mag-gnn",
        metric=metric,
        mean=float(value),
        peak_mb=peak,
        config="defaults",
        note=note,
    )
