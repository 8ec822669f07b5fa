"""`maggnn fit`, `predict` and `evaluate` on tables: what they write, how they resume, how they fail."""

import csv
import json
import random
import re
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from damage import edit_json
from maggnn.apps.fit import predicting
from maggnn.apps.fit.card.intervals import Judged
from maggnn.apps.fit.card.model_card import verdict
from maggnn.apps.fit.featurised_chunks import featurised_chunk
from maggnn.apps.fit.fitted import FittedModel
from maggnn.apps.fit.row_files import Chunk
from maggnn.data.sources import graphs_of
from maggnn.errors import InputError

FIT = ("fit", "mine.csv", "--smiles", "smiles", "--steps", "30", "--workers", "1", "--ensemble", "1")


@pytest.fixture(scope="module")
def run(call_command):
    """What a command prints."""

    def run(*arguments: str | Path, cwd: Path) -> str:
        return call_command("maggnn", *arguments, cwd=cwd).output()

    return run


@pytest.fixture
def called(call_command):
    return partial(call_command, "maggnn")


def molecule(rng: random.Random) -> str:
    return "".join(rng.choice("CCCO") for _ in range(rng.randint(3, 8))) + rng.choice(["", "", "c1ccccc1"])


def table_text(rows: int, seed: int = 0) -> str:
    """A target of each kind: a number, 0 or 1, a word; and a column that says which row trains."""
    rng = random.Random(seed)
    lines = ["id,smiles,y,ring,kind,set,one"]
    for number in range(rows):
        smiles = molecule(rng)
        ring = int("c1" in smiles)
        kind = ["chain", "ring", "acid, strong"][ring + (number % 7 == 0 and ring)]
        part = "test" if number % 5 == 0 else "val" if number % 5 == 1 else "train"
        lines.append(f'{number},{smiles},{10 + 3 * smiles.count("O")}.5,{ring},"{kind}",{part},same')
    return "\n".join([*lines, "broken,C(,1.5,1,ring,train,same", "missing,CC,,1,,train,same"]) + "\n"


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, run) -> Path:
    """A table, a blend of two folds for numbers and one network for words."""
    folder = tmp_path_factory.mktemp("fit")
    (folder / "mine.csv").write_text(table_text(100))
    numbers = json.loads(
        run(*FIT[:-1], "2", "--target", "y", "--unit", "mg/L", "-o", "numbers", "--json", cwd=folder).splitlines()[-1]
    )
    assert (numbers["task"], numbers["metric"], numbers["rows"], numbers["left_out"]) == ("regression", "mae", 102, 2)
    assert numbers["metrics"]["y"]["unit"] == "mg/L"
    words = ("--target", "kind", "--split", "column:set")
    said = run(*FIT, *words, "-o", "words", cwd=folder)
    assert "Best here:" in said and "random forest" in said and "gradient boosting" in said
    return folder


def test_classes_of_a_model_are_no_formulas_and_own_cells_stay(folder, called, tmp_path):
    """The rule of docs/security.md."""
    shutil.copytree(folder / "words", tmp_path / "words")
    names = ["=1+1", "@SUM(A1)", "-1"]
    edit_json(tmp_path / "words" / "fitted.json", lambda values: values.update(classes=names))
    own = ["=2+2", "+x", "-3", "@y"]
    (tmp_path / "new.csv").write_text("smiles,own\n" + "".join(f"CCO,{cell}\nCCc1ccccc1,{cell}\n" for cell in own))
    called("predict", "words", "new.csv", "-o", "out.csv", "--workers", "1", cwd=tmp_path).output()
    rows = read(tmp_path / "out.csv")
    assert [row["own"] for row in rows] == [cell for cell in own for _ in range(2)]
    assert {row["predicted_kind"] for row in rows} <= {"'=1+1", "'@SUM(A1)", "-1"}


