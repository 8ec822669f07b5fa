"""`maggnn distinguish`: which order of marks distinguishes graphs, by colour refinement, before any training.

Two graphs get a verdict with an informative tuple and a picture; two files of equally many graphs, and data sets of
pairs such as BREC, are compared pair by pair; any other set of graphs is split into the classes that k marks
distinguish, with a suggestion of m, k, t. With an agent, pairs are compared by a proof that needs few tuples
(`maggnn.theory.proof`), for graphs with too many tuples to try them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from maggnn.apps.draw.layouts import layout_of
from maggnn.apps.draw.pair import MarkedGraph, draw_pair
from maggnn.apps.terminal import tell
from maggnn.data.dataset import Dataset
from maggnn.data.files import check_writable, whole_file
from maggnn.data.graph_files import read_graphs
from maggnn.data.registry import load
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.theory.planner import Plan, partitions, plan, too_many_tuples
from maggnn.theory.proof import Proof, Proposer, prove
from maggnn.theory.proposals import proposer
from maggnn.theory.refinement import Comparison, nearest_tuple, separating_order
from maggnn.training.progress import Progress

SHOWN = 20
"""The largest number of pairs, or of classes of graphs, that are printed."""

ALL = "all"
"""The name of the table's row for all categories together."""

PICTURE = ".png"
"""The suffix of a picture's file."""

VERDICTS = ("differ", "isomorphic", "undecided")
"""The possible verdicts of a proof, in the order of the table."""

Pair = tuple[PackedGraphs, PackedGraphs]
"""Two sets of one graph each."""


@dataclass(frozen=True)
class Report:
    """The result: `facts` for `--json`; for the terminal lines and, if it has rows, a table above them."""

    facts: dict[str, Any]
    lines: list[str]
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def distinguish(source: str, other: str | None, order: int, picture: Path | None, agent: str | None = None) -> Report:
    """Compare the graphs of a file or data set (and those of another) through tuples of up to `order` marks.

    Args:
        picture: where to draw two graphs with the marks that distinguish them.
        agent: proposes the tuples of a proof, as in `maggnn.theory.proposals.proposer`; None tries all tuples.
    """
    if agent is not None and picture is not None:
        raise InputError("a picture shows a comparison of all tuples: leave out --out or --agent")
    if picture is not None:
        if picture.suffix != PICTURE:
            raise InputError(f"{picture}: the picture is a {PICTURE} file")
        check_writable(picture)
    propose = None if agent is None else proposer(agent)
    dataset = None if Path(source).suffix else load(source)
    graphs = read_graphs(source) if dataset is None else dataset.graphs
    categories = _categories(dataset) if dataset is not None and other is None else []
    pairs = _pairs(graphs, None if other is None else read_graphs(other), source, in_pairs=bool(categories))
    if picture is not None and len(pairs) != 1:
        raise InputError("a picture shows two graphs: give two files with a graph each, or one with two")
    if propose is not None:
        return _prove_pairs(pairs, order, propose)
    if advice := too_many_tuples(graphs, order):
        tell(advice)
    if len(pairs) == 1:
        return _distinguish_two(pairs[0], order, picture, source)
    if pairs:
        return _distinguish_pairs(pairs, order, categories)
    return _distinguish_set(graphs, order)


def _pairs(graphs: PackedGraphs, others: PackedGraphs | None, source: str, in_pairs: bool) -> list[Pair]:
    """Return the pairs that are to be compared; none for a set of graphs by itself."""
    if others is not None:
        if len(graphs) != len(others):
            raise InputError(f"{len(graphs)} and {len(others)} graphs: two files are compared line by line")
        _check_features(graphs, others)
        return list(zip(_single(graphs), _single(others), strict=True))
    if len(graphs) == 1:
        raise InputError(f"{source} has one graph: there is nothing to compare it with")
    if len(graphs) > 2 and not in_pairs:
        return []
    singles = _single(graphs)
    return list(zip(singles[::2], singles[1::2], strict=True))


def _single(graphs: PackedGraphs) -> list[PackedGraphs]:
    return [graphs.select(torch.tensor([index])) for index in range(len(graphs))]


def _check_features(graphs: PackedGraphs, others: PackedGraphs) -> None:
    """Check that both have the same feature columns; others would distinguish the graphs trivially."""
    for name in ("x", "edge_attr"):
        values = getattr(graphs, name), getattr(others, name)
        first, second = (0 if rows is None else rows.flatten(1).shape[1] for rows in values)
        if first != second:
            raise InputError(f"{name} has {first} and {second} columns: both files need the same features")


# ---- two graphs -----------------------------------------------------------------------------------------


