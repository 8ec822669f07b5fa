"""Model folders as a stranger, a bad disk or a careless copy may leave them: a seeded generator of damage.

`damaged(folder, other, number)` changes a copy of a good folder in place and says how. Most changes to contents take
the checksums away, as somebody would who means it.
"""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as tensors_of
from safetensors.torch import save as bytes_of

MODEL, FACTS, TREES = "model.safetensors", "fitted.json", "trees.safetensors"
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 3, 17, 20_000, 10**6, 10**9, 2**63, 10**30, 10**400, 0.5, -1.5, 1e308, float("nan"),
    float("inf"), "", "x", "x" * 5000, "two\nlines", "<b>=1+1</b>", "gine", "GATConv", "GCNConv", "HeteroConv", "sum",
    "mean", "classification", "regression", "smiles", "graphs", "confident", "random", "neighbours", "pna", "ngnn",
    [], [1], [[1], [2]], [-1, 10**9], [None], ["a", "a"], {}, {"a": 1},
]  # fmt: skip
SETTINGS = [
    ("encoder", "hidden"), ("encoder", "num_layers"), ("encoder", "random_walk"), ("encoder", "conv"),
    ("encoder", "marking"), ("agent", "num_tuples"), ("agent", "tuple_order"), ("agent", "num_moves"),
    ("agent", "start"), ("agent", "keep"), ("baseline", "name"), ("baseline", "copies"), ("replay", "capacity"),
]  # fmt: skip
STRIPPED = 0.8
"""Share of the folders whose fitted.json has no checksums."""

