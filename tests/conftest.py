"""Threads, data and commands: what all tests share."""

import importlib.util
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import pytest
import torch

# Models of tests are so small that several threads only wait for each other.
os.environ["OMP_NUM_THREADS"] = "1"  # in the processes that tests start
torch.set_num_threads(1)  # in this one

if not torch.cuda.is_available():
    # Triton reads it when it is first imported, and tests of other things than kernels may import it too.
    os.environ.setdefault("TRITON_INTERPRET", "1")

sys.path.append(str(Path(__file__).parent))  # so that tests can import `builders`

REPOSITORY = Path(__file__).resolve().parents[1]
LONGEST = (
    "cli/test_ray.py", "cli/test_ray_training.py", "cli/test_killed.py", "cli/test_interrupted.py",
    "docs/test_tutorials.py", "unit/test_examples.py", "fuzz/test_tables.py", "paper/bench/test_bench.py",
    "learning/test_one_answer.py", "cli/test_export.py", "unit/apps/fit/test_several_targets.py",
    "learning/test_demo_learns.py", "cli/test_tables.py", "unit/training/test_devices.py", "cli/test_fit_predict.py",
    "learning/test_resume.py",
)  # fmt: skip
"""Files that take longest: two processes share the files, and one that is begun last would leave the other waiting."""

COMMAND_LINES = {"maggnn": "maggnn.apps.cli", "maggnn-paper": "maggnn_paper.cli"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, all others in their order; `--no-loadscope-reorder` keeps it."""
    order = {REPOSITORY / "tests" / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


class Ended(NamedTuple):
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    def output(self) -> str:
        """What a command printed that succeeded."""
        assert self.code == 0, self.err
        return self.out

    def mistake(self, program: str = "maggnn") -> str:
        """The one line about a user's mistake: exit code 2, nothing on standard output, no traceback."""
        assert (self.code, self.out) == (2, ""), self
        lines = self.err.strip().splitlines()
        assert len(lines) == 1 and lines[0].startswith(f"{program}: "), self.err
        return lines[0]


class RunsCommands(Protocol):
    def __call__(self, program: str, *arguments: Any, cwd: Path, **environment: str) -> Ended: ...


class StartsCommands(Protocol):
    def __call__(self, program: str, *arguments: Any, cwd: Path, **options: Any) -> subprocess.Popen[str]: ...


@pytest.fixture(scope="session")
def start_command() -> StartsCommands:
    """A command in a process of its own, to be interrupted; options are those of `Popen`."""

    def start(program: str, *arguments: Any, cwd: Path, **options: Any) -> subprocess.Popen[str]:
        command = [str(Path(sys.executable).parent / program), *map(str, arguments)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=cwd, text=True, **(pipes | options))

    return start


@pytest.fixture(scope="session")
def run_command(start_command: StartsCommands) -> RunsCommands:
    """A command in a process of its own, as people run it, until it ends."""

    def run(program: str, *arguments: Any, cwd: Path, **environment: str) -> Ended:
        with start_command(program, *arguments, cwd=cwd, env={**os.environ, **environment}) as process:
            try:
                out, err = process.communicate(timeout=200)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        return Ended(process.returncode, out, err)

    return run


@pytest.fixture(scope="session")
def call_command() -> RunsCommands:
    """A command in this process, where torch is loaded already: a process of its own takes seconds to start."""

    def call(program: str, *arguments: Any, cwd: Path, **environment: str) -> Ended:
        main, code = import_module(COMMAND_LINES[program]).main, 0
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", [program, *map(str, arguments)])
            patch.chdir(cwd)
            for name, value in environment.items():
                patch.setenv(name, value)
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 1
        return Ended(code, *(printed.buffer.getvalue().decode() for printed in (out, err)))

    return call


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


@pytest.fixture
def double_precision() -> Iterator[None]:
    """New tensors in double precision, so that answers can be compared exactly; torch's own generator is seeded."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="session")
def small_runs() -> ModuleType:
    """Small trained models for the page: `unit/apps/show/small_runs.py`."""
    path = Path(__file__).parent / "unit" / "apps" / "show" / "small_runs.py"
    spec = importlib.util.spec_from_file_location("small_runs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
