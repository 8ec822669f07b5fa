"""The report: `docs/results.md` and the README's tables from the ledger, beside the paper's figures, and `docs/api.md`.

Nothing here measures or decides: the same ledger and code give the same bytes, so that a test can tell whether the
committed pages are up to date. The newest row of each key counts (`maggnn_paper.ledger.newest`).
"""

from collections.abc import Iterable
from pathlib import Path

from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.report.readme import with_summary
from maggnn_paper.report.reference import render_reference
from maggnn_paper.report.results import render

LEDGER = Path("results/ledger.jsonl")
RESULTS = Path("docs/results.md")
README = Path("README.md")
REFERENCE = Path("docs/api.md")
CODE = Path("src/maggnn")


def update_readme(readme_path: Path | str, rows: Iterable[LedgerRow]) -> None:
    """Replace what stands between the two result marks of a README by `render_summary`.

    Raises:
        InputError: The file has no such marks.
    """
    path = Path(readme_path)
    path.write_text(with_summary(path, rows), encoding="utf-8")


def check_checkout(root: Path) -> None:
    """Refuse a folder that is no checkout: pages would be made there of an empty ledger.

    Raises:
        InputError: The ledger or the code is missing.
    """
    missing = [str(path) for path in (LEDGER, CODE) if not (root / path).exists()]
    if missing:
        raise InputError(f"{root} is no checkout of maggnn ({missing[0]} is missing): run this at the top of one")


def write_report(root: Path | str = ".") -> list[Path]:
    """Render `docs/results.md` and the README's table from the ledger under a checkout, `docs/api.md` from its code.

    Args:
        root: The checkout. A missing README is left missing, and without the code there is no reference of it.

    Returns:
        The files that changed.
    """
    changed = []
    for path, text in _pages(Path(root)).items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(path)
    return changed


def stale(root: Path | str = ".") -> list[Path]:
    """The pages that `write_report` would change: empty when the committed report is up to date."""
    pages = _pages(Path(root))
    return [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def _pages(root: Path) -> dict[Path, str]:
    rows = ledger.read(root / LEDGER)
    pages = {root / RESULTS: render(rows)}
    if (root / README).exists():
        pages[root / README] = with_summary(root / README, rows)
    if (root / CODE).is_dir():
        pages[root / REFERENCE] = render_reference()
    return pages
