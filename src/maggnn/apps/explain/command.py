"""`maggnn explain`: explains a model's prediction for a molecule, and where its marks moved, as a page or a picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from maggnn.apps.explain.explanation import Explanation, expected_gains, explain_subject
from maggnn.apps.explain.graph import read_subject
from maggnn.apps.explain.page import page
from maggnn.apps.explain.picture import write_png, write_svg
from maggnn.apps.explain.property import PropertyExplainer, PropertyExplanation
from maggnn.apps.explain.property_page import molecules_page, property_part
from maggnn.apps.explain.trace import Step
from maggnn.apps.fit.fitted import FittedModel, is_fitted
from maggnn.apps.fit.row_files import READABLE, open_source
from maggnn.apps.terminal import tell
from maggnn.data.files import whole_file
from maggnn.data.molecules.fragments import chosen_fragments
from maggnn.data.molecules.rows import ending
from maggnn.errors import InputError

PAGE = ".html"
PICTURES: dict[str, Callable[[Explanation, Path], None]] = {".svg": write_svg, ".png": write_png}
"""The functions that write pictures, by suffix."""

HEADER = ["moves", "marks", "answer", "expected gain", "random moves", "answer"]
MOST_MOLECULES = 100
"""The largest number of molecules on one page."""

SHOWN_ATOMS = 5


@dataclass(frozen=True)
class Explained:
    """The explanations of some graphs.

    Attributes:
        searches: the agent's search on each graph.
        properties: for a fitted model, the explanation of each molecule's prediction; empty for other models.
        left_out: rows of a table that could not be explained, with the reason.
    """

    searches: list[Explanation]
    properties: list[PropertyExplanation]
    left_out: list[tuple[str, str]]


def explain(
    model: Path,
    graph: str,
    outs: Sequence[Path],
    num_moves: int | None = None,
    seed: int = 0,
    target: Sequence[str] = (),
) -> tuple[Explanation, dict[str, Any]]:
    """Explain one graph and write the files `outs`. Returns its search, and all results as plain values."""
    found, facts = explain_all(model, [graph], outs, num_moves, seed, target)
    return found.searches[0], facts


def explain_all(
    model: Path,
    graphs: Sequence[str],
    outs: Sequence[Path],
    num_moves: int | None = None,
    seed: int = 0,
    target: Sequence[str] = (),
    smiles_column: str | None = None,
) -> tuple[Explained, dict[str, Any]]:
    """Explain graphs and write the files `outs`. Returns the explanations, also as plain values.

    Args:
        model: A folder of `maggnn fit` or of `maggnn train`.
        graphs: For a model fitted to SMILES, several SMILES or one table of them; for others, one graph.
        outs: A page or pictures; several molecules need a page.
        num_moves: t; by default the model's own.
        target: The true targets of a single graph.
        smiles_column: The column of SMILES of a table; by default the model's own.
    """
    endings = (PAGE, *PICTURES)
    for path in outs:
        if path.suffix not in endings:
            raise InputError(f"{path}: the suffix of the name determines the format; it may be {', '.join(endings)}")
    fitted = _fitted(model)
    single = len(graphs) == 1 and (fitted is None or not _is_table(graphs[0]))
    if not single:
        _check_several(model, fitted, outs, target)
    found = _explained(model, fitted, graphs, num_moves, seed, target, smiles_column)
    for path in outs:
        with whole_file(path) as waiting:
            if path.suffix == PAGE:
                waiting.write_text(_page(model, found, single), encoding="utf-8")
            else:
                PICTURES[path.suffix](found.searches[0], waiting)
    return found, _facts(model, outs, found, single)


def _fitted(model: Path) -> FittedModel | None:
    """Return the model of a folder if it was fitted to SMILES; None for all others."""
    if not model.is_dir() or not is_fitted(model):
        return None
    fitted = FittedModel.load(model)
    return fitted if fitted.facts.source == "smiles" else None


def _is_table(graph: str) -> bool:
    return ending(Path(graph)) in READABLE


def _check_several(model: Path, fitted: FittedModel | None, outs: Sequence[Path], target: Sequence[str]) -> None:
    if fitted is None:
        raise InputError(f"{model}: several molecules are for a model that was fitted to SMILES; give one graph")
    if target:
        raise InputError("--target is the true target of one molecule: leave it out for several")
    for path in outs:
        if path.suffix != PAGE:
            raise InputError(f"{path}: several molecules go to a page: give a name that ends in {PAGE}")


def _explained(
    model: Path,
    fitted: FittedModel | None,
    graphs: Sequence[str],
    num_moves: int | None,
    seed: int,
    target: Sequence[str],
    column: str | None,
) -> Explained:
    listed, left_out = [(graph, False) for graph in graphs], []
    if fitted is not None:
        listed, left_out = _molecules(graphs, fitted, column)
        if fitted.facts.blend.folds > 1:
            tell(f"{model} is a blend of several models; the search is that of its first network")
    explainer = None if fitted is None else PropertyExplainer.of(model, fitted)
    searches, properties = [], []
    for graph, from_table in listed:
        try:
            search = explain_subject(read_subject(model, graph, target, fitted), num_moves, seed)
            explained = [] if explainer is None else [explainer.explain(graph, seed)]
        except InputError as error:
            if not from_table:
                raise
            left_out.append((graph, str(error)))
            continue
        searches.append(search)
        properties += explained
    if not searches:
        raise InputError(f"{graphs[0]}: no molecule can be explained ({left_out[0][1] if left_out else 'no rows'})")
    return Explained(searches, properties, left_out)


def _molecules(
    graphs: Sequence[str], fitted: FittedModel, column: str | None
) -> tuple[list[tuple[str, bool]], list[tuple[str, str]]]:
    """Return SMILES as the model reads them, with whether they are from a table, and the rows without SMILES."""
    listed: list[tuple[str, bool]] = []
    left_out: list[tuple[str, str]] = []
    for graph in graphs:
        if not _is_table(graph):
            listed.append((graph, False))
            continue
        for chunk in open_source(Path(graph), column or fitted.facts.column_of_smiles).chunks(MOST_MOLECULES + 1):
            for smiles, reason in zip(chunk.smiles, chunk.reasons, strict=True):
                if reason:
                    left_out.append((smiles, reason))
                else:
                    listed.append((smiles, True))
            if len(listed) > MOST_MOLECULES:
                break
    if len(listed) > MOST_MOLECULES:
        raise InputError(f"more than {MOST_MOLECULES} molecules: a page shows up to {MOST_MOLECULES}; give fewer rows")
    read = chosen_fragments([smiles for smiles, _ in listed], fitted.facts.salts)  # atom numbers refer to these
    return [(smiles, from_table) for smiles, (_, from_table) in zip(read, listed, strict=True)], left_out


def _page(model: Path, found: Explained, single: bool) -> str:
    if not single:
        pairs = list(zip(found.properties, found.searches, strict=True))
        return molecules_page(f"{len(pairs)} molecules by {model.name}", pairs, found.left_out)
    return page(found.searches[0], "".join(map(property_part, found.properties)))


def _facts(model: Path, outs: Sequence[Path], found: Explained, single: bool) -> dict[str, Any]:
    files = {"model": str(model), "out": [str(path) for path in outs]}
    explained = [asdict(one) for one in found.properties]
    if single:
        return {**files, **found.searches[0].to_json(), **({"property": explained[0]} if explained else {})}
    return {**files, "molecules": explained, "left_out": [list(pair) for pair in found.left_out]}


def table_rows(explanation: Explanation) -> list[list[str]]:
    """Return a row for each step, for `HEADER`: the agent's marks, answer and expected gain, next to random moves."""
    agent, random = explanation.agent.steps, explanation.random[0].steps
    rows = []
    for number, (step, other) in enumerate(zip(agent, random, strict=True)):
        gains = expected_gains(agent[number - 1], step) if number else []
        own = [str(number), _marks(explanation, step), _answer(explanation, step), " ".join(f"{g:+.3g}" for g in gains)]
        rows.append([*own, _marks(explanation, other), _answer(explanation, other)])
    return rows


def property_rows(properties: Sequence[PropertyExplanation]) -> list[list[str]]:
    """Return a row for each molecule: SMILES, answer, largest contributions, and most similar training molecule."""
    rows = []
    for one in properties:
        values = one.contributions[0].values
        atoms = " ".join(f"{one.atoms[atom]}{atom} {values[atom]:+.2g}" for atom in one.ranked()[:SHOWN_ATOMS])
        near = f"{one.similar[0].similarity:.2f} {one.similar[0].smiles}" if one.similar else ""
        rows.append([one.smiles, one.answers[0], atoms, near])
    return rows


PROPERTY_HEADER = ["molecule", "answer", "atoms that contribute most", "nearest in training"]


def _marks(explanation: Explanation, step: Step) -> str:
    """Format marks as (C3 N7) (O1 C2), with brackets around each tuple."""
    return " ".join(f"({' '.join(map(explanation.graph.node_name, row))})" for row in step.tuples)


def _answer(explanation: Explanation, step: Step) -> str:
    score = "" if step.score is None else f", score {step.score:.3g}"
    return ", ".join(explanation.answer_text(step)) + score
