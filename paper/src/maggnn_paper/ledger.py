"""The ledger: every number shown to a reader, written only by the program that measured it.

`results/ledger.jsonl` holds one JSON object a line and is only ever appended to, so a failed or worse run
stays visible. Of rows that measure the same thing (see `LedgerRow.key`) the newest counts. Two programs may
write at once (the file is locked), and a line cut short by a crash costs that line, not the next one.

Neighbours: the experiments append here; `maggnn_paper.report` renders `docs/results/` and the README's table.
"""

import dataclasses
import json
import math
import os
import platform
import subprocess
import types
import typing
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from maggnn.data.files import locked
from maggnn.errors import InputError, did_you_mean

DEFAULT_PATH = Path("results/ledger.jsonl")
"""Where rows go by default, relative to the current directory."""

TABLES = (
    "synthetic",
    "moves",
    "passes",
    "theorem1",
    "theorem2",
    "demo",
    "own_loop",
    "ceilings",
    "families",
    "relabelling",
    "motivation",
    "brec_paper",
    "brec_rpc",
    "cycles",
    "edges",
    "molecules",
    "qm9",
    "transfer",
    "ablation",
    "bench_inference",
    "bench_train",
    "bench_scaling",
    "bench_floor",
    "people",
    "chemist",
    "pretraining",
    "right_answers",
)
"""What a row may belong to; also the order in which the report shows them."""

METHODS = (
    "gin",
    "gine",
    "pna",
    "rni",
    "dropgnn",
    "pf-gnn",
    "k-osan",
    "id-gnn",
    "ngnn",
    "gnn-ak+",
    "sun",
    "kp-gnn",
    "sswl+",
    "i2gnn",
    "ppgn",
    "1-2-3-gnn",
    "gsn",
    "cin",
    "random-marks",
    "random-moves",
    "central-marks",
    "central-starts",
    "mag-gnn-finest",
    "mag-gnn-dqn",
    "mag-gnn-double-dqn",
    "mag-gnn-shared",
    "mag-gnn",
    "mag-gnn-pre",
)
"""Who was measured; also the order of the report's rows: the baselines, the two controls, then the agent."""

BENCH_METHODS = ("mpnn", *(f"pyg-{name}+{how}" for name in ("gin", "i2gnn") for how in ("loader", "resident")), "floor")
"""Further methods that only tables whose name begins with `bench_` may use."""

CEILING_METHODS = ("refinement",)
"""Colour refinement, which learns nothing, in tables `ceilings` and `families` alone."""

PEOPLE_METHODS = (
    "fingerprint-forest",
    "descriptor-boosting",
    "part-forest",
    "part-kernel",
    "part-boosting",
    "part-networks",
    "part-network+descriptors",
    "mag-gnn-blend",
)
"""Baselines alone, the parts of a fitted model and their blend, in tables `people` and `chemist` alone."""

CHEMIST_METHODS = ("chemprop", *PEOPLE_METHODS)
"""The same and another program, in table `chemist` alone."""

PRETRAINING_METHODS = tuple(
    f"{variant}-{part}"
    for variant in ("random", "pretrained", "central", "unmarked")
    for part in ("networks", "network+descriptors", "blend")
)
"""Parts of a fitted model by initial weights and marks of its networks, in table `pretraining` alone."""

MORE_METHODS = {
    "bench": BENCH_METHODS,
    "ceilings": CEILING_METHODS,
    "families": CEILING_METHODS,
    "people": PEOPLE_METHODS,
    "chemist": CHEMIST_METHODS,
    "pretraining": PRETRAINING_METHODS,
}
"""Methods that some tables have besides `METHODS`, by table."""

METRICS = (
    "accuracy",
    "auroc",
    "mae",
    "rmse",
    "prauc",
    "coverage",
    "pairs",
    "ms",
    "mb",
    "score",
    "moves",
    "difference",
    "fineness",
    "finest",
    "telling",
    "kills",
    "tracebacks",
    "lost",
    "percent",
)
"""What was measured: accuracy, auroc, prauc (average precision) and coverage in percent, mae and rmse in the target's
unit, pairs a count, score a probability, moves a number of moves, difference that of two answers; fineness the colours
of a stable colouring over |V|, finest and telling shares of tuples; kills, tracebacks and lost (rows) counts, percent a
share; further `exponent_<what>`."""

