"""Skeletal formulas of molecules by RDKit: no letters for carbon, hydrogens at heteroatoms, and numbers of atoms.

Drawings are SVG with letters as outlines, so that a page needs no fonts. Contributions are discs behind the atoms,
drawn here at RDKit's coordinates: the size of RDKit's own highlights depends on an atom's letters, so that equal
numbers would not have equal areas.

Shapes: n atoms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from maggnn.data.molecules.smiles import parsed, written_numbers
from maggnn.errors import InputError

if TYPE_CHECKING:
    from rdkit.Chem import Mol

POSITIVE, NEGATIVE = "#1c6fb8", "#d2491a"
"""Blue raises the answer and orange-red lowers it; colour-blind readers can distinguish them."""

BOND = 40.0
"""The length of a bond in pixels."""

LARGEST, SMALLEST = 0.62 * BOND, 1.5
"""The radius of the largest disc, and the smallest radius that is drawn."""

SMALL_WIDTH, SMALL_HEIGHT = 190, 130


def contributions_svg(smiles: str, values: Sequence[float]) -> str:
    """Draw a molecule with a disc behind each atom: its area is the size of the contribution, its colour the sign.

    Args:
        smiles: The SMILES as the user wrote it.
        values: A number for each atom, in the order of `parsed(smiles)`.

    Returns:
        An <svg> element. Atoms are numbered by their positions in the SMILES, from 0.

    Shapes:
        values: [n]
    """
    mol = parsed(smiles)
    for atom, number in zip(mol.GetAtoms(), written_numbers(smiles), strict=True):
        atom.SetAtomMapNum(0)  # it would be drawn as an additional number
        atom.SetProp("atomNote", str(number))
    drawer, text = _drawn(mol, -1, -1)
    top = max(map(abs, values), default=0.0) or 1.0
    discs, places = [], []
    for place, value in enumerate(values):
        radius = LARGEST * math.sqrt(abs(value) / top)
        if radius >= SMALLEST:
            point, colour = drawer.GetDrawCoords(place), POSITIVE if value > 0 else NEGATIVE
            places.append((point.x, point.y, radius))
            discs.append(
                f'<circle cx="{point.x:.1f}" cy="{point.y:.1f}" r="{radius:.1f}" fill="{colour}" opacity="0.55"/>'
            )
    start = text.index("<path")  # behind the bonds and letters
    whole = _opened(drawer.Width(), drawer.Height(), places)
    return whole + text[text.index("<!--") : start] + "\n".join(discs) + "\n" + text[start:]


def _opened(width: float, height: float, discs: Sequence[tuple[float, float, float]]) -> str:
    """Return the opening tag of a drawing that is large enough for its discs, which may exceed RDKit's canvas."""
    left = min([0.0, *(x - radius for x, _, radius in discs)])
    top = min([0.0, *(y - radius for _, y, radius in discs)])
    width = max([width, *(x + radius for x, _, radius in discs)]) - left
    height = max([height, *(y + radius for _, y, radius in discs)]) - top
    box = f"{left:.1f} {top:.1f} {width:.1f} {height:.1f}"
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.1f}" height="{height:.1f}" viewBox="{box}">\n'


def plain_svg(smiles: str) -> str:
    """Return a small drawing; empty if RDKit cannot read the SMILES."""
    try:
        return _drawn(parsed(smiles), SMALL_WIDTH, SMALL_HEIGHT)[1]
    except InputError:
        return ""


def _drawn(mol: Mol, width: int, height: int) -> tuple[Any, str]:
    """Return the drawer and its <svg> element; with width -1, bonds have the length `BOND`."""
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options = drawer.drawOptions()
    options.clearBackground = False
    options.annotationFontScale = 0.7
    options.scalingFactor = BOND / 1.5  # RDKit's bonds have length 1.5
    options.padding = 0.1
    options.minFontSize = 10
    if width < 0:
        options.useBWAtomPalette()  # letters must be readable on discs of two colours
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return drawer, text[text.index("<svg") :].strip()
