"""What a model file must satisfy before anything is allocated for it, for a stranger may have written it.

A file's header says which tensors it holds. The module that its settings describe is built without memory (torch's
`meta` device) and compared with the header; only then are weights read. A checksum notices damage. It is no signature:
whoever changes a file can write another one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from maggnn.errors import InputError

MOST_HEADER = 16 * 2**20
"""Bytes of a file's header; models of this package have some tens of thousand."""

MOST_FACTS = 4 * 2**20
"""Characters of the JSON in it."""

MOST_WORDS = 300
"""Characters of a message that quotes a file."""

FLOATS = {"F16", "BF16", "F32", "F64"}
KINDS = {torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}
"""Names of types in a header."""

Header = dict[str, tuple[tuple[int, ...], str]]
"""Shape and type of each tensor."""

Module = TypeVar("Module", bound=nn.Module)


def one_line(error: object) -> str:
    """What there is to say, without line ends and of bounded length, whatever a file's names hold."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(error)).split())
    return text if len(text) <= MOST_WORDS else text[: MOST_WORDS - 3] + "..."


def check_header_size(path: Path) -> None:
    """Refuse what is no plain file, or has a header that no model has, before anything reads it."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    if not 2 <= size <= MOST_HEADER:  # the shortest is {}
        raise InputError(f"{path}: truncated or damaged (no model has a header of {size} bytes)")


DRAWING = ("uniform_", "normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_", "xavier_normal_")
"""Methods of tensors and functions of `nn.init` that fill a tensor."""


class _NoValues(TorchFunctionMode):
    """Values of new tensors do not matter, and drawing them on the `meta` device imports torch's compiler, a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in DRAWING:
            return args[0] if args else kwargs["tensor"]
        if func is torch.randn:
            return torch.empty(*args)
        if func is torch.eye:
            return torch.empty(args[0], args[0])
        return func(*args, **(kwargs or {}))


def check_fits(make: Callable[[], nn.Module], header: Header, counts: Mapping[str, int], widths: Iterable[int]) -> None:
    """Whether a file's tensors are those of the module that its settings describe; nothing is allocated.

    Args:
        make: builds the module.
        counts: settings that say how many parts it has. Each part has a tensor, so there are no more parts than those.
        widths: of its square matrices.
    """
    for name, count in counts.items():
        if count > len(header):
            raise InputError(f"weights do not fit their config ({name} is {count}, there are {len(header)} tensors)")
    numbers = sum(_size(shape) for shape, _ in header.values())
    for width in widths:  # `make` may be unable to go without memory: what it then takes is bounded by this
        if width * width > numbers:
            raise InputError(f"weights do not fit their config (hidden is {width}, there are {numbers} numbers)")
    expected = _without_memory(make)
    if expected is not None:
        _compare(expected, header)


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Weights that are no numbers give answers that are none."""
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(f"weights are damaged ({name} holds NaN or infinity)")


def checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Of names, shapes, types and values, and of the facts beside them."""
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def whole(values: Mapping[str, Any], name: str, least: int = 0) -> int:
    """A whole number among the facts of a file."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"facts are damaged ({name} is {value!r}, must be a whole number of at least {least})")
    return value


def section(values: object, name: str) -> dict[str, Any]:
    """An object among the facts of a file."""
    found = values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"facts are damaged ({name} is {type(found).__name__}, must be an object)")
    return found


def choice(values: Mapping[str, Any], name: str, choices: Iterable[str]) -> Any:
    """One of a few words among the facts of a file."""
    value, known = values.get(name), tuple(choices)
    if value not in known:
        raise InputError(f"facts are damaged ({name} is {value!r}, must be one of {', '.join(known)})")
    return value


def _without_memory(make: Callable[[], nn.Module]) -> dict[str, Tensor] | None:
    """The weights of the module as shapes; None where a part of it must look at values (PNA's degrees)."""
    try:
        with torch.device("meta"), _NoValues():
            return make().state_dict()
    except (InputError, ImportError):
        raise
    except Exception as error:  # any convolution of PyG may be named, and each fails in a way of its own
        if "meta tensor" in str(error):
            return None
        raise InputError(f"settings describe no model ({type(error).__name__}: {error})") from error


def _compare(expected: Mapping[str, Tensor], header: Header) -> None:
    if expected.keys() != header.keys():
        missing, extra = sorted(expected.keys() - header.keys()), sorted(header.keys() - expected.keys())
        which = f"{missing[0]} is missing" if missing else f"{extra[0]} is none of the model's"
        raise InputError(f"weights do not fit their config ({which})")
    for name, value in expected.items():
        shape, kind = header[name]
        if tuple(value.shape) != shape:
            raise InputError(f"weights do not fit their config ({name} is {shape}, must be {tuple(value.shape)})")
        if not (kind in FLOATS if value.is_floating_point() else kind == KINDS.get(value.dtype)):
            raise InputError(f"weights do not fit their config ({name} is {kind}, must be {value.dtype})")


def _size(shape: Iterable[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
