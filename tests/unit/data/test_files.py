"""A file is replaced by a whole one or not at all, and a failure says what failed."""

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from maggnn.data.files import check_writable, whole_file
from maggnn.errors import InputError
from maggnn.model.weights_file import save


@pytest.fixture
def old(tmp_path) -> Path:
    (tmp_path / "out.csv").write_bytes(b"old")
    return tmp_path / "out.csv"


def assert_untouched(old: Path) -> None:
    assert [path.name for path in old.parent.iterdir()] == ["out.csv"]
    assert old.read_bytes() == b"old"


def test_what_is_written_takes_the_place_of_what_was_there(old):
    with whole_file(old) as waiting:
        waiting.write_bytes(b"new")
        assert old.read_bytes() == b"old"
        assert waiting.suffix == ".csv" and waiting.parent == old.parent
    assert old.read_bytes() == b"new"
    assert [path.name for path in old.parent.iterdir()] == ["out.csv"]


def test_folders_are_made(tmp_path):
    with whole_file(tmp_path / "a" / "b" / "out") as waiting:
        waiting.write_text("new")
    assert (tmp_path / "a" / "b" / "out").read_text() == "new"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_permissions_are_those_of_any_new_file(tmp_path, mask, mode):
    """Whatever the library that writes it does: others must be able to read a model that they are given."""
    before = os.umask(mask)
    try:
        save(tmp_path / "model.safetensors", {"weight": torch.ones(2)}, {})
        with whole_file(tmp_path / "text") as waiting:
            waiting.write_text("new")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in sorted(tmp_path.iterdir())] == [mode, mode]


def test_a_full_disk_leaves_the_previous_file(old):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        words = r"out.csv: cannot be written \(.+\); the previous file is unchanged$"
        with pytest.raises(InputError, match=words), whole_file(old) as waiting:
            waiting.write_bytes(bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_untouched(old)


def test_other_errors_pass_as_they_are(old):
    with pytest.raises(ZeroDivisionError), whole_file(old) as waiting:
        waiting.write_text(f"half of {1 / waiting.write_bytes(b'')}")
    assert_untouched(old)


def test_a_check_that_fails_is_no_failure_of_writing(old):
    def check(path: Path) -> None:
        assert path.read_bytes() == b"new"
        raise OSError("no such library")

    with pytest.raises(OSError, match=r"^no such library$"), whole_file(old, check) as waiting:
        waiting.write_bytes(b"new")
    assert_untouched(old)


def test_a_place_is_tried_before_long_work(old, tmp_path):
    check_writable(old)
    assert_untouched(old)
    with pytest.raises(InputError, match="cannot be written"):
        check_writable(old / "below" / "a file")


def test_what_a_killed_process_left_goes_with_the_next_file(tmp_path):
    """A process that lives keeps what it writes, and so do processes of other machines."""
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom maggnn.data.files import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as waiting:\n    waiting.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    path = tmp_path / "model.bin"
    assert subprocess.run([sys.executable, "-c", program, str(path)], check=False).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    elsewhere = [left.with_name(left.name.replace(left.name[7:15], "00000000")), left.with_name(".model.mine.bin")]
    alive = left.with_name(f"{left.name[:16]}{os.getppid()}.bin")
    for kept in (*elsewhere, alive):
        kept.write_text("of others")
    with whole_file(path) as waiting:
        waiting.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, *elsewhere, alive])
