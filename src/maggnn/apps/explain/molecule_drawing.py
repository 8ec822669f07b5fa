"""Molecules as chemists draw them, by RDKit: no letters for carbon, hydrogens at heteroatoms, and numbers of atoms.

Drawings are SVG whose letters are outlines, so that a page needs no fonts. Contributions are discs behind the atoms,
placed by hand at RDKit's coordinates: its own highlights grow with an atom's letters, so that equal numbers would not
have equal areas.

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
"""Blue raises the answer and orange-red lowers it: apart for colour-blind readers too."""

BOND = 40.0
"""Length of a bond in pixels."""

LARGEST, SMALLEST = 0.62 * BOND, 1.5
"""Radius of the largest disc; below the other none is drawn."""

SMALL_WIDTH, SMALL_HEIGHT = 190, 130


def contributions_svg(smiles: str, values: Sequence[float]) -> str:
    """A molecule with a disc behind each atom: its area is the size of the contribution, its colour the sign.

    Args:
        smiles: As the user wrote it.
        values: A number for each atom, in the order of `parsed(smiles)`.

    Returns:
        An <svg> element. Atoms have their numbers in the SMILES as it was written, counted from 0.

    Shapes:
        values: [n]
    """
    mol = parsed(smiles.strip())
    for atom, number in zip(mol.GetAtoms(), written_numbers(smiles), strict=True):
        atom.SetAtomMapNum(0)  # it would be drawn as another number
        atom.SetProp("atomNote", str(number))
    drawer, text = _drawn(mol, -1, -1)
    top = max(map(abs, values), default=0.0) or 1.0
    discs = []
    for place, value in enumerate(values):
        radius = LARGEST * math.sqrt(abs(value) / top)
        if radius >= SMALLEST:
            point, colour = drawer.GetDrawCoords(place), POSITIVE if value > 0 else NEGATIVE
            discs.append(
                f'<circle cx="{point.x:.1f}" cy="{point.y:.1f}" r="{radius:.1f}" fill="{colour}" opacity="0.55"/>'
            )
    start = text.index("<path")  # behind the bonds and letters
    return text[:start] + "\n".join(discs) + "\n" + text[start:]


def plain_svg(smiles: str) -> str:
    """A small drawing; empty where RDKit cannot read the SMILES."""
    try:
        return _drawn(parsed(smiles.strip()), SMALL_WIDTH, SMALL_HEIGHT)[1]
    except InputError:
        return ""


def _drawn(mol: Mol, width: int, height: int) -> tuple[Any, str]:
    """The drawer and its <svg> element; a width of -1 is as wide as bonds of the length `BOND` need."""
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(width, height)
    options = drawer.drawOptions()
    options.clearBackground = False
    options.annotationFontScale = 0.7
    options.scalingFactor = BOND / 1.5  # a bond is 1.5 long
    options.padding = 0.1
    if width < 0:
        options.useBWAtomPalette()  # letters are read on discs of two colours
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, mol)
    drawer.FinishDrawing()
    text = drawer.GetDrawingText()
    return drawer, text[text.index("<svg") :].strip()
