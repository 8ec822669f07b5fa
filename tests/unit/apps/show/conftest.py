"""A folder of runs for all tests of this folder."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def small_runs() -> ModuleType:
    path = Path(__file__).with_name("small_runs.py")
    spec = importlib.util.spec_from_file_location("small_runs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def runs(tmp_path_factory, small_runs) -> Path:
    """`marks`: two strongly regular graphs; `mine`: molecules of one's own."""
    folder = tmp_path_factory.mktemp("runs")
    small_runs.trained(folder / "marks")
    small_runs.fitted(folder / "mine", small_runs.table(tmp_path_factory.mktemp("table")))
    return folder
