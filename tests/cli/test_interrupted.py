"""Commands that are stopped or run out of disk: one line, nothing lost, and the same command goes on.

What becomes of commands that are killed is tested in test_killed.py.
"""

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

import killing

TABLE = ("--smiles", "smiles", "--target", "y", "--workers", "1")
FIT = ("fit", "mine.csv", *TABLE, "--ensemble", "1")
CHAINS = [("C" * (1 + number % 9) + "O" * (number % 3), number % 3) for number in range(60)]


def started(*arguments: str, cwd: Path, **options: Any) -> BaseProcess:
    return killing.started(list(arguments), cwd, **options)


def ended(process: BaseProcess, printed: Path) -> tuple[int | None, str]:
    """Its exit code and what it said, once it has ended."""
    process.join(killing.LONGEST_S)
    return process.exitcode, (printed / "err.txt").read_text()


def ran(*arguments: str, cwd: Path, **options: Any) -> tuple[int | None, str]:
    return ended(started(*arguments, cwd=cwd, **options), cwd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "mine.csv").write_text("smiles,y\n" + "".join(f"{smiles},{y}.5\n" for smiles, y in CHAINS))
    (folder / "long.csv").write_text("smiles,y\n" + "".join(f"{smiles},{y}.5\n" for smiles, y in CHAINS * 40))
    code, err = ran(*FIT, "--steps", "30", "-o", "whole", cwd=folder)
    assert code == 0, err
    return folder


@pytest.mark.parametrize("ensemble", ["1", "2"])
def test_a_fit_whose_card_could_not_be_written_goes_on(folder, ensemble):
    """The model is saved, and the same command does the rest; killed there, it does too."""
    whole, half = f"whole_{ensemble}", f"half_{ensemble}"
    command = (*FIT[:-1], ensemble, "--steps", "30", "-o")
    code, err = ran(*command, whole, cwd=folder)
    assert code == 0, err
    (folder / half / "README.md").mkdir(parents=True)
    code, err = ran(*command, half, cwd=folder)
    assert code == 2 and f"{half}/README.md: cannot be written" in err.strip().splitlines()[-1]
    assert list((folder / half).glob("training-*")) and (folder / half / "fitted.json").exists()
    code, err = ran(*command[:-2], "31", "-o", half, cwd=folder)
    assert code == 2 and "contains a model already" in err  # other settings are another model
    (folder / half / "README.md").rmdir()
    code, err = ran(*command, half, cwd=folder)
    assert code == 0, err
    names = [sorted(path.name for path in (folder / name).iterdir()) for name in (whole, half)]
    assert names[0] == names[1] and "README.md" in names[0]
    logs = [(folder / name / "metrics.jsonl").read_text() for name in (whole, half)]
    assert logs[0] == logs[1]


def waited_for(path: Path, process: BaseProcess) -> None:
    """Until the path, the name of which may be a pattern, exists."""
    while not list(path.parent.glob(path.name)):
        assert process.exitcode is None, "it ended before"
        time.sleep(0.02)


def is_stopped(code: int | None, err: str, folder: Path) -> None:
    assert code == 130, err
    assert err.strip().splitlines()[-1].startswith("maggnn: stopped") and "Traceback" not in err
    assert not (folder / "stopped" / "fitted.json").exists() and not (folder / "stopped.csv").exists()


STOPPED_FIT = ("fit", "mine.csv", *TABLE, "--steps", "20000", "-o", "stopped")
STOPPED_PREDICT = ("predict", "whole", "long.csv", "-o", "stopped.csv", "--workers", "1")


@pytest.mark.parametrize(
    ("command", "begun"), [(STOPPED_FIT, "stopped/training-*"), (STOPPED_PREDICT, ".stopped.csv.lock")]
)
def test_ctrl_c_is_no_success(folder, command, begun):
    process = started(*command, cwd=folder)
    waited_for(folder / begun, process)
    time.sleep(0.3)
    os.kill(process.pid, signal.SIGINT)
    is_stopped(*ended(process, folder), folder)


def test_ctrl_c_while_a_command_starts_is_no_success(folder, start_command):
    """While it imports what it needs."""

    def as_at_a_terminal() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    with start_command("maggnn", *STOPPED_PREDICT, cwd=folder, preexec_fn=as_at_a_terminal) as process:
        time.sleep(0.7)  # on an idle machine the whole command takes little more than a second
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=200)
    is_stopped(process.returncode, err, folder)


