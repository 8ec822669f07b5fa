"""A lock file keeps other processes out, or makes them wait, and is free again when its holder ends."""

import resource
import subprocess
import sys
import time

import pytest

from maggnn.data.files import locked
from maggnn.errors import InputError

HOLD = "from pathlib import Path; from maggnn.data.files import locked; import sys, time\n"
HOLD += "with locked(Path(sys.argv[1])): print('held', flush=True); time.sleep(float(sys.argv[2]))"


def holder(path, seconds):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_another_process_is_refused_in_one_line_or_waits(tmp_path):
    path = tmp_path / "new" / "run.lock"
    process = holder(path, 2.0)
    with pytest.raises(InputError, match="somebody is at work"), locked(path, "somebody is at work"):
        pass
    began = time.monotonic()
    with locked(path):
        assert time.monotonic() - began > 0.1
    process.wait()


def test_a_killed_holder_holds_nothing(tmp_path):
    path = tmp_path / "run.lock"
    process = holder(path, 60)
    process.kill()
    process.wait()
    with locked(path, "somebody is at work"):
        pass


def test_a_full_disk_does_not_hide_what_went_wrong(tmp_path):
    """The id of the process cannot be written into the lock file then, which is not what the user must know."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        with pytest.raises(InputError, match="the reason"), locked(tmp_path / "run.lock"):
            raise InputError("the reason")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())