def _distinguish_two(pair: Pair, order: int, picture: Path | None, source: str) -> Report:
    found = separating_order(*pair, order, shares=True)
    lines = [_cannot(k, int(pair[0].num_nodes)) for k in range(found.order + (not found.differ))]
    lines.append(_verdict(found))
    if picture is not None:
        _draw(pair, found, picture, source)
        lines.append(str(picture))
    return Report({"kind": "pair", "tried": order, **asdict(found), "lines": lines}, lines)


def _cannot(order: int, num_nodes: int) -> str:
    if order == 0:
        return "order 0: message passing without marks cannot distinguish them (equal stable colours)"
    copies = f"{num_nodes**order} marked copies"
    return f"order {order}: no tuples of {_marks(order)} can distinguish them (equal multisets of {copies})"


def _verdict(found: Comparison) -> str:
    if found.isomorphic:
        return "they are isomorphic: no number of marks distinguishes them"
    if not found.differ:
        return f"not distinguished by up to {_marks(found.order)}; a larger --order may"
    if found.order == 0:
        return "order 0: they differ; message passing distinguishes them without marks"
    if found.witness is None:
        return f"order {found.order}: they differ, but only in how often copies occur: no single tuple is informative"
    one, another = ("first", "second") if found.witness_graph == 0 else ("second", "first")
    nodes = ", ".join(map(str, found.witness))
    return (
        f"order {found.order}: they differ; marks on nodes ({nodes}) of the {one} graph give a copy that the {another} "
        f"never has, as {found.share:.1%} of its tuples do"
    )


def _marks(order: int) -> str:
    return f"{order} mark{'' if order == 1 else 's'}"


def _draw(pair: Pair, found: Comparison, path: Path, source: str) -> None:
    marks: list[tuple[int, ...]] = [(), ()]
    titles, notes = ("first graph", "second graph"), [_in_short(found)] * 2
    if found.witness:
        own, other = found.witness_graph, 1 - found.witness_graph
        marks[own] = found.witness
        marks[other], rounds = nearest_tuple(pair[own], pair[other], found.witness)
        notes[own] = "a copy that the other graph never has"
        notes[other] = f"the most similar copy: distinguished in round {rounds + 1}"
    first, second = (MarkedGraph(*side) for side in zip(pair, marks, titles, notes, strict=True))
    with whole_file(path) as waiting:
        draw_pair(first, second, waiting, layout_of(source))


def _in_short(found: Comparison) -> str:
    """Return the note below two graphs that are drawn without marks."""
    if found.isomorphic:
        return "isomorphic"
    if not found.differ:
        return "not distinguished"
    return "no single tuple is informative" if found.order else "distinguished without marks"


# ---- many pairs -----------------------------------------------------------------------------------------


def _distinguish_pairs(pairs: list[Pair], order: int, categories: list[str]) -> Report:
    """Compare pairs. The table has a row for each of the first pairs or, if there are categories, for each category."""
    found, progress = [], Progress()
    progress.begin("pairs", len(pairs), 0)
    try:
        for first, second in pairs:
            found.append(separating_order(first, second, order))
            progress.step(len(found), {})
    finally:
        progress.close()
    counted = _by_category(found, categories or [ALL] * len(found), order)
    facts = {"kind": "pairs", "tried": order, "counts": counted, "pairs": [asdict(one) for one in found]}
    if categories:
        rows = [[name, *map(str, counts.values())] for name, counts in counted.items()]
        return Report(facts, [], ["category", *counted[ALL]], rows)
    summary = ", ".join(f"{name}: {count}" for name, count in counted[ALL].items())
    rows = [_row(*one) for one in enumerate(found[:SHOWN])]
    return Report(facts, [summary], ["pair", "order", "informative tuple"], rows)


def _row(number: int, found: Comparison) -> list[str]:
    if not found.differ:
        return [str(number), "isomorphic" if found.isomorphic else f"more than {found.order}", ""]
    witness = "none" if found.witness is None else f"{found.witness} of the {('first', 'second')[found.witness_graph]}"
    return [str(number), str(found.order), witness if found.order else ""]


def _by_category(found: Sequence[Comparison], categories: Sequence[str], order: int) -> dict[str, dict[str, int]]:
    """Count, for each category and for all, the pairs, those that each order distinguishes, and those by one tuple."""
    counted: dict[str, dict[str, int]] = {}
    for name in dict.fromkeys([*categories, ALL]):
        here = [one for one, category in zip(found, categories, strict=True) if name in (category, ALL)]
        by_order = {f"k = {k}": sum(one.differ and one.order <= k for one in here) for k in range(order + 1)}
        counted[name] = {"pairs": len(here), **by_order, "by one tuple": sum(one.witness is not None for one in here)}
    return counted


def _categories(dataset: Dataset) -> list[str]:
    """Return the category of each pair; empty for a data set that does not consist of pairs."""
    names, numbers = (dataset.extra.get(name, ()) for name in ("category_names", "pair_category"))
    return [str(names[number]) for number in numbers]


