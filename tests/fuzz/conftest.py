"""The one contract: a command succeeds and is right, or says in one line what is wrong and has changed nothing."""

from pathlib import Path
from typing import Any

import pytest

LONGEST_LINE = 600


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below, and every folder (None)."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def kept(call_command):
    """Run `maggnn`; an exception that escapes fails the test, and so does a mistake that is not one line."""

    def run(*arguments: Any, cwd: Path):
        before = contents(cwd)
        ended = call_command("maggnn", *arguments, cwd=cwd)
        assert ended.code in (0, 2), ended
        assert "Traceback" not in ended.err
        if ended.code == 2:
            assert len(ended.mistake()) < LONGEST_LINE
            assert contents(cwd) == before
        return ended

    return run
