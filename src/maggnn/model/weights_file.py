"""Files of weights: safetensors with plain facts as JSON in the header, so that loading unpickles nothing.

A file is written atomically (`data.files`). It may come from an untrusted source, so it is checked before anything is
allocated. Its header lists its tensors. The module that its settings describe is built without memory (on torch's
`meta` device) and compared with the header; only then are weights read. A checksum detects damage. It is not a
signature: whoever changes a file can also change its checksum.
"""

from __future__ import annotations

import hashlib
import json
import math
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
"""The version of the format, which changes when names or shapes of weights change."""

MOST_HEADER = 16 * 2**20
"""The largest size of a file's header in bytes; models of this package have some tens of thousands."""

MOST_FACTS = 4 * 2**20
"""The largest number of characters of the JSON in the header."""

MOST_WORDS = 300
"""The largest number of characters of a message that quotes a file."""

FLOATS = {"F16", "BF16", "F32", "F64"}
KINDS = {torch.int64: "I64", torch.int32: "I32", torch.uint8: "U8", torch.bool: "BOOL"}
"""The names of types in a header."""

Header = dict[str, tuple[tuple[int, ...], str]]
"""The shape and type of each tensor."""

Module = TypeVar("Module", bound=nn.Module)

POOLINGS, HISTORIES = ("mean", "sum"), ("zero", "mean", "lstm")
"""The settings that an agent for other data may have."""


class Plan(NamedTuple):
    """A description of a file's module, from its facts.

    Attributes:
        make: builds the module with random weights.
        encoders: the settings of its encoders.
        specs: the features that it reads.
        config: the config that it was trained with.
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
    """Write tensors and JSON facts to `path` atomically.

    Args:
        with_checksum: whether to add a checksum, for files that are shared; for a large checkpoint it would cost time.
        before_rename: called when the new file is complete and the old one, if any, still has its name.
    """
    from maggnn.data.files import whole_file  # not needed for reading models

    metadata = {"format": FORMAT, "facts": json.dumps(facts)}
    if with_checksum:
        metadata["checksum"] = checksum(tensors, metadata["facts"])
    with whole_file(path, check=lambda _: before_rename()) as waiting:
        try:
            save_file({name: value.detach().cpu().contiguous() for name, value in tensors.items()}, waiting, metadata)
        except SafetensorError as error:  # such as a full disk
            raise OSError(str(error)) from error


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what `save` wrote."""
    with _opened(path) as (file, metadata, facts):
        return _tensors(file, metadata), facts


def load_planned(path: Path, plan: Callable[[dict[str, Any]], Plan]) -> tuple[dict[str, Tensor], dict[str, Any], Plan]:
    """Read the weights of the module that the facts describe; if they do not match, nothing is allocated."""
    with _opened(path) as (file, metadata, facts):
        try:
            planned = plan(facts)
            _check_plan(planned, {name: _shape_and_type(file, name) for name in file.keys()})  # noqa: SIM118
            tensors = _tensors(file, metadata)
            check_finite(tensors)
        except InputError as error:
            reason = str(error).removeprefix(f"{path}: ")
            raise InputError(one_line(f"{path}: {reason}")) from error
    return tensors, facts, planned


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def checksum_of(path: Path) -> str:
    """Return the checksum in a model's file; empty for older files, which have none."""
    with _opened(path) as (_, metadata, _):
        return metadata.get("checksum", "")


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str], dict[str, Any]]]:
    """Open a file and yield it with the metadata of its header and its facts; any error becomes one line."""
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
    expected = metadata.get("checksum")
    if expected is not None and expected != checksum(tensors, metadata["facts"]):
        raise ValueError("the checksum does not match the weights and facts")
    return tensors


def _shape_and_type(file: Any, name: str) -> tuple[tuple[int, ...], str]:
    part = file.get_slice(name)
    return tuple(part.get_shape()), part.get_dtype()


def _check_plan(plan: Plan, header: Header) -> None:
    counts = {"encoder.num_layers": max(encoder.num_layers for encoder in plan.encoders)}
    counts["columns of features"] = max(len(spec.categories) for spec in plan.specs)
    check_fits(plan.make, header, counts, [encoder.hidden for encoder in plan.encoders])


