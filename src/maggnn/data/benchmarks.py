"""The former module of `load_own`, kept for programs that import it from here; it is now in `own_file`."""

from maggnn.data.own_file import load_own

__all__ = ["load_own"]
