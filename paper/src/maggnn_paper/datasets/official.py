"""The official files of ZINC, QM9 and MOLHIV become packed files, with the layout of `sources`.

ZINC and QM9 are read through PyG's own loaders, which also download them; MOLHIV from the CSV files of OGB's archive.
Columns mean what they mean in `atom_features`, with one exception: PyG reads QM9's bonds as written in its SDF file,
without looking for aromatic rings. Both columns of `edge_attr` then hold the Kekulé bond, and the aromatic and
hybridisation columns of `x` are zero.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np

from maggnn.data.packing import Arrays, concatenated, save_packed, smallest
from maggnn.data.sources import data_root
from maggnn.data.splits import PARTS
from maggnn.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from torch import Tensor
    from torch_geometric.data import InMemoryDataset

MOLHIV_ZIP = "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip"
ZINC_RAW = tuple(f"{part}.{ending}" for ending in ("pickle", "index") for part in PARTS)
QM9_RAW = ("gdb9.sdf", "gdb9.sdf.csv", "uncharacterized.txt")
QM9_ELEMENT_COLUMNS = 5
QM9_TARGETS = 16
"""PyG's first 16 targets are ours, in eV where ours are; after them come three rotational constants."""


@dataclass(frozen=True)
class Official:
    """One row of the table.

    Attributes:
        file: name of the packed file.
        folder: name of the folder of raw files, where none is given.
        read: the arrays of the packed file, from that folder.
    """

    file: str
    folder: str
    read: Callable[[Path], Arrays]


def get(name: str, raw: Path | None = None) -> Path:
    """Write a set's packed file under the data root from official files, and return its path.

    Args:
        name: zinc, zinc_full, qm9 or molhiv.
        raw: folder of the official files, as PyG or OGB lay it out; by default one under the data root.
    """
    if name not in OFFICIAL:
        raise InputError(f"no official set {name!r}{did_you_mean(name, OFFICIAL)}")
    path = data_root() / f"{OFFICIAL[name].file}.npz"
    if path.exists():
        raise InputError(f"{path} is there already: move it away first")
    folder = raw or data_root() / "raw" / OFFICIAL[name].folder
    save_packed(path, smallest(OFFICIAL[name].read(folder)))
    return path


# ---- PyG ------------------------------------------------------------------------------------------------


def _zinc(folder: Path, subset: bool) -> Arrays:
    """ZINC's three parts one after the other; its features are ours already."""
    from torch_geometric.datasets import ZINC

    processed = folder / ("subset" if subset else "full") / "processed"
    files = [processed / f"{part}.pt" for part in PARTS]
    _let_pyg_prepare(folder, ZINC_RAW, files, lambda: ZINC(str(folder), subset=subset))
    parts = [_arrays(_stored(file)) for file in files]
    joined = concatenated(parts)
    ends = np.cumsum([len(part["num_nodes"]) for part in parts])
    train, val, test = np.split(np.arange(ends[-1]), ends[:-1])
    joined["edge_attr"] = joined["edge_attr"].reshape(-1, 1)
    return joined | {"train": train, "val": val, "test": test}


def _qm9(folder: Path) -> Arrays:
    """QM9: PyG's one-hot columns as numbers, and the 16 targets."""
    from torch_geometric.datasets import QM9

    file = folder / "processed" / "data_v3.pt"
    _let_pyg_prepare(folder, QM9_RAW, [file], lambda: QM9(str(folder)))
    stored = _stored(file)
    arrays = _arrays(stored)
    element, others = np.split(arrays["x"], [QM9_ELEMENT_COLUMNS], axis=1)
    bond = arrays["edge_attr"].argmax(1)
    return arrays | {
        "x": np.column_stack([element.argmax(1), others]).astype(np.int64),
        "edge_attr": np.stack([bond, bond], axis=1),
        "y": arrays["y"][:, :QM9_TARGETS],
        "gdb_index": _numbers(stored, "idx") + 1,
    }


