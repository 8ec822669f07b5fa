"""Data sets: the table of data sets (`registry`), generated graphs (`expressivity`), `sources` and `splits`.

Names are imported when they are first used, so that a process that only featurises molecules does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from maggnn.data.dataset import Dataset, DatasetEntry
    from maggnn.data.registry import DATASETS, all_datasets, check, dataset_entry, load
    from maggnn.data.sources import data_root, load_packed_file
    from maggnn.data.splits import Split, all_in_all, held_out_classes, stratified_folds

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "Split",
    "all_datasets",
    "all_in_all",
    "check",
    "data_root",
    "dataset_entry",
    "held_out_classes",
    "load",
    "load_packed_file",
    "stratified_folds",
]

_NAMES = {
    "dataset": ("Dataset", "DatasetEntry"),
    "registry": ("DATASETS", "all_datasets", "check", "dataset_entry", "load"),
    "sources": ("data_root", "load_packed_file"),
    "splits": ("Split", "all_in_all", "held_out_classes", "stratified_folds"),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