# ---- proofs ---------------------------------------------------------------------------------------------


def _prove_pairs(pairs: list[Pair], order: int, propose: Proposer) -> Report:
    """Report what can be proved about each pair with the tuples that an agent proposes."""
    if not pairs:
        raise InputError("--agent compares two graphs: give two files, or one with two graphs")
    found = [_prove(pair, order, propose) for pair in pairs]
    if len(found) == 1:
        lines = _proved(found[0], order)
        return Report({"kind": "proof", "tried": order, **asdict(found[0]), "lines": lines}, lines)
    counted = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    facts = {"kind": "proofs", "tried": order, "counts": counted, "pairs": [asdict(one) for one in found]}
    summary = ", ".join(f"{name}: {count}" for name, count in {"pairs": len(found), **counted}.items())
    rows = [[str(number), one.verdict, str(one.order), _witness(one)] for number, one in enumerate(found[:SHOWN])]
    return Report(facts, [summary], ["pair", "verdict", "order", "marks not found in the other graph"], rows)


def _prove(pair: Pair, order: int, propose: Proposer) -> Proof:
    progress = Progress()

    def show(done: int, total: int) -> None:
        if done:
            progress.step(done, {})
        else:
            progress.begin("candidates", total, 0)

    try:
        return prove(*pair, propose, order, show)
    finally:
        progress.close()


def _proved(found: Proof, order: int) -> list[str]:
    tried = f"{found.candidates:,} candidates tried"
    if found.verdict == "isomorphic":
        return [f"they are isomorphic: a correspondence of all nodes was checked edge by edge ({tried})"]
    if found.verdict == "undecided":
        why = "; the search stopped, because too many candidates were not distinguished" if found.exhausted else ""
        return [f"not distinguished by up to {_marks(order)}{why}; a larger --order may ({tried})"]
    if found.order == 0:
        return ["order 0: they differ; message passing distinguishes them without marks"]
    one, another = ("first", "second") if found.witness_graph == 0 else ("second", "first")
    lines = [
        f"order {found.order}: they differ; {_where(found)} of the {one} graph have no counterpart in the {another}"
    ]
    by_symmetry = f", the others excluded by {found.symmetries} checked symmetries" if found.symmetries else ""
    return [*lines, f"proof: {tried}{by_symmetry}; none keeps the same colours through refinement"]


def _where(found: Proof) -> str:
    """Return a description of the marks; only the first are named if there are many."""
    assert found.witness is not None
    shown = ", ".join(map(str, found.witness[:SHOWN]))
    return f"marks on nodes ({shown}{', ...' if len(found.witness) > SHOWN else ''})"


def _witness(found: Proof) -> str:
    return "" if not found.witness else f"{found.witness[:SHOWN]} of the {('first', 'second')[found.witness_graph]}"


# ---- a set of graphs ------------------------------------------------------------------------------------


def _distinguish_set(graphs: PackedGraphs, order: int) -> Report:
    labels = graphs.y if graphs.level == "graph" else None
    found = partitions(graphs, labels, order)
    advice, groups = plan(graphs, found), _groups(found.classes[-1])
    facts = {"kind": "set", "tried": order, "graphs": len(graphs), **asdict(advice), "together": groups}
    confused = "with another graph" if labels is None else "with another label"
    rows = [[str(value) for value in asdict(level).values()] for level in advice.levels]
    return Report(facts, _advice(advice, groups), ["order", "classes", "graphs together", confused], rows)


def _groups(classes: torch.Tensor) -> list[list[int]]:
    """Return the classes of graphs that are not distinguished; classes of a single graph are left out."""
    sizes = classes.bincount()
    shared = (sizes[classes] > 1).nonzero()[:, 0]
    by_class = shared[classes[shared].argsort(stable=True)]
    return sorted(group.tolist() for group in by_class.split(sizes[sizes > 1].tolist()))


def _advice(advice: Plan, groups: list[list[int]]) -> list[str]:
    lines = [f"together: graphs {' '.join(map(str, group[:SHOWN]))}" for group in groups[:SHOWN]]
    if len(groups) > SHOWN:
        lines.append(f"... and {len(groups) - SHOWN} more such classes")
    if advice.duplicates:
        lines.append(f"{advice.duplicates} graphs are isomorphic to another one: no marks distinguish these")
    if advice.undecided:
        lines.append(f"{advice.undecided} graphs are not distinguished by up to {_marks(advice.levels[-1].order)}")
    m, k, t = advice.num_tuples, advice.tuple_order, advice.num_moves
    lines.append(f"suggestion: m = {m}, k = {k}, t = {t}, as {advice.reason}" if k else advice.reason)
    if k:
        lines.append(f"marked copies per graph: {advice.copies}; all tuples of order {k}: {advice.all_copies:,.0f}")
    return lines
