"""One line for a mistake: the nearest name, and which extra brings what is not installed."""

import os
import tomllib
from pathlib import Path

import pytest

from maggnn.errors import EXTRAS, MOST_LISTED, InputError, did_you_mean, first_line, missing_extra, require

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_nearest_name_and_all_of_few():
    assert did_you_mean("zinq", ["zinc", "qm9"]) == ": did you mean 'zinc'? There are zinc, qm9"
    many = [f"set{number}" for number in range(MOST_LISTED + 1)]
    assert did_you_mean("set3x", many) == ": did you mean 'set3'?"
    assert did_you_mean("anything", []) == ""
    assert did_you_mean("SMILES", ["y", "smiles"]) == ": did you mean 'smiles'? There are y, smiles"
    assert did_you_mean("id", ["ID", "y"]) == ": did you mean 'ID'? There are ID, y"


def test_the_first_line_of_an_error_with_and_without_text():
    assert first_line(ValueError("\n one line \nand another")) == "one line"
    assert first_line(OSError()) == "OSError"


def test_extras_are_those_of_the_distribution():
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRAS.values()) == extras.keys() - {"all", "dev", "docs"}  # no command needs the last two
    assert all(extra in extras["all"][0] for extra in EXTRAS.values())


def test_a_module_of_no_extra_is_not_explained():
    assert missing_extra(ModuleNotFoundError("no module", name="nothing_of_ours")) is None
    assert missing_extra(ModuleNotFoundError("no module")) is None


@pytest.mark.parametrize(
    ("absent", "extra", "arguments"),
    [
        ("optuna", "tune", ("tune", "mine.csv", "--smiles", "smiles", "--target", "y", "-o", "study")),
        ("rdkit", "chem", ("distinguish", "pair.smi")),
        ("uvicorn", "show", ("show", ".", "--port", "0")),
        ("ray", "ray", ("train", "sr25", "--devices", "2", "--ray")),
        ("prometheus_client uvicorn", "serve", ("serve", "model", "--port", "0")),
    ],
)
def test_a_missing_extra_is_one_line(absent, extra, arguments, run_command, tmp_path):
    """In a process whose path begins with a folder where modules cannot be imported; the first of them is named."""
    folder = tmp_path / "absent"
    folder.mkdir()
    for module in absent.split():
        (folder / f"{module}.py").write_text(f"raise ModuleNotFoundError('no {module}', name='{module}')")
    (tmp_path / "mine.csv").write_text("smiles,y\n" + "".join(f"{'C' * n},{n}.5\n" for n in range(1, 30)))
    (tmp_path / "pair.smi").write_text("CCO\nCCC\n")
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    line = run_command("maggnn", *arguments, cwd=tmp_path, PYTHONPATH=path).mistake()
    assert line == f"maggnn: this needs {absent.split()[0]}, which is not installed: pip install 'maggnn[{extra}]'"


def test_what_long_work_needs_at_its_end_is_asked_for_at_its_beginning():
    require("json")
    with pytest.raises(InputError, match=r"needs onnxscript, which is not installed: pip install 'maggnn\[onnx\]'"):
        require("json", "onnxscript")
