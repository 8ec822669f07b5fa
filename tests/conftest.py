"""Fixtures shared by all tests."""

import importlib.util
import os
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder of packed data files: `MAGGNN_DATA`, else `shared/data` beside the repository."""
    chosen = os.environ.get("MAGGNN_DATA")
    folder = Path(chosen) if chosen else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no packed data files: {folder} does not exist (set MAGGNN_DATA to the folder that has them)")
    return folder


@pytest.fixture
def packed_data(data_root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data root, with `MAGGNN_DATA` set to it for this test."""
    monkeypatch.setenv("MAGGNN_DATA", str(data_root))
    return data_root


@pytest.fixture(scope="session")
def small_runs() -> ModuleType:
    """Small trained models for the page: `unit/apps/show/small_runs.py`."""
    path = Path(__file__).parent / "unit" / "apps" / "show" / "small_runs.py"
    spec = importlib.util.spec_from_file_location("small_runs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