def test_ctrl_c_at_a_terminal_reaches_the_workers_in_silence(folder, start_command):
    """A terminal interrupts all processes of a command."""
    (folder / "longer.smi").write_text("CCO\n" * 500_000)
    command, parts = ("predict", "whole", "longer.smi", "-o", "longer.csv"), folder / "longer.csv.parts"
    with start_command("maggnn", *command, cwd=folder, start_new_session=True) as process:
        deadline = time.monotonic() + 100
        while not list(parts.glob("part-*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=200)
    is_stopped(process.returncode, err, folder)


FINALISED = """
import sys, typer
from maggnn.apps.terminal import run_app

class Finalised:
    def __del__(self):
        raise %s

app = typer.Typer()

@app.command()
def command():
    Finalised()
    print("went on")

sys.argv = ["maggnn"]
run_app(app, "maggnn")
"""


@pytest.mark.parametrize(("raised", "code", "printed"), [("KeyboardInterrupt", 130, ""), ("OSError", 0, "went on\n")])
def test_ctrl_c_where_python_ignores_exceptions_is_no_success(raised, code, printed):
    """While an object is finalised, Python reports exceptions and goes on; Ctrl-C may come at that moment."""
    done = subprocess.run([sys.executable, "-c", FINALISED % raised], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (code, printed)
    if code:
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("maggnn: stopped")
    else:
        assert "Exception ignored" in done.stderr


def test_a_fit_without_room_says_so_and_keeps_the_old_model(folder):
    before = {path.name: path.read_bytes() for path in (folder / "whole").iterdir()}
    command = (*FIT, "--steps", "3", "-o", "whole", "--overwrite")
    code, err = ran(*command, cwd=folder, largest_file=20_000)
    assert code == 2 and "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("maggnn: whole")
    after = {path.name: path.read_bytes() for path in (folder / "whole").iterdir() if path.is_file()}
    assert {name: after[name] for name in before} == before


def test_predictions_without_room_leave_the_old_file_alone(folder):
    (folder / "out.csv").write_text("what was there\n")
    command = ("predict", "whole", "long.csv", "-o", "out.csv", "--overwrite", "--workers", "1")
    code, err = ran(*command, cwd=folder, largest_file=4_000)
    assert code == 2 and "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("maggnn: out.csv")
    assert (folder / "out.csv").read_text() == "what was there\n"
    code, err = ran(*command, cwd=folder)
    assert code == 0, err
    assert len((folder / "out.csv").read_text().splitlines()) == 1 + 40 * len(CHAINS)


def test_training_without_room_says_so(folder):
    (folder / "tiny.toml").write_text(
        '[data]\nname = "shrikhande_rook"\n[training]\npredictor_steps = 4\nagent_steps = 4\n'
        "batch_size = 2\n[runtime]\nlog_every = 2\ncheckpoint_every = 2\ntests = 1\n"
    )
    code, err = ran("train", "tiny.toml", "-o", "run", cwd=folder, largest_file=10_000)
    assert code == 2 and "Traceback" not in err
    assert err.strip().splitlines()[-1].startswith("maggnn: run/")


def test_a_log_without_room_says_so_and_the_run_goes_on_later(folder):
    """The disk is full between two checkpoints."""
    (folder / "logged.toml").write_text(
        '[data]\nname = "shrikhande_rook"\n[encoder]\nnum_layers = 1\nhidden = 4\n[agent]\ntuple_order = 0\n'
        "num_tuples = 1\nnum_moves = 0\n[training]\npredictor_steps = 700\nagent_steps = 0\nbatch_size = 2\n"
        "[runtime]\nlog_every = 1\ncheckpoint_every = 100\ntests = 1\n"
    )
    command = ("train", "logged.toml", "-o", "logged")
    code, err = ran(*command, cwd=folder, largest_file=30_000)
    assert code == 2 and "Traceback" not in err, err
    assert err.strip().splitlines()[-1].startswith("maggnn: logged/metrics.jsonl: cannot be written")
    code, err = ran(*command, cwd=folder)
    assert code == 0, err
    steps = [json.loads(line)["step"] for line in (folder / "logged" / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(700))


@pytest.mark.parametrize("command", ["fit", "train", "tune", "predict"])
def test_two_at_one_place(folder, tmp_path, command):
    """The second ends with one line that names the first, which goes on; killed, the first blocks nobody."""
    (folder / "slow.toml").write_text(
        '[data]\nname = "shrikhande_rook"\n[training]\npredictor_steps = 900000\nagent_steps = 0\nbatch_size = 2\n'
    )
    rest, lock = {
        "fit": (("mine.csv", *TABLE, "--steps", "900000", "-o", "two"), "two/fit.lock"),
        "train": (("slow.toml", "-o", "two_runs"), "two_runs/run.lock"),
        "tune": (("mine.csv", *TABLE, "--steps", "900000", "-o", "two_studies"), "two_studies/study.lock"),
        "predict": (("whole", "long.csv", "-o", "two.csv", "--workers", "1"), ".two.csv.lock"),
    }[command]
    first = started(command, *rest, cwd=folder, printed=tmp_path)
    assert first.pid is not None
    waited_for(folder / lock, first)
    time.sleep(0.1)
    os.kill(first.pid, signal.SIGSTOP)  # predictions may be quick
    try:
        code, err = ran(command, *rest, cwd=folder)
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.join()
    assert code == 2 and f"(process {first.pid})" in err.strip().splitlines()[-1] and "Traceback" not in err
    if command == "predict":
        code, err = ran(command, *rest, cwd=folder)
        assert code == 0 and not (folder / lock).exists(), err