def _let_pyg_prepare(folder: Path, raw_files: tuple[str, ...], files: list[Path], prepare: Callable[[], Any]) -> None:
    """Have PyG download and process a set, unless its processed files are there.

    PyG empties a raw folder that lacks a file before it downloads anew: such a folder is an error here.
    """
    if all(file.is_file() for file in files):
        return
    raw = folder / "raw"
    missing = [name for name in raw_files if not (raw / name).is_file()]
    if missing and raw.is_dir() and any(raw.iterdir()):
        raise InputError(f"{raw} has no {missing[0]}: add it, or remove the folder to have everything downloaded")
    try:
        prepare()
    except OSError as error:
        doing = "download" if missing else "read"
        raise InputError(f"{folder}: cannot {doing} the official files ({_one_line(error)})") from error
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, RuntimeError, pickle.PickleError) as error:
        raise InputError(f"{raw}: not the official files, or damaged ({_one_line(error)})") from error


def _stored(file: Path) -> InMemoryDataset:
    """What PyG processed: long tensors, with the places where each graph begins."""
    from torch_geometric.data import InMemoryDataset

    stored = InMemoryDataset()
    try:
        stored.load(str(file))
    except (
        OSError,
        ValueError,
        LookupError,
        TypeError,
        EOFError,
        RuntimeError,
        pickle.PickleError,
        BadZipFile,
    ) as error:
        raise InputError(f"{file}: cannot be read, remove it and try again ({_one_line(error)})") from error
    return stored


def _arrays(stored: InMemoryDataset) -> Arrays:
    """PyG's tensors as arrays, of its two directed edges a bond the one that goes up."""
    edge_index, edge_attr = _numbers(stored, "edge_index"), _numbers(stored, "edge_attr")
    sizes = _sizes(stored, "edge_index")
    up = edge_index[0] < edge_index[1]
    graph = np.repeat(np.arange(len(sizes)), sizes)
    return {
        "num_nodes": _sizes(stored, "x"),
        "num_edges": np.bincount(graph[up], minlength=len(sizes)),
        "edge_index": edge_index[:, up],
        "x": _numbers(stored, "x"),
        "edge_attr": edge_attr[up],
        "y": _numbers(stored, "y"),
    }


def _numbers(stored: InMemoryDataset, name: str) -> np.ndarray:
    values: Tensor = getattr(stored._data, name)
    return values.numpy()


def _sizes(stored: InMemoryDataset, name: str) -> np.ndarray:
    slices: Any = stored.slices
    return slices[name].diff().numpy()


# ---- OGB ------------------------------------------------------------------------------------------------


def _molhiv(folder: Path) -> Arrays:
    """MOLHIV: OGB stores each bond once, and its features are ours already."""
    raw = {
        "num_nodes": _csv(folder / "raw" / "num-node-list.csv.gz")[:, 0],
        "num_edges": _csv(folder / "raw" / "num-edge-list.csv.gz")[:, 0],
        "edge_index": _csv(folder / "raw" / "edge.csv.gz").T,
        "x": _csv(folder / "raw" / "node-feat.csv.gz"),
        "edge_attr": _csv(folder / "raw" / "edge-feat.csv.gz"),
        "y": _csv(folder / "raw" / "graph-label.csv.gz")[:, 0],
    }
    found = (len(raw["x"]), raw["edge_index"].shape[1], len(raw["edge_attr"]), len(raw["y"]))
    edges = int(raw["num_edges"].sum())
    if found != (int(raw["num_nodes"].sum()), edges, edges, len(raw["num_nodes"])):
        raise InputError(f"{folder / 'raw'}: its files do not belong together: unpack {MOLHIV_ZIP} again")
    parts = {"train": "train", "val": "valid", "test": "test"}
    split = {part: _csv(folder / "split" / "scaffold" / f"{name}.csv.gz")[:, 0] for part, name in parts.items()}
    return raw | split


def _csv(path: Path) -> np.ndarray:
    """Whole numbers, [rows, columns]."""
    if not path.is_file():
        raise InputError(f"no file {path}: download {MOLHIV_ZIP} and unpack it, its folder `hiv` is the raw one")
    try:
        return np.loadtxt(path, delimiter=",", dtype=np.int64, ndmin=2)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: damaged ({_one_line(error)}): unpack {MOLHIV_ZIP} again") from error


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


OFFICIAL: dict[str, Official] = {
    "zinc": Official("zinc12k", "zinc", lambda folder: _zinc(folder, subset=True)),
    "zinc_full": Official("zinc_full", "zinc", lambda folder: _zinc(folder, subset=False)),
    "qm9": Official("qm9", "qm9", _qm9),
    "molhiv": Official("molhiv", "hiv", _molhiv),
}
"""The sets whose official files can be read."""
