"""The processes of Ray's actors, for tests that kill them."""

from typing import Any

import psutil


def actors(kind: str) -> list[Any]:
    """The processes of one kind of actors of the Ray that this process has started."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if _title(child).startswith(f"ray::{kind}")]


def _title(process: Any) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
