"""Imports follow one straight line, and the core needs only torch, numpy and safetensors."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "maggnn"

LINE = (
    ("errors",),
    ("config", "capture", "checks"),
    ("runtime", "gathering"),
    ("graphs",),
    ("packed",),
    ("kernels", "conversions"),
    ("structure",),
    ("tuples", "data", "targets"),
    ("state", "marking", "features", "history"),
    ("rings",),
    ("refinement",),  # what marks can tell apart, before any network
    ("planner",),
    ("normalise",),
    ("encoder",),
    ("predictor",),  # before the Q-network, which may build its state from the predictor's embedding
    ("q_network",),
    ("agent", "environment"),
    ("model", "particles"),
    ("frozen", "equivariance"),
    ("canonical",),
    ("engine",),
    ("baselines",),
    ("training",),
    ("experiments",),
    ("bench",),
    ("apps",),
)
"""A part may import itself and what stands in an earlier group, never its own group's other parts."""

RANK = {name: rank for rank, group in enumerate(LINE) for name in group}
DATA_MAY_USE = {"data", "graphs", "packed", "errors", "conversions"}
CORE_LIBRARIES = {"maggnn", "torch", "numpy", "safetensors"} | set(sys.stdlib_module_names)
NOT_AT_IMPORT = ("torch.utils.tensorboard",)  # part of torch, but needs tensorboard
NEED_TRITON = {"gathering.py", "kernels/gpu.py", "kernels/programs.py"}  # only GPU builds of torch bring it

FILES = sorted(PACKAGE.rglob("*.py"))
CORE_FILES = [path for path in FILES if "apps" not in path.relative_to(PACKAGE).parts]


def part_of(path: Path) -> str:
    """The part a file belongs to: its folder or its own name; empty for the package's `__init__`."""
    first = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    return "" if first == "__init__" else first


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(node: ast.AST, inside_functions: bool) -> Iterator[ast.stmt]:
    """Statements that run, at import or (if asked) later; never those for the type checker alone."""
    for child in ast.iter_child_nodes(node):
        if is_type_checking(child):
            continue
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and not inside_functions:
            continue
        if isinstance(child, ast.stmt):
            yield child
        yield from statements(child, inside_functions)


def imported(path: Path, inside_functions: bool) -> Iterator[str]:
    """Full dotted names of what a file imports; `from a import b` gives `a.b`."""
    for node in statements(ast.parse(path.read_text(encoding="utf-8")), inside_functions):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}, line {node.lineno}: a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def own_parts(path: Path) -> set[str]:
    names = (name.split(".") for name in imported(path, inside_functions=True))
    return {parts[1] if len(parts) > 1 else "" for parts in names if parts[0] == "maggnn"}


def show(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def test_there_is_something_to_check():
    assert len(FILES) > 5


def test_every_part_has_its_place_in_the_line():
    parts = {part_of(path) for path in FILES} - {""}
    assert parts <= RANK.keys(), f"give {sorted(parts - RANK.keys())} a place in LINE"


@pytest.mark.parametrize("path", FILES, ids=show)
def test_imports_point_backwards(path):
    part = part_of(path)
    used = own_parts(path) - {part}
    if not part:  # the package's __init__ gathers public names and imports what has them only when one is used
        assert not used & {"experiments", "apps"}
        return
    assert used <= RANK.keys(), f"{show(path)} imports {sorted(used - RANK.keys())} from the package itself"
    forward = sorted(name for name in used if RANK[name] >= RANK[part])
    assert not forward, f"{show(path)} imports {forward}, which come later in the line"


@pytest.mark.parametrize("path", [path for path in FILES if part_of(path) == "data"], ids=show)
def test_data_knows_only_graphs(path):
    assert own_parts(path) <= DATA_MAY_USE


@pytest.mark.parametrize("path", CORE_FILES, ids=show)
def test_core_imports_with_torch_numpy_and_safetensors_alone(path):
    names = list(imported(path, inside_functions=False))
    allowed = CORE_LIBRARIES | ({"triton"} if show(path) in NEED_TRITON else set())
    heavy = sorted({name for name in names if name.split(".")[0] not in allowed})
    heavy += [name for name in names if name.startswith(NOT_AT_IMPORT)]
    assert not heavy, f"{show(path)} imports {heavy} at module level: import it where it is used"


@pytest.mark.parametrize("path", [path for path in FILES if show(path) not in NEED_TRITON], ids=show)
def test_triton_is_needed_only_where_there_is_a_gpu(path):
    modules = tuple("maggnn." + file.removesuffix(".py").replace("/", ".") for file in NEED_TRITON)
    early = [name for name in imported(path, inside_functions=False) if name.startswith(modules)]
    assert not early, f"{show(path)} imports {early} at module level: import it where a GPU is known to be"


def test_command_line_starts_without_torch():
    if not (PACKAGE / "apps" / "cli.py").exists():
        pytest.skip("no command line yet")
    heavy = ("torch", "torch_geometric", "numpy", "matplotlib", "networkx", "scipy", "sklearn")
    program = f"import maggnn.apps.cli, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]", "`maggnn --help` must not wait for these"


def test_public_names_of_the_core_do_not_load_the_apps():
    program = "import maggnn, sys; maggnn.MagGNN; maggnn.train; print({'sklearn', 'maggnn.apps'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "set()", "only MagClassifier and MagRegressor need scikit-learn and the apps"


def test_every_public_name_has_its_home():
    import maggnn

    assert all(hasattr(maggnn, name) for name in maggnn.__all__)
