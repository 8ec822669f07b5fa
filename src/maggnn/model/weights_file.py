"""Files of weights: safetensors with plain facts as JSON in the header, so that loading unpickles nothing.

A file is replaced by a whole one or not at all (`data.files`), and a stranger may have written it, so it is checked
before anything is allocated. Its header says which tensors it holds. The module that its settings describe is built
without memory (torch's `meta` device) and compared with the header; only then are weights read. A checksum notices
damage. It is no signature: whoever changes a file can write another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from maggnn.config import Config, EncoderConfig, check_section
from maggnn.errors import DamagedError, InputError
from maggnn.model.features import FeatureSpec
from maggnn.model.q_network import AgentShape

FORMAT = "maggnn/2"
"""Changes when the names or shapes of weights do."""

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

POOLINGS, HISTORIES = ("mean", "sum"), ("zero", "mean", "lstm")
"""Of an agent that serves other data."""


class Plan(NamedTuple):
    """What a file's facts say of its module.

    Attributes:
        make: builds it with fresh weights.
        encoders: settings of its encoders.
        specs: of the features it reads.
        config: that it was trained with.
    """

    make: Callable[[], nn.Module]
    encoders: tuple[EncoderConfig, ...]
    specs: tuple[FeatureSpec, ...]
    config: Config


def save(
    path: Path,
    tensors: dict[str, Tensor],
    facts: dict[str, Any],
    with_checksum: bool = False,
    before_rename: Callable[[], None] = lambda: None,
) -> None:
    """Write tensors and JSON facts to `path`, all or nothing.

    Args:
        with_checksum: for files that travel; that of a large checkpoint would cost time at every write.
        before_rename: is called when the new file is complete and the old one, if any, still has its name.
    """
    from maggnn.data.files import whole_file  # who only reads models does not need it

    metadata = {"format": FORMAT, "facts": json.dumps(facts)}
    if with_checksum:
        metadata["checksum"] = checksum(tensors, metadata["facts"])
    with whole_file(path, check=lambda _: before_rename()) as waiting:
        try:
            save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, waiting, metadata)
        except SafetensorError as error:  # a full disk, for one
            raise OSError(str(error)) from error


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote."""
    with _opened(path) as (file, metadata, facts):
        return _tensors(file, metadata), facts


def load_planned(path: Path, plan: Callable[[dict[str, Any]], Plan]) -> tuple[dict[str, Tensor], dict[str, Any], Plan]:
    """Read weights that must be those of the module which the facts describe; else nothing is allocated."""
    with _opened(path) as (file, metadata, facts):
        try:
            planned = plan(facts)
            _check_plan(planned, {name: _described(file, name) for name in file.keys()})  # noqa: SIM118
            tensors = _tensors(file, metadata)
            check_finite(tensors)
        except InputError as error:
            said = str(error).removeprefix(f"{path}: ")
            raise InputError(one_line(f"{path}: {said}")) from error
    return tensors, facts, planned


def checksum_of(path: Path) -> str:
    """Of a model's file; empty in files from before there was one."""
    with _opened(path) as (_, metadata, _):
        return metadata.get("checksum", "")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str], dict[str, Any]]]:
    """An open file, its header's texts and its facts; whatever is wrong with it becomes one line."""
    check_header_size(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            _check_format(path, metadata.get("format", ""))
            yield file, metadata, _facts(metadata)
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError, MemoryError) as error:
        if isinstance(error, InputError):
            raise
        raise DamagedError(f"{path}: truncated or damaged ({one_line(error)})") from error


def _check_format(path: Path, found: str) -> None:
    if found != FORMAT:
        shown = one_line(found)
        raise InputError(
            f"{path}: written by another version ({shown}, this one reads {FORMAT}): train it again"
            if found.startswith("maggnn/")
            else f"{path}: not a maggnn file of format {FORMAT}"
        )


def _facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    text = metadata["facts"]
    if len(text) > MOST_FACTS:
        raise ValueError(f"facts of {len(text)} characters")
    facts = json.loads(text)
    if not isinstance(facts, dict):
        raise ValueError(f"facts are a {type(facts).__name__}, must be an object")
    return facts


def _tensors(file: Any, metadata: Mapping[str, str]) -> dict[str, Tensor]:
    tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    said = metadata.get("checksum")
    if said is not None and said != checksum(tensors, metadata["facts"]):
        raise ValueError("weights and facts do not have the checksum that was written with them")
    return tensors


def _described(file: Any, name: str) -> tuple[tuple[int, ...], str]:
    part = file.get_slice(name)
    return tuple(part.get_shape()), part.get_dtype()


def _check_plan(plan: Plan, header: Header) -> None:
    counts = {"encoder.num_layers": max(encoder.num_layers for encoder in plan.encoders)}
    counts["columns of features"] = max(len(spec.categories) for spec in plan.specs)
    check_fits(plan.make, header, counts, [encoder.hidden for encoder in plan.encoders])


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


def agent_shape(values: Any) -> AgentShape | None:
    """The inverse of `asdict` of an `AgentShape`."""
    if values is None:
        return None
    entries = section({"travelling": values}, "travelling")
    try:
        encoder = EncoderConfig(**section(entries, "encoder"))
    except TypeError as error:
        raise InputError(f"facts are damaged ({error})") from error
    check_section(encoder, "pretrained agent")
    history = choice(entries, "history", HISTORIES)
    return AgentShape(encoder, choice(entries, "pooling", POOLINGS), history)