EXPONENT_PREFIX = "exponent_"

KEY_FIELDS = ("table", "dataset", "method", "metric", "m", "k", "t", "keep", "hardware", "marking", "inputs")
"""Rows that agree in these measure the same thing; the newest counts."""

LATER_FIELDS = ("marking", "inputs", "passes")
"""Not in the oldest rows, whose marks are all binary."""

Key = tuple[Any, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerRow:
    """One measured number and what is needed to judge and repeat it.

    Floats are finite or None. The optional fields are None where they have no meaning (a plain GIN has no m).
    """

    table: str
    """Which table or figure the row belongs to, one of `TABLES`."""
    dataset: str
    """Lower case; `sr25>zinc` for a transfer."""
    method: str
    """One of `METHODS`; benches, `people`, `chemist` and `ceilings` have some of their own too."""
    metric: str
    """One of `METRICS`, or `exponent_<what>`."""
    mean: float | None
    """The mean over runs of each run's mean over tests; None when the run failed (say why in `note`)."""
    std: float | None = None
    """Standard deviation over runs."""
    runs: int = 1
    """Independent trainings (seeds or folds)."""
    tests_per_run: int = 1
    """Repeated tests of one trained model, each from new random starting tuples."""
    m: int | None = None
    """Number of tuples."""
    k: int | None = None
    """Order of a tuple."""
    t: int | None = None
    """Number of moves."""
    keep: str | None = None
    """Keep rule: which state of the walk answers (`last`, `confident`)."""
    marking: str | None = None
    """How marks are encoded (`binary`, `distance`); None without marks and in the oldest rows."""
    inputs: str | None = None
    """What the networks read of a molecule: `atoms+bonds`, then `+walks`, `+rings`, `+distances`."""
    passes: int | None = None
    """Encoder passes over one graph for one answer, those of the Q-network included."""
    params: int | None = None
    """Trained parameters, predictor and agent together."""
    train_s: float | None = None
    """Seconds of training, per run."""
    infer_ms: float | None = None
    """Milliseconds for one pass over the test set."""
    peak_mb: float | None = None
    """Peak memory in megabytes."""
    hardware: str = dataclasses.field(default_factory=lambda: hardware_name())
    """Where it ran."""
    torch: str = dataclasses.field(default_factory=lambda: torch_version())
    """Version of torch."""
    commit: str = dataclasses.field(default_factory=lambda: commit_name())
    """Revision of the code that measured."""
    config: str | None = None
    """The configuration file, or a short description of what was set."""
    note: str | None = None
    """Anything a reader must know."""

    def __post_init__(self) -> None:
        for name, annotation in _field_types().items():
            _check_type(name, getattr(self, name), annotation)
        _check_allowed("table", self.table, TABLES)
        kind = "bench" if self.table.startswith("bench_") else self.table
        more = MORE_METHODS.get(kind, ())
        _check_allowed("method", self.method, METHODS + more)
        if not (self.metric.startswith(EXPONENT_PREFIX) and len(self.metric) > len(EXPONENT_PREFIX)):
            _check_allowed("metric", self.metric, METRICS)
        if not self.dataset or self.dataset != self.dataset.lower() or any(c.isspace() for c in self.dataset):
            raise InputError(f"ledger row: dataset {self.dataset!r} must be lower case without spaces")
        if self.runs < 1 or self.tests_per_run < 1:
            raise InputError(f"ledger row: runs {self.runs} and tests_per_run {self.tests_per_run} start at 1")

    @property
    def key(self) -> Key:
        """What the row measures: the values of `KEY_FIELDS`."""
        return tuple(
            (getattr(self, name) or "binary") if name == "marking" else getattr(self, name) for name in KEY_FIELDS
        )

    def to_json(self) -> str:
        """The row as one line of JSON, without the line break."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False, allow_nan=False)


def append(rows: LedgerRow | Iterable[LedgerRow], path: Path | str = DEFAULT_PATH) -> None:
    """Add rows at the end of the ledger, all or none visible to other writers, and flush them to disk.

    Args:
        rows: One row or several.
        path: The ledger; it and its folder are made where missing.
    """
    rows = [rows] if isinstance(rows, LedgerRow) else list(rows)
    text = "".join(row.to_json() + "\n" for row in rows)
    if not text:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock")), path.open("a+b") as file:
        if _ends_in_partial_line(file):
            text = "\n" + text
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: Path | str = DEFAULT_PATH) -> list[LedgerRow]:
    """All rows, oldest first; a missing file is an empty ledger.

    A line that is not valid JSON (cut short by a crash) is skipped with a warning that names it.

    Raises:
        InputError: A complete line has fields or values that no ledger row may have.
    """
    path = Path(path)
    if not path.exists():
        return []
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except ValueError:  # bad JSON, or bytes cut inside a character
            warnings.warn(f"{path}, line {number}: not a complete row (a crash?), skipped", stacklevel=2)
            continue
        rows.append(_row_from(values, f"{path}, line {number}"))
    return rows


def newest(rows: Iterable[LedgerRow]) -> list[LedgerRow]:
    """The rows that count: the last one of each key, in the order in which the keys first appeared."""
    latest: dict[Key, LedgerRow] = {}
    for row in rows:
        latest[row.key] = row
    return list(latest.values())


def hardware_name() -> str:
    """The GPU's name where torch sees one, else `cpu, <n> cores`."""
    import torch  # here, so that reading a ledger does not pay for importing torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    return f"cpu, {_usable_cores()} cores"


def torch_version() -> str:
    """The version of torch, with the build's suffix."""
    import torch

    return str(torch.__version__)


def commit_name(folder: Path | str | None = None) -> str:
    """The revision of the code: `MAGGNN_COMMIT`, else git's short name, else `unknown`.

    Args:
        folder: of a checkout; by default the one that this file is part of, wherever the command was started.

    `+dirty` is added when files outside `results/` differ from that revision: such a number cannot be
    repeated from the revision alone. (`results/` itself changes with every row.)
    """
    named = os.environ.get("MAGGNN_COMMIT", "").strip()
    if named:
        return named
    if folder is None:
        folder = Path(__file__).parent
        if not _git(folder, "ls-files", Path(__file__).name):  # installed: a repository around it is another one
            return "unknown"
    commit = _git(folder, "rev-parse", "--short", "HEAD")
    if not commit:
        return "unknown"
    changes = _git(folder, "status", "--porcelain", "--", ":/", ":(exclude,top)results")
    return f"{commit}+dirty" if changes else commit


def _row_from(values: Any, where: str) -> LedgerRow:
    """A row from parsed JSON; every field must be there, so that defaults never invent a measurement."""
    if not isinstance(values, dict):
        raise InputError(f"{where}: a ledger row is a JSON object, not {type(values).__name__}")
    names = [field.name for field in dataclasses.fields(LedgerRow)]
    for name in values:
        _check_allowed("field", name, names, where)
    missing = [name for name in names if name not in (*values, *LATER_FIELDS)]
    if missing:
        raise InputError(f"{where}: missing {', '.join(missing)}")
    try:
        return LedgerRow(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _check_allowed(what: str, value: str, allowed: Sequence[str], where: str = "ledger row") -> None:
    if value in allowed:
        return
    raise InputError(f"{where}: unknown {what} {value!r}{did_you_mean(value, allowed)}")


def _check_type(name: str, value: Any, annotation: Any) -> None:
    """Complain about a value that its field's annotation does not admit, or a float that is not finite."""
    allowed = typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
    # A bool is an int in Python, but never a measurement; an int is a fine value of a float field.
    fits = isinstance(value, allowed) or (float in allowed and isinstance(value, int))
    if not fits or isinstance(value, bool):
        kinds = " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)
        raise InputError(f"ledger row: {name} must be {kinds}, not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"ledger row: {name} is {value}; a failed run has None and says why in its note")


def _field_types() -> dict[str, Any]:
    return {field.name: field.type for field in dataclasses.fields(LedgerRow)}


def _ends_in_partial_line(file: typing.BinaryIO) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"


def _usable_cores() -> int:
    """Cores this process may use; a container often sees more than it may use."""
    if platform.system() == "Linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _git(folder: Path | str, *arguments: str) -> str:
    """What git prints, or an empty string where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