def test_fit_writes_a_card_a_picture_and_what_it_left_out(folder):
    card = (folder / "numbers" / "README.md").read_text()
    for words in ("mine.csv", "102 rows", "this model", "random forest", "Best here", "rows repeat a molecule"):
        assert words in card
    parts = re.search(r"train (\d+), val (\d+), test (\d+)\.", card)
    assert parts is not None and sum(map(int, parts.groups())) == 100
    assert (folder / "numbers" / "test.png").read_bytes().startswith(b"\x89PNG")
    assert [row["reason"] for row in read(folder / "numbers" / "left_out.csv")] == [
        "not a SMILES string", "target 'y' is missing",
    ]  # fmt: skip
    assert not list((folder / "numbers").glob("training-*"))
    assert (folder / "numbers" / "metrics.jsonl").is_file()
    facts = json.loads((folder / "words" / "fitted.json").read_text())
    assert facts["classes"] == ["acid, strong", "chain", "ring"] and facts["rows"]["test"] == 20
    assert (folder / "words" / "test.png").read_bytes().startswith(b"\x89PNG")


def test_predictions_are_those_of_the_fitted_model(folder, run):
    limits = ["std_y", "low_y", "high_y"]
    for name, columns in (("numbers", ["predicted_y"]), ("words", ["p_acid, strong", "p_chain", "p_ring"])):
        run("predict", name, "mine.csv", "-o", f"{name}.csv", "--workers", "1", cwd=folder)
        rows = read(folder / f"{name}.csv")
        assert [row["id"] for row in rows] == [row["id"] for row in read(folder / "mine.csv")]
        usable = [row for row in rows if row["smiles"] != "C("]
        molecules = featurised_chunk([row["smiles"] for row in usable], "ogb", with_descriptors=True)
        assert molecules.arrays is not None
        answer = FittedModel.load(folder / name).answer(graphs_of(molecules.arrays), molecules.descriptors)
        found = np.array([[row[column] for column in columns] for row in usable], dtype=np.float32)
        assert np.array_equal(found, answer.values.numpy())
        assert answer.similarity is not None
        assert np.array_equal(np.array([row["similarity"] for row in usable], dtype=np.float32), answer.similarity)
        if name == "numbers":
            said = np.array([[row[column] for column in limits] for row in usable], dtype=np.float32)
            expected = np.stack([part[:, 0] for part in (answer.std, *answer.interval(0.9))], axis=1)
            assert np.array_equal(said, expected.astype(np.float32))
            assert (said[:, 1] < found[:, 0]).all() and (found[:, 0] < said[:, 2]).all() and (said[:, 0] > 0).all()
        (broken,) = (row for row in rows if row["smiles"] == "C(")
        assert broken["reason"] == "not a SMILES string" and not any(broken[column] for column in columns)
    assert all(row["predicted_kind"] in ("acid, strong", "chain", "ring", "") for row in rows)
    assert not list(folder.glob("*.parts"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_table_unlike_training_is_one_warning(folder, called, monkeypatch, tmp_path, kind):
    """Also if the run was stopped, and the rows that it wrote before are only counted."""
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    far = "".join(f"{'C(F)(F)' * n}N{'S' * (1 + n % 3)}P(Br)Cl\n" for n in range(1, 8))
    (tmp_path / "far.smi").write_text(f"{far}CCO\nC(\n")
    limit = FittedModel.load(folder / "numbers").facts.least_similarity
    predict = ("predict", folder / "numbers", "far.smi", "-o", f"far.{kind}", "--workers", "1")

    def stopped(self, count, join):
        raise InputError(f"stopped after {count} part")

    with monkeypatch.context() as patch:
        patch.setattr(predicting.Parts, "finish", stopped)
        assert "stopped after 1 part" in called(*predict, cwd=tmp_path).err
    _, line = called(*predict, cwd=tmp_path).output().splitlines()
    assert line.startswith("Warning: 88 % of these molecules are less similar to the training molecules")
    assert 0 < limit < 1 and f"(below {limit:.2f})" in line
    again = json.loads(called(*predict, "--overwrite", "--json", cwd=tmp_path).out)
    assert (again["rows"], again["without"], again["far"], again["warning"]) == (9, 1, 7, line)


def test_a_table_like_training_gives_no_warning(folder, called, tmp_path):
    (tmp_path / "alike.csv").write_text(table_text(100, seed=1))
    arguments = ("alike.csv", "-o", "out.csv", "--workers", "1", "--json")
    found = json.loads(called("predict", folder / "numbers", *arguments, cwd=tmp_path).out)
    assert found["warning"] == "" and found["far"] <= 0.2 * found["rows"]


def test_a_folder_that_does_not_know_its_test_molecules_gives_no_warning(folder, called, tmp_path):
    shutil.copytree(folder / "numbers", tmp_path / "numbers")
    edit_json(tmp_path / "numbers" / "fitted.json", lambda values: values.pop("least_similarity"))
    (tmp_path / "far.smi").write_text("BrS\nPS\nFP\nBrF\n")
    printed = called("predict", "numbers", "far.smi", "-o", "far.csv", "--workers", "1", cwd=tmp_path).output()
    assert len(printed.splitlines()) == 1
    edit_json(tmp_path / "numbers" / "fitted.json", lambda values: values.update(least_similarity=1.5))
    ended = called("predict", "numbers", "far.smi", "-o", "far.csv", "--workers", "1", cwd=tmp_path)
    assert ended.code == 2 and "similarity of the test molecules is 1.5" in ended.err


def test_equal_rows_have_equal_answers_wherever_they_stand(folder, called):
    acids = ["CC(=O)O", "OC(=O)CC(=O)O", "c1ccccc1", "CC(C)(C)C"]  # with atoms that no agent can tell apart
    (folder / "twice.smi").write_text("\n".join([*acids, *["CCO"] * 700, *acids]) + "\n")
    called("predict", "numbers", "twice.smi", "-o", "twice.csv", "--workers", "1", cwd=folder).output()
    answers = [row["predicted_y"] for row in read(folder / "twice.csv")]
    assert answers[:4] == answers[-4:] and len(set(answers[4:-4])) == 1


def test_evaluate_on_a_table(folder, called):
    result = json.loads(called("evaluate", "numbers", "mine.csv", "--workers", "1", "--json", cwd=folder).out)
    assert result["rows"] == 102 and result["left_out"] == 2
    rows = [row for row in read(folder / "numbers.csv") if row["y"] and row["predicted_y"]]
    mae = np.mean([abs(float(row["y"]) - float(row["predicted_y"])) for row in rows])
    assert result["mae"] == pytest.approx(mae, abs=0.2)  # other starts of the marks
    assert result["interval"][0] < result["mae"] < result["interval"][1]
    metrics = result["metrics"]["y"]["methods"]["this model"]
    assert metrics["mae"]["value"] == pytest.approx(result["mae"], rel=1e-5)
    errors = np.array([float(row["predicted_y"]) - float(row["y"]) for row in rows])
    assert metrics["rmse"]["value"] == pytest.approx(np.sqrt((errors**2).mean()), abs=0.2)
    line = called("evaluate", "words", "mine.csv", "--target", "kind", "--workers", "1", cwd=folder).output()
    assert line.startswith("accuracy ") and "95 % interval" in line and "on 100 rows" in line
    assert "kind: accuracy " in line and "MCC " in line
    # One unit for both lines, which is that of the model card: shares, not percent.
    first, second = re.findall(r"accuracy ([\d.]+)[ ,]", line)[:2]
    assert first == second


def test_new_categories_are_one_line(folder, called):
    (folder / "unseen.csv").write_text("smiles,y\n" + "".join(f"{'C' * n}[Se]C,{n}\n" for n in range(1, 12)))
    found = called("evaluate", "numbers", "unseen.csv", "--workers", "1", cwd=folder)
    (line,) = found.err.splitlines()
    assert line.startswith("unseen.csv: categories that are not in the training data")


def test_the_card_and_its_file_have_all_metrics_with_units(folder):
    card = (folder / "numbers" / "README.md").read_text()
    assert "# y (mg/L) of molecules" in card and "| RMSE (mg/L) |" in card and "| Spearman's ρ |" in card
    found = json.loads((folder / "numbers" / "metrics.json").read_text())["targets"]["y"]
    facts = json.loads((folder / "numbers" / "fitted.json").read_text())
    assert found["rows"] == facts["rows"]["test"] and len(found["methods"]) == 6
    assert len(found["methods"]["this model"]) == 4
    assert found["methods"]["this model"]["mae"]["value"] == pytest.approx(facts["scores"]["test"], rel=1e-5)
    classes = json.loads((folder / "words" / "metrics.json").read_text())["targets"]["kind"]["classes"]
    assert set(classes) == {"acid, strong", "chain", "ring"} and sum(one["count"] for one in classes.values()) == 20


def test_odd_tables_keep_every_row_and_cell(folder, called):
    text = (
        '\ufeffsmiles,note\r\nCCO,"a, ""b"""\r\n\r\nCCO,"two\r\nlines"\r\n"CCC",\r\n  \r\n'
        "CC,long,er\r\n,empty\r\n[U]CC,strange\r\n"
    )
    (folder / "odd.csv").write_bytes(text.encode())
    called("predict", "numbers", "odd.csv", "-o", "odd_out.csv", "--workers", "1", cwd=folder).output()
    rows = read(folder / "odd_out.csv")
    assert [(row["smiles"], row["note"]) for row in rows] == [
        ("CCO", 'a, "b"'), ("CCO", "two\r\nlines"), ("CCC", ""), ("  ", ""), ("CC", "long"), ("", "empty"),
        ("[U]CC", "strange"),
    ]  # fmt: skip
    assert [bool(row["predicted_y"]) for row in rows] == [True, True, True, False, False, False, True]
    assert rows[4]["reason"] == "line 8 has 3 cells where the header has 2" and "no atoms" in rows[5]["reason"]
    assert "not in the training data" in rows[6]["reason"]


def test_parquet_and_lists_of_smiles_give_the_same_answers(folder, called):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    smiles = ["CCO", "C(", "CCCC"]
    parquet.write_table(arrow.table({"smiles": smiles, "n": [1, None, 3]}), folder / "few.parquet")
    (folder / "few.smi").write_text("CCO ethanol\n\nC(\nCCCC n butane\n")
    for name, out in (("few.parquet", "few_out.parquet"), ("few.smi", "few_smi.csv"), ("few.parquet", "few_out.csv")):
        called("predict", "words", name, "-o", out, "--workers", "1", cwd=folder).output()
    kept = parquet.read_table(folder / "few_out.parquet")
    assert kept["n"].to_pylist() == [1, None, 3] and kept.schema.field("p_ring").type == arrow.float32()
    listed, texts = read(folder / "few_smi.csv"), read(folder / "few_out.csv")
    assert [row["name"] for row in listed] == ["ethanol", "", "n butane"]
    for place in (0, 2):
        number = np.float32(kept["p_ring"][place].as_py())
        assert np.float32(listed[place]["p_ring"]) == np.float32(texts[place]["p_ring"]) == number
    assert kept["p_ring"][1].as_py() is None and kept["reason"][1].as_py() == "not a SMILES string"


def test_scaffolds_stay_whole(folder, called):
    rings = [
        "C1CC1",
        "C1CCC1",
        "C1CCCC1",
        "C1CCCCC1",
        "c1ccccc1",
        "c1ccncc1",
        "C1CCNC1",
        "c1ccoc1",
        "c1ccsc1",
        "C1CCOC1",
    ]
    lines = [f"{'C' * (1 + number // 10)}{rings[number % 10]},{number % 3}.5" for number in range(60)]
    (folder / "rings.csv").write_text("\n".join(["smiles,y", *lines]) + "\n")
    arguments = (
        "--smiles",
        "smiles",
        "--target",
        "y",
        "--split",
        "scaffold",
        "--steps",
        "2",
        "--workers",
        "1",
        "--ensemble",
        "2",
    )
    printed = called("fit", "rings.csv", *arguments, "-o", "rings", "--json", cwd=folder).output()
    result = json.loads(printed.splitlines()[-1])
    assert (result["train"], result["val"], result["test"]) == (48, 6, 6)


TO = ("--smiles", "smiles", "--target", "y", "--workers", "1", "-o", "new")
MISTAKES = {
    "units of classes": (("fit", "mine.csv", *TO[:3], "kind", *TO[4:], "--unit", "m"), ["--unit 'm'", "no unit"]),
    "more units than targets": (("fit", "mine.csv", *TO, "--unit", "m", "--unit", "s"), ["2 times for 1 targets"]),
    "no such table": (("fit", "absent.csv", *TO), ["absent.csv", "no such file"]),
    "empty file": (("fit", "empty.csv", *TO), ["empty.csv", "no header"]),
    "semicolons": (("fit", "semicolons.csv", *TO), ["semicolons.csv", "separated by ';'", "commas"]),
    "one number": (("fit", "constant.csv", *TO), ["constant.csv", "'y' is 1.5 in all rows", "nothing to learn"]),
    "one huge molecule": (("fit", "huge.csv", *TO), ["huge.csv", "2000 atoms", "at most 1000"]),
    "no rows": (("fit", "header.csv", *TO), ["header.csv", "no rows below the header"]),
    "no header": (("fit", "bare.csv", *TO), ["bare.csv", "no column 'y'"]),
    "unknown column": (("fit", "mine.csv", *TO[:3], "kin", "-o", "new"), ["mine.csv", "'kin'", "did you mean 'kind'?"]),
    "unknown SMILES column": (("fit", "mine.csv", "--smiles", "smile", *TO[2:]), ["'smile'", "did you mean 'smiles'?"]),
    "unknown split": (("fit", "mine.csv", *TO, "--split", "rnd"), ["--split", "'rnd'", "column:NAME"]),
    "split without a column": (("fit", "mine.csv", *TO, "--split", "column:"), ["column:NAME"]),
    "unknown split column": (("fit", "mine.csv", *TO, "--split", "column:sets"), ["did you mean 'set'?"]),
    "unknown part": (("fit", "mine.csv", *TO, "--split", "column:kind"), ["none of the 102 rows", "split 'chain'"]),
    "words as numbers": (
        ("fit", "mine.csv", *TO[:3], "kind", "--task", "regression", *TO[4:]), ["'kind'", "not a number"]),
    "all rows broken": (("fit", "broken.csv", *TO), ["broken.csv", "none of the 2 rows", "row 2", "not a SMILES"]),
    "NaN": (("fit", "nan.csv", *TO), ["nan.csv", "none of the 2 rows", "'y' is missing (nan)"]),
    "only one class": (("fit", "mine.csv", *TO[:3], "one", *TO[4:]), ["'one'", "only one class", "'same'"]),
    "too many classes": (
        ("fit", "mine.csv", *TO[:3], "id", "--task", "classification", *TO[4:]), ["'id'", "102 classes"]),
    "several targets of three classes": (
        ("fit", "mine.csv", *TO, "--target", "kind", "--task", "classification"), ["classes", "two each"]),
    "several kinds of targets": (
        ("fit", "mine.csv", *TO, "--target", "ring"), ["'ring' looks like classes", "'y' like numbers"]),
    "a pattern of no column": (("fit", "mine.csv", *TO[:3], "nothing*", *TO[4:]), ["the pattern", "'nothing*'"]),
    "a target twice": (("fit", "mine.csv", *TO, "--target", "y"), ["'y' is given twice"]),
    "unknown task": (("fit", "mine.csv", *TO, "--task", "guess"), ["--task", "'guess'", "regression"]),
    "no steps": (("fit", "mine.csv", *TO, "--steps", "0"), ["--steps"]),
    "no ensemble": (("fit", "mine.csv", *TO, "--ensemble", "0"), ["--ensemble"]),
    "coverage of one": (("predict", "numbers", "mine.csv", "-o", "new.csv", "--coverage", "1"), ["coverage is 1"]),
    "no workers": (("fit", "mine.csv", *TO, "--workers", "0"), ["--workers"]),
    "too few rows": (("fit", "few.csv", *TO), ["few.csv", "too few rows", "train needs at least 8"]),
    "one scaffold": (("fit", "chains.csv", *TO, "--split", "scaffold"), ["too few rows", "for the split", "scaffold"]),
    "not UTF-8": (("fit", "latin.csv", *TO), ["latin.csv", "UTF-8"]),
    "folder is a file": (("fit", "mine.csv", *TO[:-1], "empty.csv"), ["empty.csv", "is a file"]),
    "folder below a file": (("fit", "mine.csv", *TO[:-1], "/dev/full/x"), ["/dev/full/x", "cannot be written"]),
    "model is there": (("fit", "mine.csv", *TO[:-1], "numbers"), ["numbers", "--overwrite"]),
    "no such model": (("predict", "absent", "mine.csv", "-o", "new.csv"), ["absent", "no such model folder"]),
    "truncated model": (("predict", "cut", "mine.csv", "-o", "new.csv"), ["cut/model.safetensors", "truncated"]),
    "no facts": (("predict", "run", "mine.csv", "-o", "new.csv"), ["run", "no fitted.json"]),
    "damaged facts": (("predict", "facts", "mine.csv", "-o", "new.csv"), ["facts/fitted.json", "damaged"]),
    "nothing to predict": (("predict", "numbers", "header.csv", "-o", "new.csv"), ["header.csv", "no rows"]),
    "no table to predict": (("predict", "numbers", "absent.csv", "-o", "new.csv"), ["absent.csv", "no such file"]),
    "unknown input": (("predict", "numbers", "mine.xlsx", "-o", "new.csv"), ["mine.xlsx", ".parquet"]),
    "unknown output": (("predict", "numbers", "mine.csv", "-o", "new.txt"), ["new.txt", ".csv"]),
    "output is there": (("predict", "numbers", "mine.csv", "-o", "there.csv"), ["there.csv", "--overwrite"]),
    "output is a folder": (("predict", "numbers", "mine.csv", "-o", "folder.csv"), ["folder.csv", "is a folder"]),
    "parts of another run": (("predict", "numbers", "mine.csv", "-o", "other.csv"), ["other.csv.parts", "another run"]),
    "output below a file": (("predict", "numbers", "mine.csv", "-o", "empty.csv/x.csv"), ["cannot be written"]),
    "column is there": (("predict", "numbers", "predicted.csv", "-o", "new.csv"), ["'predicted_y'", "rename"]),
    "not Parquet": (("predict", "numbers", "not.parquet", "-o", "new.csv"), ["not.parquet", "Parquet"]),
    "model without a table": (("evaluate", "numbers"), ["numbers", "give a table"]),
    "moves on a table": (("evaluate", "numbers", "mine.csv", "--moves", "2"), ["--moves"]),
    "targets that differ": (
        ("evaluate", "numbers", "mine.csv", "--target", "y", "--target", "ring"), ["1 target", "2 columns"]),
    "unknown classes": (
        ("evaluate", "words", "mine.csv", "--target", "set", "--workers", "1"), ["none of the 102", "not one of"]),
}  # fmt: skip


@pytest.fixture(scope="module")
def mistaken(folder: Path) -> Path:
    """What the mistakes above need."""
    files = {
        "empty.csv": "",
        "header.csv": "smiles,y\n",
        "bare.csv": "smiles,1.5\nCCC,2.5\n",
        "semicolons.csv": "smiles;y\nCCC;2.5\n",
        "constant.csv": "smiles,y\n" + "".join(f"{'C' * (n + 1)},1.5\n" for n in range(40)),
        "huge.csv": f"smiles,y\n{'C' * 2000},1.5\n",
        "broken.csv": "smiles,y\nC(,1\nC1,2\n",
        "nan.csv": "smiles,y\nCC,nan\nCCC,NaN\n",
        "few.csv": "smiles,y\n" + "".join(f"{'C' * (n + 1)},{n}.5\n" for n in range(8)),
        "chains.csv": "smiles,y\n" + "CCO,1.5\nCC,2.5\n" * 40,
        "there.csv": "of another run",
        "predicted.csv": "smiles,predicted_y\nCC,1\n",
        "not.parquet": "PAR0",
        "mine.xlsx": "",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "latin.csv").write_bytes("smiles,y,é\nCC,1,é\n".encode("latin-1"))
    (folder / "folder.csv").mkdir()
    (folder / "other.csv.parts").mkdir()
    (folder / "other.csv.parts" / "run.json").write_text("{}")
    whole = (folder / "numbers" / "model.safetensors").read_bytes()
    facts = (folder / "numbers" / "fitted.json").read_text()
    for name, model, text in (("cut", whole[:-50], facts), ("run", whole, ""), ("facts", whole, facts[:40])):
        (folder / name).mkdir()
        (folder / name / "model.safetensors").write_bytes(model)
        if text:
            (folder / name / "fitted.json").write_text(text)
    return folder


@pytest.mark.parametrize(("arguments", "expected"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_get_one_line_and_lose_nothing(mistaken, called, arguments, expected):
    before = {path: path.read_bytes() for name in ("numbers", "words") for path in (mistaken / name).iterdir()}
    line = called(*arguments, cwd=mistaken).mistake()
    assert all(part in line for part in expected), line
    assert {path: path.read_bytes() for path in before} == before
    assert (mistaken / "there.csv").read_text() == "of another run"
    assert not (mistaken / "new").exists() and not list(mistaken.glob("new.*"))


def test_a_verdict_claims_no_lead_where_methods_tie():
    def judged(draws: list[float]) -> Judged:
        return Judged(float(np.mean(draws)), np.array(draws))

    ahead_in_some = {"a": judged([100.0] * 100), "b": judged([98.0] * 41 + [100.0] * 59)}
    for scores in ({"a": judged([100.0] * 100), "b": judged([100.0] * 100)}, ahead_in_some):
        assert "is not significant (" in verdict(scores, "auroc", 50)
    assert "better than b" in verdict({"a": judged([100.0] * 100), "b": judged([98.0] * 100)}, "auroc", 50)
    ahead_in_all = {"a": judged([1.0] * 100), "b": judged([2.0] * 100)}
    assert verdict(ahead_in_all, "mae", 5) == "Best here: a; 5 test rows are too few to compare it with b."
    assert "better than b" in verdict(ahead_in_all, "mae", 6)


def test_overwrite_replaces(mistaken, called):
    (mistaken / "old.csv").write_text("old")
    arguments = ("predict", "numbers", "mine.csv", "-o", "old.csv", "--workers", "1", "--overwrite")
    called(*arguments, cwd=mistaken).output()
    assert len(read(mistaken / "old.csv")) == 102


def test_overwrite_never_replaces_the_input(mistaken, called):
    table = (mistaken / "mine.csv").read_bytes()
    (mistaken / "link.csv").symlink_to("mine.csv")
    for name in ("mine.csv", "link.csv"):
        arguments = ("predict", "numbers", "mine.csv", "-o", name, "--workers", "1", "--overwrite")
        assert f"{name}: is the input" in called(*arguments, cwd=mistaken).mistake()
        assert (mistaken / "mine.csv").read_bytes() == table


def test_a_score_that_is_no_number_is_never_the_best():
    draws = np.full(10, np.nan)
    good = {"forest": Judged(1.0, np.ones(10)), "boosting": Judged(2.0, np.full(10, 2.0))}
    said = verdict({"mine": Judged(float("nan"), draws), **good}, "mae", 50)
    assert said.startswith("Best here: forest, better than boosting") and "Not ranked: mine" in said
    assert verdict({"forest": good["forest"], "mine": Judged(float("inf"), draws)}, "mae", 50).startswith(
        "Best here: forest"
    )
    assert verdict({"mine": Judged(float("nan"), draws)}, "mae", 50).startswith("Not ranked: mine")


@pytest.mark.parametrize("name", ["numbers", "words"])
def test_an_answer_that_is_no_number_is_no_prediction(folder, monkeypatch, name):
    fitted = FittedModel.load(folder / name)
    answer = FittedModel.answer

    def spoiled(self, *arguments, **options):
        answers = answer(self, *arguments, **options)
        answers.values[1] = float("nan")
        return answers

    monkeypatch.setattr(FittedModel, "answer", spoiled)
    smiles = ["CCO", "CCC", "C(", "CO"]
    chunk = Chunk([smiles], smiles, [""] * 4)
    answers = predicting.answers_for(fitted, chunk, featurised_chunk(smiles, "ogb", True, True), 0)
    columns = answers.cells()
    assert answers.without == 2 and columns[-1] == ["", predicting.NOT_FINITE, "not a SMILES string", ""]
    for column in columns[:-1]:
        assert [cell is None for cell in column] == [False, True, True, False]


def test_a_fit_that_diverges_says_so_and_leaves_no_model(folder, called):
    settings = folder / "wild.toml"
    settings.write_text(
        '[encoder]\nconv = "gine"\n[agent]\ntuple_order = 0\nnum_tuples = 1\nnum_moves = 0\n'
        "[training]\nagent_steps = 0\nlearning_rate = 1e30\nvalidate_every = 5\n"
    )
    ended = called(*FIT, "--target", "y", "-o", "wild", "--config", settings, cwd=folder)
    last = ended.err.strip().splitlines()[-1]
    assert (ended.code, ended.out) == (2, "") and last.startswith("maggnn: training diverged: ")
    assert "lower training.learning_rate" in last and not (folder / "wild" / "fitted.json").exists()


def test_a_folder_that_names_no_metric_is_judged_by_the_usual_one(folder, called, tmp_path):
    for name, metric in (("numbers", "mae"), ("words", "accuracy")):
        shutil.copytree(folder / name, tmp_path / name)
        edit_json(tmp_path / name / "fitted.json", lambda values: values.update(metric=""))
        said = called("evaluate", tmp_path / name, "mine.csv", "--workers", "1", "--json", cwd=folder).output()
        assert json.loads(said)["metric"] == metric
