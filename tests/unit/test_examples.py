"""The examples run as printed and say what their descriptions promise."""

import contextlib
import io
import re
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def output_of(monkeypatch):
    """What an example prints, as a program, but in this process, where torch is loaded already."""

    def run(name: str) -> str:
        monkeypatch.setattr(sys, "argv", [name])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return out.getvalue()

    return run


def accuracies(text: str) -> dict[str, list[float]]:
    """The lines `<name>, accuracy after ...: <numbers>`."""
    lines = re.findall(r"^(.+), accuracy after .+: ([\d. ]+)$", text, re.MULTILINE)
    return {name: [float(value) for value in values.split()] for name, values in lines}


def test_every_example_is_tested():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        "ten_lines.py",
        "new_dataset.py",
        "new_base_gnn.py",
        "own_molecules.py",
        "mag_gnn_in_one_file.py",
    }


def test_ten_lines(output_of):
    code = (EXAMPLES / "ten_lines.py").read_text().partition('"""\n\n')[2]
    assert len([line for line in code.splitlines() if line]) <= 10
    assert re.fullmatch(r"\(2, 2\) scores, classes \[[01], [01]\]\n", output_of("ten_lines.py"))


def test_new_dataset(output_of):
    found = accuracies(output_of("new_dataset.py"))
    assert found["agent"][0] == pytest.approx(found["random moves"][0])  # the same starts
    assert found["agent"][-1] > 90
    assert found["random moves"][-1] < 80


def test_new_base_gnn(output_of):
    found = accuracies(output_of("new_base_gnn.py"))
    assert set(found) == {"GATConv", "GCNConv"}
    for after in found.values():
        assert after[-1] >= 90 and after[-1] > after[0]


def test_own_molecules(output_of):
    text = output_of("own_molecules.py")
    assert "301 rows, left out: [(302, " in text
    error, guess = map(float, re.findall(r"error ([\d.]+), of always predicting the mean ([\d.]+)", text)[0])
    assert error < 0.5 * guess


def test_mag_gnn_in_one_file(output_of):
    """That it equals the package is in `test_one_file_example.py`."""
    text = output_of("mag_gnn_in_one_file.py")
    lines = re.findall(r"^(GIN|random marks|random moves|agent)\D* ([\d. ]+)$", text, re.MULTILINE)
    found = {name: [float(value) for value in values.split()] for name, values in lines}
    assert found["GIN"] == [50.0]
    assert 70 < found["random marks"][0] < 97
    assert max(found["random moves"]) < 97
    assert min(found["agent"]) > 98
