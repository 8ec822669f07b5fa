"""Imports point down a line of eight ranks of rooms, and the core needs only torch, numpy and safetensors."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "maggnn"
PAPER = ROOT / "paper" / "src" / "maggnn_paper"

LINE = (
    ("errors", "config", "baselines"),  # `maggnn_paper.baselines` itself is only a table of names
    ("graphs",),
    ("data",),
    ("model",),
    ("theory", "inference"),
    ("training",),
    ("apps",),
    ("maggnn_paper",),
)
"""A room may import itself and what stands on an earlier line, never another room of its own line.

Within the first line, `config` reads `errors`.
"""

RANK = {name: rank for rank, group in enumerate(LINE) for name in group}
MOST_ENTRIES = 12
CORE_LIBRARIES = {"maggnn", "torch", "numpy", "safetensors"} | set(sys.stdlib_module_names)
NOT_AT_IMPORT = ("torch.utils.tensorboard",)  # part of torch, but needs tensorboard
NEED_TRITON = {"graphs/gather.py", "model/kernels/gpu.py", "model/kernels/programs.py"}  # only GPU builds bring it
FIRST_LINE_USES = {"errors": set(), "config": {"errors"}}
NAME_THE_PAPER = [
    "data/registry.py",
    "model/named_encoders.py",
]  # its sets and baselines: imported where one is asked for

FILES = sorted(PACKAGE.rglob("*.py"))
PAPER_FILES = sorted(PAPER.rglob("*.py"))
MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path for path in FILES
}
CORE_FILES = [path for path in FILES if "apps" not in path.relative_to(PACKAGE).parts]


def room_of(path: Path) -> str:
    """The room a file belongs to; empty for the package's `__init__`."""
    if path.is_relative_to(PAPER):
        return "maggnn_paper"
    parts = path.relative_to(PACKAGE).parts
    return "" if parts[0] == "__init__.py" else parts[0].removesuffix(".py")


def room_of_name(name: str) -> str:
    """The room of an imported dotted name such as `maggnn.model.encoder.Encoder`."""
    parts = name.split(".")
    if parts[0] == "maggnn_paper":
        return "maggnn_paper"
    is_room = len(parts) > 1 and ((PACKAGE / parts[1]).is_dir() or (PACKAGE / f"{parts[1]}.py").is_file())
    return parts[1] if is_room else ""


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


def own_rooms(path: Path) -> set[str]:
    names = imported(path, inside_functions=True)
    return {room_of_name(name) for name in names if name.split(".")[0] in ("maggnn", "maggnn_paper")}


def show(path: Path) -> str:
    return path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else PAPER).as_posix()


def test_there_is_something_to_check():
    assert len(FILES) > 100 and len(PAPER_FILES) > 40


def test_the_top_of_the_package_is_small():
    entries = sorted(path.name for path in PACKAGE.iterdir() if path.name != "__pycache__")
    assert len(entries) <= MOST_ENTRIES, entries
    assert len(LINE) <= 9


def test_every_room_has_its_place_in_the_line():
    rooms = {room_of(path) for path in FILES} - {""}
    assert rooms <= RANK.keys(), f"give {sorted(rooms - RANK.keys())} a place in LINE"


def test_imports_point_backwards():
    """Imports inside functions count too, so that none hides a cycle."""
    wrong = []
    for path in [*FILES, *PAPER_FILES]:
        room = room_of(path)
        used = own_rooms(path) - {room, ""}
        if not room:  # the package's __init__ gathers public names and imports what has them only when one is used
            assert used == {"errors"}
            continue
        allowed = FIRST_LINE_USES.get(room, {name for name in RANK if RANK[name] < RANK[room]})
        wrong += [f"{show(path)} imports {name}" for name in sorted(used - allowed)]
    assert not wrong, "\n".join(wrong)


def modules_imported(path: Path) -> set[str]:
    """The modules of the package that a file imports, also within functions."""
    found = set()
    for name in imported(path, inside_functions=True):
        parts = name.split(".")
        for end in (len(parts), len(parts) - 1):  # `from a import b`: b is a module, or a name in the module a
            if ".".join(parts[:end]) in MODULES:
                found.add(".".join(parts[:end]))
                break
    return found - {"maggnn"}  # its public names are imported when they are used


def test_no_modules_import_each_other():
    """Within a room, too: strongly connected modules are read together or not at all."""
    uses = {name: modules_imported(path) for name, path in MODULES.items()}
    reached = {name: set(used) for name, used in uses.items()}
    grown = True
    while grown:
        grown = False
        for found in reached.values():
            more = set().union(*(uses[other] for other in found)) - found
            found |= more
            grown |= bool(more)
    assert not sorted(name for name in reached if name in reached[name])


def test_no_user_code_names_the_reproduction():
    wrong = [show(path) for path in FILES if "maggnn_paper" in path.read_text(encoding="utf-8")]
    assert wrong == NAME_THE_PAPER


def test_core_imports_with_torch_numpy_and_safetensors_alone():
    wrong = []
    for path in CORE_FILES:
        names = list(imported(path, inside_functions=False))
        allowed = CORE_LIBRARIES | ({"triton"} if show(path) in NEED_TRITON else set())
        heavy = {name for name in names if name.split(".")[0] not in allowed or name.startswith(NOT_AT_IMPORT)}
        wrong += [f"{show(path)} imports {name} at module level" for name in sorted(heavy)]
    assert not wrong, "import it where it is used:\n" + "\n".join(wrong)


def test_triton_is_needed_only_where_there_is_a_gpu():
    modules = tuple("maggnn." + file.removesuffix(".py").replace("/", ".") for file in NEED_TRITON)
    early = [
        f"{show(path)} imports {name}"
        for path in FILES
        if show(path) not in NEED_TRITON
        for name in imported(path, inside_functions=False)
        if name.startswith(modules)
    ]
    assert not early, "import it where a GPU is known to be:\n" + "\n".join(early)


def loaded_by(*programs: str) -> list[set[str]]:
    """The modules that a fresh interpreter holds after each of some lines of Python, one after the other."""
    text = "\n".join(["import sys", *(f"{program}; print(*sys.modules)" for program in programs)])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [set(line.split()) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("module", ["maggnn.apps.cli", "maggnn_paper.cli"])
def test_command_line_starts_without_torch(module):
    heavy = {"torch", "torch_geometric", "numpy", "matplotlib", "networkx", "scipy", "sklearn"}
    (loaded,) = loaded_by(f"import {module}")
    assert not heavy & loaded, "`--help` must not wait for these"


def test_loading_a_model_takes_few_modules_and_the_core_does_not_load_the_apps():
    model, core = loaded_by("import maggnn; maggnn.load_model", "maggnn.MagGNN; maggnn.train")
    own = {name for name in model if name.split(".")[0] == "maggnn"}
    assert len(own) <= 32, sorted(own)
    assert not {"sklearn", "maggnn.apps"} & core, "only the estimators need scikit-learn and the apps"


def test_every_public_name_has_its_home():
    import maggnn

    assert all(hasattr(maggnn, name) for name in maggnn.__all__)
    assert dir(maggnn) == sorted(maggnn.__all__)
