"""The explanation of a property as HTML: the molecule with its contributions, its atoms, similar molecules of training.

One molecule has a page on which its search follows; several molecules share a page, their searches folded away.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from maggnn.apps.explain.explanation import SHOWN_OUTPUTS, Explanation
from maggnn.apps.explain.molecule_drawing import contributions_svg, plain_svg
from maggnn.apps.explain.page import document, walk_only
from maggnn.apps.explain.property import Contributions, PropertyExplanation
from maggnn.data.molecules.smiles import written_numbers

MOST_ROWS = 8
"""Atoms in the table beside a drawing."""


def property_part(told: PropertyExplanation) -> str:
    """What the model says of the molecule, and why."""
    answers = "".join(f'<p class="answer">{escape(line)}</p>' for line in told.answers)
    drawn = "".join(_contributions(told, place) for place in range(len(told.contributions))[:SHOWN_OUTPUTS])
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in told.notes)
    return f"{answers}\n{drawn}\n{notes}\n{_similar(told)}"


def molecules_page(
    title: str, molecules: Sequence[tuple[PropertyExplanation, Explanation]], left_out: Sequence[tuple[str, str]] = ()
) -> str:
    """A page of several molecules.

    Args:
        molecules: Each with the explanation of its property and of the search on it.
        left_out: What could not be explained, with the reason.
    """
    articles = "".join(
        f"<article><h2>{escape(told.smiles)}</h2>{property_part(told)}"
        f"<details><summary>Where the marks went</summary>{walk_only(search)}</details></article>\n"
        for told, search in molecules
    )
    missing = "".join(f"<li>{escape(smiles)}: {escape(reason)}</li>" for smiles, reason in left_out)
    listed = f"<h2>Left out</h2><ul>{missing}</ul>" if missing else ""
    return document(title, f"<h1>{escape(title)}</h1>\n{articles}{listed}")


def _contributions(told: PropertyExplanation, place: int) -> str:
    """The drawing and the table of one output."""
    own = told.contributions[place]
    numbers = written_numbers(told.smiles)
    drawing = contributions_svg(told.smiles, [own.values[number] for number in numbers])
    rows = "".join(_row(told, own, atom) for atom in told.ranked(place)[:MOST_ROWS])
    key = (
        'A disc behind an atom shows its contribution by its area: <span class="up">blue raises</span>, '
        f'<span class="down">red lowers</span> {escape(own.output)}. Atoms have their numbers in the SMILES, from 0.'
    )
    table = f"<table><tr><th>atom</th><th>contribution to {escape(own.output)}</th></tr>{rows}</table>"
    return f'<div class="property">{drawing}{table}</div><p class="soft">{key}</p>'


def _row(told: PropertyExplanation, own: Contributions, atom: int) -> str:
    value = own.values[atom]
    sign = "up" if value > 0 else "down"
    name = escape(f"{told.atoms[atom]}{atom}")
    return f'<tr><td>{name}</td><td class="number {sign}">{value:+.3g}</td></tr>'


def _similar(told: PropertyExplanation) -> str:
    if not told.similar:
        return ""
    figures = "".join(
        f"<figure>{plain_svg(one.smiles)}<figcaption>{escape(_values(told.targets, one.values))}<br>"
        f'<span class="soft">similarity {one.similarity:.2f}</span><br>{escape(one.smiles)}</figcaption></figure>'
        for one in told.similar
    )
    words = (
        "Tanimoto similarity of Morgan fingerprints; where it is low for all, the model knows little of such molecules."
    )
    return f'<h2>Similar molecules of training</h2><p class="soft">{words}</p><div class="similar">{figures}</div>'


def _values(targets: Sequence[str], values: Sequence[str]) -> str:
    pairs = list(zip(targets, values, strict=True))[:SHOWN_OUTPUTS]
    return ", ".join(f"{name} = {value}" if value else f"{name} is not known" for name, value in pairs)
