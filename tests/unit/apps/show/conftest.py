"""A folder of runs for all tests of this folder."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def runs(tmp_path_factory, small_runs) -> Path:
    """`marks`: two strongly regular graphs; `mine`: molecules of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    small_runs.trained(folder / "marks")
    small_runs.fitted(folder / "mine", small_runs.table(tmp_path_factory.mktemp("table")))
    return folder