def one_line(error: object) -> str:
    """Return the text of an error without line ends and with a bounded length; it may quote names from a file."""
    text = " ".join("".join(sign if sign.isprintable() else " " for sign in str(error)).split())
    return text if len(text) <= MOST_WORDS else text[: MOST_WORDS - 3] + "..."


def check_header_size(path: Path) -> None:
    """Reject anything but a regular file with a header of plausible size, before it is read."""
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
"""Methods of tensors and functions of `nn.init` that initialise a tensor."""


class _NoValues(TorchFunctionMode):
    """Skips the initialisation of tensors: on the `meta` device it imports torch's compiler, which takes a second."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in DRAWING:
            return args[0] if args else kwargs["tensor"]
        if func is torch.randn:
            return torch.empty(*args)
        if func is torch.eye:
            return torch.empty(args[0], args[0])
        return func(*args, **(kwargs or {}))


def check_fits(make: Callable[[], nn.Module], header: Header, counts: Mapping[str, int], widths: Iterable[int]) -> None:
    """Check that a file's tensors are those of the module that its settings describe; nothing is allocated.

    Args:
        make: builds the module.
        counts: settings that are numbers of parts. Each part has a tensor, so they cannot exceed the number of tensors.
        widths: the widths of its square matrices.
    """
    for name, count in counts.items():
        if count > len(header):
            raise InputError(f"weights do not fit their config ({name} is {count}, there are {len(header)} tensors)")
    numbers = sum(math.prod(shape) for shape, _ in header.values())
    for width in widths:  # bounds the memory of `make`, which may be unable to use the meta device
        if width * width > numbers:
            raise InputError(f"weights do not fit their config (hidden is {width}, there are {numbers} numbers)")
    expected = _without_memory(make)
    if expected is not None:
        _compare(expected, header)


def check_finite(tensors: Mapping[str, Tensor]) -> None:
    """Raise an `InputError` if a weight is not finite."""
    for name, value in tensors.items():
        if value.is_floating_point() and not bool(value.isfinite().all()):
            raise InputError(f"weights are damaged ({name} contains NaN or infinity)")


def checksum(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Return the checksum of names, shapes, types and values of tensors, and of the facts."""
    digest = hashlib.sha256(facts.encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def whole(values: Mapping[str, Any], name: str, least: int = 0) -> int:
    """Return an integer from the facts of a file."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"facts are damaged ({name} is {value!r}, must be a whole number of at least {least})")
    return value


def section(values: object, name: str) -> dict[str, Any]:
    """Return an object from the facts of a file."""
    found = values.get(name) if isinstance(values, dict) else None
    if not isinstance(found, dict):
        raise InputError(f"facts are damaged ({name} is {type(found).__name__}, must be an object)")
    return found


def choice(values: Mapping[str, Any], name: str, choices: Iterable[str]) -> Any:
    """Return a value from the facts of a file that must be one of `choices`."""
    value, known = values.get(name), tuple(choices)
    if value not in known:
        raise InputError(f"facts are damaged ({name} is {value!r}, must be one of {', '.join(known)})")
    return value


def _without_memory(make: Callable[[], nn.Module]) -> dict[str, Tensor] | None:
    """Return the weights of the module on the meta device; None if a part of it needs values (PNA's degrees)."""
    try:
        with torch.device("meta"), _NoValues():
            return make().state_dict()
    except (InputError, ImportError):
        raise
    except Exception as error:  # a convolution of PyG can raise any error
        if "meta tensor" in str(error):
            return None
        raise InputError(f"settings describe no model ({type(error).__name__}: {error})") from error


def _compare(expected: Mapping[str, Tensor], header: Header) -> None:
    if expected.keys() != header.keys():
        missing, extra = sorted(expected.keys() - header.keys()), sorted(header.keys() - expected.keys())
        which = f"{missing[0]} is missing" if missing else f"{extra[0]} is not one of the model's"
        raise InputError(f"weights do not fit their config ({which})")
    for name, value in expected.items():
        shape, kind = header[name]
        if tuple(value.shape) != shape:
            raise InputError(f"weights do not fit their config ({name} is {shape}, must be {tuple(value.shape)})")
        if not (kind in FLOATS if value.is_floating_point() else kind == KINDS.get(value.dtype)):
            raise InputError(f"weights do not fit their config ({name} is {kind}, must be {value.dtype})")


def agent_shape(values: Any) -> AgentShape | None:
    """Return the inverse of `asdict` of an `AgentShape`."""
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