TEXTS = ["", "{", "[]", "null", "1", "NaN", '"text"', "[" * 100_000, '{"source": "smiles"}', "\x00", "{}", "\ufeff{}"]


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and data of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def joined(header: dict[str, Any], data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def edit_facts(path: Path, change: Callable[[dict[str, Any]], None], keep_checksum: bool = False) -> None:
    """Change the JSON facts in a model's header."""
    header, data = parts(path.read_bytes())
    facts = json.loads(header["__metadata__"]["facts"])
    change(facts)
    header["__metadata__"]["facts"] = json.dumps(facts)
    if not keep_checksum:
        header["__metadata__"].pop("checksum", None)
    path.write_bytes(joined(header, data))


def edit_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    """Change the weights in a model's file."""
    content = path.read_bytes()
    tensors, metadata = tensors_of(content), parts(content)[0]["__metadata__"]
    change(tensors)
    metadata.pop("checksum", None)
    path.write_bytes(bytes_of(tensors, metadata))


def edit_json(path: Path, change: Callable[[dict[str, Any]], None], keep_checksum: bool = False) -> None:
    """Change fitted.json."""
    values = json.loads(path.read_text(encoding="utf-8"))
    change(values)
    if not keep_checksum:
        values.pop("checksum", None)
        values.pop("model_checksum", None)
    path.write_text(json.dumps(values), encoding="utf-8")


def without_answers(folder: Path) -> None:
    """Make the weights of a folder's predictor finite, but so large that no answer is a finite number."""

    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name, value in tensors.items():
            if name.startswith("predictor.") and value.is_floating_point() and value.dim() == 2:
                tensors[name] = torch.full_like(value, 3e38)

    edit_tensors(folder / MODEL, change)
    edit_json(folder / FACTS, lambda values: None)


def damaged(folder: Path, other: Path, number: int) -> str:
    """Damage number `number` to a folder of `maggnn fit`; `other` is the folder of another model."""
    rng = random.Random(number)
    kinds = (
        _cut, _flip, _facts_entry, _facts_entry, _setting, _setting, _header_entry, _tensor, _json_entry, _json_entry,
        _text, _swap, _link, _nothing, _blend_entry, _tree,
    )  # fmt: skip
    if rng.random() < STRIPPED:
        edit_json(folder / FACTS, lambda values: None)
    return kinds[number % len(kinds)](rng, folder, other)


def _file(rng: random.Random, folder: Path) -> Path:
    return rng.choice(sorted(folder.iterdir()))


def _cut(rng: random.Random, folder: Path, other: Path) -> str:
    path = _file(rng, folder)
    content = path.read_bytes()
    left = rng.choice((rng.randrange(len(content)), rng.randrange(20), len(content) - 1))
    path.write_bytes(content[:left])
    return f"{path.name} cut to {left} bytes"


def _flip(rng: random.Random, folder: Path, other: Path) -> str:
    path = _file(rng, folder)
    content = bytearray(path.read_bytes())
    last = len(content) if rng.random() < 0.4 else min(len(content), 4000)  # the header has more to break
    places = [rng.randrange(last) for _ in range(rng.choice((1, 3, 40)))]
    for place in places:
        content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"{path.name}: bits flipped at {places}"


def _changed(rng: random.Random, values: dict[str, Any]) -> str:
    """One entry at any depth removed, renamed or of another value."""
    place: Any = values
    names: list[Any] = []
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        names.append(rng.choice(keys))
        below = place[names[-1]]
        if not isinstance(below, dict | list) or not below or rng.random() < 0.15:
            break
        place = below
    how = rng.choice(("removed", "renamed", "other", "other", "other"))
    if how == "other" or isinstance(place, list):
        place[names[-1]] = rng.choice(VALUES)
        return f"{names} = {place[names[-1]]!r:.40}"
    value = place.pop(names[-1])
    if how == "renamed":
        place[rng.choice((f"{names[-1]}\n2", "x" * 3000, names[-1].upper()))] = value
    return f"{names} {how}"


def _facts_entry(rng: random.Random, folder: Path, other: Path) -> str:
    said: list[str] = []
    edit_facts(folder / MODEL, lambda facts: said.append(_changed(rng, facts)), keep_checksum=rng.random() < 0.1)
    return f"facts: {said[0]}"


def _setting(rng: random.Random, folder: Path, other: Path) -> str:
    (section, key), value = rng.choice(SETTINGS), rng.choice(VALUES)
    edit_facts(folder / MODEL, lambda facts: facts["config"][section].update({key: value}))
    return f"{section}.{key} = {value!r:.40}"


def _json_entry(rng: random.Random, folder: Path, other: Path) -> str:
    said: list[str] = []
    edit_json(folder / FACTS, lambda values: said.append(_changed(rng, values)), keep_checksum=rng.random() < 0.1)
    return f"{FACTS}: {said[0]}"


def _blend_entry(rng: random.Random, folder: Path, other: Path) -> str:
    """What the facts say of the parts of a model, of which a stranger knows the names."""
    said: list[str] = []
    shares = [{"network": 1.0}, {"network": 0.0, "forest": 1.0}, {"network": 0.5, "boosting": 0.5}, {"boosting": 1.0}]
    changes = [
        ("folds", rng.choice((0, 1, 2, 3, 100, 10**9))),
        ("weights", rng.choice(shares)),
        ("seen", rng.choice(([], [[[], []]], [[[0], [0]]]))),
        ("files", rng.choice(({}, {"/dev/zero": ""}, {"../x": ""}, {TREES: ""}))),
        ("temperatures", rng.choice(({"blend": 0.01}, {"forest": 100}, {"x": 1}))),
        ("spreads", [{"size": [1e299] * 3, "factor": 1e299, "quantiles": [1e299] * 99}]),
    ]

    def change(values: dict[str, Any]) -> None:
        for name, value in rng.sample(changes, rng.choice((1, 1, 2))):
            said.append(f"{name} = {value!r:.40}")
            values["blend"][name] = value

    edit_json(folder / FACTS, change)
    return f"{FACTS}: blend {said}"


def _tree(rng: random.Random, folder: Path, other: Path) -> str:
    """A table of a model's trees, where it has any."""
    path = folder / TREES
    if not path.exists():
        return _tensor(rng, folder, other)
    kind = rng.choice(("empty", "short", "bfloat16", "float64", "large", "negative", "gone", "many"))
    said: list[str] = []

    def change(tensors: dict[str, torch.Tensor]) -> None:
        name = rng.choice(sorted(tensors))
        value = tensors[name]
        said.append(name)
        made = {
            "empty": lambda: value[:0],
            "short": lambda: value[:-1],
            "bfloat16": lambda: value.to(torch.bfloat16),
            "float64": lambda: value.double(),
            "large": lambda: torch.full_like(value, 3e38 if value.is_floating_point() else 120),
            "negative": lambda: torch.full_like(value.float(), -2).to(value.dtype),
            "many": lambda: torch.zeros((200_000, *value.shape[1:]), dtype=value.dtype),
        }
        del tensors[name]
        if kind != "gone":
            tensors[name] = made[kind]().contiguous()

    edit_tensors(path, change)
    edit_json(folder / FACTS, lambda values: values["blend"]["files"].update({TREES: ""}))
    return f"{TREES}: {kind} {said}"


def _header_entry(rng: random.Random, folder: Path, other: Path) -> str:
    """What the header says of one tensor, with the data as it was."""
    header, data = parts((folder / MODEL).read_bytes())
    said = _changed(rng, {name: entry for name, entry in header.items() if name != "__metadata__"})
    name = rng.choice([name for name in header if name != "__metadata__"])
    change = rng.choice(("shape", "dtype", "data_offsets", "name", "gone"))
    if change in ("shape", "data_offsets"):
        header[name][change] = [rng.choice((0, 1, 2**31, 2**62, 10**30, -1)), rng.randrange(10)]
    elif change == "dtype":
        header[name][change] = rng.choice(("F64", "F16", "I32", "BOOL", "U8", "F8_E4M3", "X", 3))
    else:
        entry = header.pop(name)
        if change == "name":
            header["predictor.\nother"] = entry
    header["__metadata__"].pop("checksum", None)
    (folder / MODEL).write_bytes(joined(header, data))
    return f"header: {change} of {name} ({said})"


def _tensor(rng: random.Random, folder: Path, other: Path) -> str:
    kind = rng.choice(("nan", "inf", "large", "extra", "gone", "shape", "double", "whole", "renamed"))

    def change(tensors: dict[str, torch.Tensor]) -> None:
        name = rng.choice(sorted(tensors))
        value = tensors[name]
        made = {
            "nan": lambda: torch.full_like(value.float(), float("nan")),
            "inf": lambda: torch.full_like(value.float(), float("inf")),
            "large": lambda: torch.full_like(value.float(), 3e38),
            "shape": lambda: torch.zeros((*value.shape, 2)),
            "double": value.double,
            "whole": lambda: torch.zeros_like(value, dtype=torch.int64),
        }
        if kind in made:
            tensors[name] = made[kind]()
        elif kind == "extra":
            tensors["extra"] = torch.zeros(3)
        else:
            del tensors[name]
            if kind == "renamed":
                tensors[f"{name}_"] = value

    edit_tensors(folder / MODEL, change)
    return f"weights: {kind}"


def _text(rng: random.Random, folder: Path, other: Path) -> str:
    path, text = _file(rng, folder), rng.choice(TEXTS)
    path.write_bytes(text.encode() if rng.random() < 0.8 else b"\xff\xfe" + text.encode())
    return f"{path.name} is {text!r:.40}"


def _swap(rng: random.Random, folder: Path, other: Path) -> str:
    which = rng.choice((MODEL, FACTS, "both"))
    if which == "both":
        content = (folder / MODEL).read_bytes()
        (folder / MODEL).write_bytes((folder / FACTS).read_bytes())
        (folder / FACTS).write_bytes(content)
    else:
        shutil.copy(other / which, folder / which)
        if rng.random() < 0.7:
            edit_json(folder / FACTS, lambda values: None)
    return f"{which} swapped"


def _link(rng: random.Random, folder: Path, other: Path) -> str:
    path = _file(rng, folder)
    path.unlink()
    target = rng.choice(("/dev/zero", "/dev/null", path.name, "absent", str(folder), str(other / path.name), "pipe"))
    if target == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    return f"{path.name} is a link to {target}"


def _nothing(rng: random.Random, folder: Path, other: Path) -> str:
    path, how = _file(rng, folder), rng.choice(("empty", "gone", "folder", "large"))
    path.unlink()
    if how == "empty":
        path.touch()
    elif how == "folder":
        path.mkdir()
    elif how == "large":
        with path.open("wb") as file:
            file.truncate(2**33)  # takes no room on a disk
    return f"{path.name} {how}"
