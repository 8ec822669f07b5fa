"""`maggnn tune` on a table: what it writes, that `maggnn fit` takes the best, and that a study goes on."""

import csv
import json
import random
from functools import partial
from pathlib import Path

import pytest

from maggnn import config as configs
from maggnn.apps.fit.fitted import FittedModel

TUNE = ("tune", "mine.csv", "--smiles", "smiles", "--target", "y", "--workers", "1", "--steps", "3")


def table_text(rows: int) -> str:
    rng = random.Random(0)
    smiles = ["".join(rng.choice("CCCO") for _ in range(rng.randint(3, 8))) for _ in range(rows)]
    return "smiles,y\n" + "".join(f"{each},{each.count('O')}.5\n" for each in smiles)


@pytest.fixture
def called(call_command, tmp_path):
    """The command line in a folder with a table."""
    (tmp_path / "mine.csv").write_text(table_text(40))
    return partial(call_command, "maggnn", cwd=tmp_path)


def trials(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_study_goes_on_and_fit_takes_its_best(called, tmp_path):
    called(*TUNE, "-o", "study", "--trials", 1).output()
    finished = trials(tmp_path / "study")
    code, out, err = called(*TUNE, "-o", "study", "--trials", 2, "--json")
    assert code == 0, err
    assert "trial" in err and "best" in err and "s left" in err
    result, after = json.loads(out), trials(tmp_path / "study")
    assert after[:1] == finished  # nothing is run again, nothing is lost
    assert [row["state"] for row in after] == ["complete", "complete"]
    best = configs.load(tmp_path / "study" / "best.toml")
    assert best.encoder.hidden == result["params"]["encoder.hidden"]
    fit = ("fit", "mine.csv", "--smiles", "smiles", "--target", "y", "--workers", "1", "--config", "study/best.toml")
    called(*fit, "-o", "model").output()
    learned_both_ways = {"graph_attr_optional": True}  # without and with descriptors, as every ensemble does
    assert FittedModel.load(tmp_path / "model").config == best.replaced(predictor=learned_both_ways)


def test_mistakes_are_one_line(called, tmp_path):
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "study.db").write_bytes(b"damaged" * 2000)
    for arguments, words in (
        ((*TUNE, "-o", "x", "--trials", "0"), "'--trials'"),
        ((*TUNE, "-o", "x", "--minutes", "-3"), "'--minutes'"),
        ((*TUNE, "-o", "damaged"), "damaged, or not a study"),
        ((*TUNE, "-o", "mine.csv"), "cannot be written"),
        ((*TUNE, "-o", "x", "--set", "agent.num_moves=1"), "--set is for a config"),
        (("tune", "mine.csv", "-o", "x"), "a table needs --target COL"),
        (("tune", "absent.csv", "-o", "x", "--smiles", "smiles", "--target", "y"), "absent.csv: no such file"),
        (("tune", "absent.csv", *TUNE[2:], "-o", "x", "--task", "regression"), "absent.csv: no such file"),
        (("tune", "absent.toml", "-o", "x"), "no such config file"),
        (("tune", "absent.toml", "-o", "x", "--target", "y"), "are for a table"),
    ):
        assert words in called(*arguments).mistake(), arguments
    assert (tmp_path / "damaged" / "study.db").read_bytes() == b"damaged" * 2000
