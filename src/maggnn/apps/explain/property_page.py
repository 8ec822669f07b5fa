"""The explanation of a property as HTML: the molecule with its contributions, its atoms, similar training molecules.

The page of one molecule also shows its search; several molecules share a page, on which searches are collapsed.
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
"""The largest number of atoms in the table next to a drawing."""


def property_part(explained: PropertyExplanation) -> str:
    """Return the prediction for the molecule and its explanation, as HTML."""
    answers = "".join(f'<p class="answer">{escape(line)}</p>' for line in explained.answers)
    drawn = "".join(_contributions(explained, place) for place in range(len(explained.contributions))[:SHOWN_OUTPUTS])
    notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in explained.notes)
    return f"{answers}\n{drawn}\n{notes}\n{_similar(explained)}"


def molecules_page(
    title: str, molecules: Sequence[tuple[PropertyExplanation, Explanation]], left_out: Sequence[tuple[str, str]] = ()
) -> str:
    """Return a page of several molecules.

    Args:
        molecules: The explanations of each molecule's property and of its search.
        left_out: The molecules that could not be explained, with the reason.
    """
    articles = "".join(
        f"<article><h2>{escape(explained.smiles)}</h2>{property_part(explained)}"
        f"<details><summary>Where the marks moved</summary>{walk_only(search)}</details></article>\n"
        for explained, search in molecules
    )
    missing = "".join(f"<li>{escape(smiles)}: {escape(reason)}</li>" for smiles, reason in left_out)
    listed = f"<h2>Left out</h2><ul>{missing}</ul>" if missing else ""
    return document(title, f"<h1>{escape(title)}</h1>\n{articles}{listed}")


def _contributions(explained: PropertyExplanation, place: int) -> str:
    """Return the drawing and the table of one output."""
    own = explained.contributions[place]
    numbers = written_numbers(explained.smiles)
    drawing = contributions_svg(explained.smiles, [own.values[number] for number in numbers])
    rows = "".join(_row(explained, own, atom) for atom in explained.ranked(place)[:MOST_ROWS])
    key = (
        'A disc behind an atom shows its contribution by its area: <span class="up">blue raises</span>, '
        f'<span class="down">red lowers</span> {escape(own.output)}. Atoms are numbered as in the SMILES, from 0.'
    )
    table = f"<table><tr><th>atom</th><th>contribution to {escape(own.output)}</th></tr>{rows}</table>"
    return f'<div class="property">{drawing}{table}</div><p class="soft">{key}</p>'


def _row(explained: PropertyExplanation, own: Contributions, atom: int) -> str:
    value = own.values[atom]
    sign = "up" if value > 0 else "down"
    name = escape(f"{explained.atoms[atom]}{atom}")
    return f'<tr><td>{name}</td><td class="number {sign}">{value:+.3g}</td></tr>'


def _similar(explained: PropertyExplanation) -> str:
    if not explained.similar:
        return ""
    figures = "".join(
        f"<figure>{plain_svg(one.smiles)}<figcaption>{escape(_values(explained.targets, one.values))}<br>"
        f'<span class="soft">similarity {one.similarity:.2f}</span><br>{escape(one.smiles)}</figcaption></figure>'
        for one in explained.similar
    )
    words = "Tanimoto similarity of Morgan fingerprints; if it is low for all, the prediction is less reliable."
    return f'<h2>Similar training molecules</h2><p class="soft">{words}</p><div class="similar">{figures}</div>'


def _values(targets: Sequence[str], values: Sequence[str]) -> str:
    pairs = list(zip(targets, values, strict=True))[:SHOWN_OUTPUTS]
    return ", ".join(f"{name} = {value}" if value else f"{name} is unknown" for name, value in pairs)
