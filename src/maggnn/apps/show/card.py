"""The model card of a fitted model for the page: the text of its README.md and the picture of its test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from maggnn.apps.fit.card.model_card import CARD, PICTURE
from maggnn.errors import InputError

MOST_TEXT, MOST_PICTURE = 200_000, 5_000_000
"""The largest sizes in bytes; a larger file was not written by `maggnn fit`."""

PNG = b"\x89PNG\r\n\x1a\n"


def has_card(folder: Path) -> bool:
    """Whether the folder has a card that can be shown."""
    return _is_plain(folder / CARD, MOST_TEXT)


def read_card(folder: Path) -> dict[str, Any]:
    """Return the card's text, and whether there is a picture.

    Args:
        folder: the folder of a model of `maggnn fit`.

    Returns:
        `text`, Markdown that the page inserts as text and never as HTML, and `picture`.
    """
    if not has_card(folder):
        raise InputError("this model has no card")
    text = _content(folder / CARD).decode("utf-8", errors="replace").replace("\r\n", "\n")
    return {"text": text, "picture": _is_plain(folder / PICTURE, MOST_PICTURE)}


def read_picture(folder: Path) -> bytes:
    """Return the picture of the test, a PNG.

    Args:
        folder: the folder of a model of `maggnn fit`.

    Returns:
        The bytes of the file.
    """
    content = _content(folder / PICTURE) if _is_plain(folder / PICTURE, MOST_PICTURE) else b""
    if not content.startswith(PNG):
        raise InputError("this model has no picture of its test")
    return content


def _is_plain(path: Path, most: int) -> bool:
    """Whether a path is a file of limited size and no link: a link in an untrusted folder could show any file."""
    try:
        return path.is_file() and not path.is_symlink() and path.stat().st_size <= most
    except OSError:  # a folder without read permission, or a file that was removed in this moment
        return False


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
