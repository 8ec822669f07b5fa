"""Data sets: the visible table (`registry`), graphs made by code (`expressivity`), `sources` and `splits`."""

from maggnn.data.dataset import Dataset, DatasetEntry
from maggnn.data.registry import DATASETS, check, dataset_entry, load
from maggnn.data.sources import data_root, load_packed_file
from maggnn.data.splits import Split, all_in_all, held_out_classes, stratified_folds

__all__ = [
    "DATASETS",
    "Dataset",
    "DatasetEntry",
    "Split",
    "all_in_all",
    "check",
    "data_root",
    "dataset_entry",
    "held_out_classes",
    "load",
    "load_packed_file",
    "stratified_folds",
]
