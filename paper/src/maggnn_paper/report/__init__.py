"""The report: the pages of `docs/results/` and the README's table from the ledger, beside the paper's figures.

Nothing here measures or decides: the same ledger gives the same bytes, so that a test can check whether the committed
pages are current. The newest row of each key counts (`maggnn_paper.ledger.newest`).
"""

from collections.abc import Iterable
from pathlib import Path

from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.report.readme import with_table
from maggnn_paper.report.results import render_pages

LEDGER = Path("results/ledger.jsonl")
RESULTS = Path("docs/results")
README = Path("README.md")


def update_readme(readme_path: Path | str, rows: Iterable[LedgerRow]) -> None:
    """Replace the text between the two result marks of a README by the table of `rows`.

    Args:
        readme_path: The file.
        rows: The ledger, oldest row first.

    Raises:
        InputError: The file has no such marks.
    """
    path = Path(readme_path)
    path.write_text(with_table(path, rows), encoding="utf-8")


def check_checkout(root: Path) -> None:
    """Refuse a folder that is no checkout: pages would be made there of an empty ledger.

    Raises:
        InputError: The ledger or the README is missing.
    """
    missing = [str(path) for path in (LEDGER, README) if not (root / path).exists()]
    if missing:
        raise InputError(f"{root} is no checkout of maggnn ({missing[0]} is missing): run this at the top of one")


def write_report(root: Path | str = ".") -> list[Path]:
    """Render the pages of `docs/results/` and the README's table from the ledger of a checkout.

    Args:
        root: The checkout. A missing README is left missing.

    Returns:
        The files that changed; pages of tables that are no longer in the ledger are deleted.
    """
    root = Path(root)
    changed = stale(root)
    pages = _pages(root)
    for path in changed:
        if path in pages:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(pages[path], encoding="utf-8")
        else:
            path.unlink()
    return changed


def stale(root: Path | str = ".") -> list[Path]:
    """The files that `write_report` would change: empty when the committed report is current.

    Args:
        root: The checkout.

    Returns:
        Pages whose text differs, and files of `docs/results/` that no table has.
    """
    pages = _pages(Path(root))
    differing = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    return differing + [path for path in sorted((Path(root) / RESULTS).glob("*.*")) if path not in pages]


def _pages(root: Path) -> dict[Path, str]:
    rows = ledger.read(root / LEDGER)
    pages = {root / RESULTS / name: text for name, text in render_pages(rows).items()}
    if (root / README).exists():
        pages[root / README] = with_table(root / README, rows)
    return pages
