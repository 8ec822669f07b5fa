"""An earlier home of `load_own`, for programs that import it from here; `own_file` has it now."""

from maggnn.data.own_file import load_own

__all__ = ["load_own"]
