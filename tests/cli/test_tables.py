"""Damaged and ambiguous tables: fit, evaluate, tune, predict and data pack accept and refuse the same ones."""

import csv
import itertools
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from maggnn.data.own_file import load_own
from maggnn.errors import InputError

RINGS = ["C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "c1ccccc1", "c1ccncc1", "c1ccoc1", "c1ccsc1"]
COLUMNS = ("--smiles", "smiles", "--target", "y", "--workers", "1")
COMMANDS = {
    "fit": ("fit", "t.csv", *COLUMNS, "--steps", "2", "--ensemble", "2", "-o", "new"),
    "tune": ("tune", "t.csv", *COLUMNS, "--steps", "2", "--trials", "1", "-o", "new"),
    "pack": ("data", "pack", "t.csv", *COLUMNS, "-o", "new.npz"),
    "predict": ("predict", "model", "t.csv", "-o", "new.csv", "--workers", "1"),
    "evaluate": ("evaluate", "model", "t.csv", "--workers", "1"),
}


def rows(count: int = 60) -> list[str]:
    return [f"{'C' * (1 + number % 9)}{RINGS[number % 8]},{number}.5" for number in range(count)]


def table(lines: list[str], header: str = "smiles,y") -> str:
    return "\n".join([header, *lines]) + "\n"


@pytest.fixture
def called(call_command):
    return partial(call_command, "maggnn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, call_command) -> Path:
    """A model of numbers."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "good.csv").write_text(table(rows()))
    fit = ("fit", "good.csv", *COLUMNS, "--steps", "2", "--ensemble", "2", "-o", "model")
    call_command("maggnn", *fit, cwd=folder).output()
    return folder


OPENED = [*rows()[:10], '"CCC,1.5', *rows()[11:]]
REFUSED = {
    "a quote that never closes": (table(OPENED), "line 12: a quote opens in this row and is never closed"),
    "a quote that closes later": (table([*OPENED, '"CCC",2.5']), "line 12: text follows a closing quote"),
    "two columns of one name": (table([f"{row},1" for row in rows()], "smiles,y,y"), "2 columns are named 'y'"),
    "semicolons": (table([row.replace(",", ";") for row in rows()], "smiles;y"), "separated by ';'"),
    "an endless cell": (table([*rows(), f"{'C' * 1_100_000},1.5"]), "line 62: a cell of more than 1,000,000"),
    "no header": ("", "the table has no header"),
    "no rows": ("smiles,y\n", "no rows"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_all_commands_refuse_the_same_tables(folder, called, command, text, message):
    (folder / "t.csv").write_text(text)
    line = called(*COMMANDS[command], cwd=folder).mistake()
    assert "t.csv" in line and message in line and len(line) < 400
    assert not list(folder.glob("new*"))


def test_all_commands_leave_the_same_rows_out(folder, called, tmp_path):
    lines = [*rows(), "CCC", "CCC,1.5,2.5", f"{'C' * 200_000},1.5"]
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbf" + table(lines).encode())
    (tmp_path / "model").symlink_to(folder / "model")
    expected = {
        "62": "line 62 has 1 cells where the header has 2",
        "63": "line 63 has 3 cells where the header has 2",
        "64": "a SMILES of 200000 characters: at most 50000 are allowed",
    }
    csv.field_size_limit(1_000_000)
    assert json.loads(called(*COMMANDS["fit"], "--json", cwd=tmp_path).output().splitlines()[-1])["left_out"] == 3
    assert json.loads(called(*COMMANDS["evaluate"], "--json", cwd=tmp_path).output())["left_out"] == 3
    assert all(len(line) < 1200 for line in called(*COMMANDS["pack"], cwd=tmp_path).output().splitlines())
    for name in ("new/left_out.csv", "new.errors.csv"):
        with (tmp_path / name).open(newline="") as file:
            assert {row["row"]: row["reason"] for row in csv.DictReader(file)} == expected
    called(*COMMANDS["predict"], cwd=tmp_path).output()
    with (tmp_path / "new.csv").open(newline="") as file:
        assert [row["reason"] for row in csv.DictReader(file)][60:] == list(expected.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_all_commands_read_the_same_kinds_of_files(folder, called, command, tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = [row.split(",") for row in rows()]
    columns = {"smiles": [*(cell[0] for cell in cells), None], "y": [*(float(cell[1]) for cell in cells), 1.5]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    (tmp_path / "t.xlsx").write_text(table(rows()))
    (tmp_path / "model").symlink_to(folder / "model")
    read, refused = ([each.replace("t.csv", name) for each in COMMANDS[command]] for name in ("t.parquet", "t.xlsx"))
    line = called(*refused, cwd=tmp_path).mistake()
    assert "t.xlsx: cannot read .xlsx, only .csv" in line and ".parquet" in line
    result = json.loads(called(*read, "--json", cwd=tmp_path).output().splitlines()[-1])
    assert command == "tune" or result["rows"] == 61


AMBIGUOUS = {
    "decimal commas": ([f'"{n},5"' for n in range(60)], "numbers with commas ('0,5' in line 2)"),
    "dates": ([f"2024-01-{1 + n % 28:02}" for n in range(60)], "dates ('2024-01-01' in line 2)"),
    "numbers and text": (["high", *(f"{n}.5" for n in range(59))], "'high' in line 2"),
    "codes or counts": ([str(1 + n % 2) for n in range(60)], "give --task classification or --task regression"),
}


@pytest.mark.parametrize("command", ["fit", "tune", "pack"])
@pytest.mark.parametrize(("values", "message"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_ambiguous_targets_stop_with_the_choice(folder, called, command, values, message):
    smiles = [row.partition(",")[0] for row in rows()]
    (folder / "t.csv").write_text(table([f"{each},{value}" for each, value in zip(smiles, values, strict=True)]))
    assert message in called(*COMMANDS[command], cwd=folder).mistake()
    assert not list(folder.glob("new*"))


@pytest.mark.parametrize("command", ["fit", "tune", "pack"])
def test_what_the_target_was_taken_for_is_said(called, tmp_path, command):
    values = ["NA", "TRUE", "no", *["yes", "False", "1", "0"] * 15]
    lines = [f"{row.partition(',')[0]},{value}" for row, value in zip(rows(63), values, strict=True)]
    (tmp_path / "t.csv").write_text(table(lines))
    code, _, err = called(*COMMANDS[command], cwd=tmp_path)
    assert code == 0, err
    (said,) = [line for line in err.splitlines() if "interpreted as" in line]
    assert said == "t.csv: column 'y' is interpreted as classes: its values are false and true"
    if command == "fit":
        card = (tmp_path / "new" / "README.md").read_text()
        assert "- Target: column 'y' is interpreted as classes: its values are false and true." in card
        assert "| class | train | val | test |" in card and "| false | " in card and "| true | " in card


SCAFFOLD = ("--split", "scaffold")


def test_a_scaffold_split_of_a_file_sorted_by_class(called, tmp_path):
    pairs = [f"{left}{'C' * n}{right}" for left in RINGS for right in RINGS for n in (0, 1)]
    lines = [f"{smiles},{'inactive' if place < 64 else 'active'}" for place, smiles in enumerate(pairs)]
    (tmp_path / "t.csv").write_text(table(lines))
    result = json.loads(called(*COMMANDS["fit"], *SCAFFOLD, "--json", cwd=tmp_path).output().splitlines()[-1])
    assert result["metric"] == "auroc" and abs(result["train"] - 102) < 8
    for part in ("train", "val", "test"):
        assert sum(result["balance"][part].values()) == result[part] and min(result["balance"][part].values()) >= 3
    card = (tmp_path / "new" / "README.md").read_text()
    assert f"| active | {result['balance']['train']['active']} (" in card and "seed 0" in card


@pytest.mark.parametrize("command", ["fit", "tune"])
def test_a_part_with_one_class_is_refused_with_what_to_do(called, tmp_path, command):
    lines = [
        f"{row.partition(',')[0]},{int(number == 0)},{('train', 'val', 'test')[number % 3]}"
        for number, row in enumerate(rows())
    ]
    (tmp_path / "t.csv").write_text(table(lines, "smiles,y,set"))
    for split, advice in (
        (SCAFFOLD, "give another --seed, --split random, or --split column:NAME"),
        ((), "add rows of the other classes, which need three each, or give --split column:NAME"),
        (("--split", "column:set"), "the split in column 'set', or give --split random or --split scaffold"),
    ):
        line = called(*COMMANDS[command], *split, cwd=tmp_path).mistake()
        assert "has only one class of 'y', '0'" in line and advice in line
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("values", [["hit", *["miss"] * 9] * 6, ["rare"] * 3 + ["common"] * 57, [*"ab", *"cde" * 9]])
def test_a_random_split_gives_every_class_its_share(called, tmp_path, values):
    lines = [f"{row.partition(',')[0]},{value}" for row, value in zip(rows(len(values)), values, strict=True)]
    (tmp_path / "t.csv").write_text(table(lines))
    found = []
    for seed in (0, 1):
        called(*COMMANDS["pack"], "--seed", seed, "--overwrite", cwd=tmp_path).output()
        with np.load(tmp_path / "new.npz") as arrays:
            found.append({part: arrays[part].tolist() for part in ("train", "val", "test")})
    held_out = round(0.1 * len(values))
    assert found[0] != found[1]
    for parts in found:
        assert sorted(itertools.chain(*parts.values())) == list(range(len(values)))
        assert (len(parts["val"]), len(parts["test"])) == (held_out, held_out)
        for label in set(values):
            count = values.count(label)
            for part, share in (("train", 0.8), ("val", 0.1), ("test", 0.1)):
                dealt = sum(values[row] == label for row in parts[part])
                assert abs(dealt - share * count) < 2 and (dealt or count < 3), (label, part)


def test_numbers_with_commas_are_refused_by_evaluate_in_its_own_words(folder, called):
    (folder / "t.csv").write_text(table([f'CCO,"{number},5"' for number in range(9)]))
    line = called(*COMMANDS["evaluate"], cwd=folder).mistake()
    assert line.endswith("with commas ('0,5' in line 2): write a decimal point and no thousands separators")


def test_predict_says_that_no_row_has_a_prediction(folder, called):
    (folder / "t.csv").write_text(table([f"ethanol {n},CCO" for n in range(3)], "smiles,structure"))
    code, _, err = called(*COMMANDS["predict"][:3], "-o", "nothing.csv", cwd=folder)
    assert code == 0 and err == (
        "t.csv: no row has a prediction (column 'reason' says why): is 'smiles' the column of SMILES?\n"
    )
    code, _, err = called(*COMMANDS["predict"][:3], "-o", "all.csv", "--smiles", "structure", cwd=folder)
    assert (code, err) == (0, "")


def test_evaluate_says_why_rows_were_left_out(folder, called):
    (folder / "t.csv").write_text(table([*rows()[:9], "CCO,high", "C1CC,1.5"]))
    said = called(*COMMANDS["evaluate"], cwd=folder).output()
    assert said.rstrip().endswith("2 of 11 rows left out; the first in line 11: target 'y' is 'high', not a number")


def test_evaluate_says_how_many_molecules_the_model_has_learned_from(folder, called):
    known = (folder / "model" / "known_molecules.csv").read_text()
    (folder / "t.csv").write_text(known + "BrCCBr,1.5\n")
    line = called(*COMMANDS["evaluate"], cwd=folder).output().splitlines()[-2]
    count = len(known.splitlines()) - 1
    assert line.startswith(f"{count} of these rows have the fingerprint of a molecule that the model was fitted to")
    assert json.loads(called(*COMMANDS["evaluate"], "--json", cwd=folder).output())["known"] == count == 54
    (folder / "t.csv").write_text(table(["BrCCBr,1.5", "BrCCCBr,2.5"]))
    assert "fingerprint" not in called(*COMMANDS["evaluate"], cwd=folder).output()


def test_fit_says_that_molecules_are_in_more_than_one_part(called, tmp_path):
    lines = [f"{row},{('train', 'train', 'val', 'test')[n % 4]}" for n, row in enumerate([*rows(), *rows(2)])]
    (tmp_path / "t.csv").write_text(table([*lines, "OCC,1.5,train", "CCO,1.5,test"], "smiles,y,part"))
    fit = ("fit", "t.csv", *COLUMNS, "--split", "column:part", "--steps", "2", "--ensemble", "1", "-o", "model")
    code, _, err = called(*fit, cwd=tmp_path)
    assert (
        code == 0 and "t.csv: molecules in more than one part of the split: 1, such as CCO; test scores are opt" in err
    )


def test_fit_says_why_rows_were_left_out(called, tmp_path):
    """Rows of a third of the weights, which have decimal commas, were left out with a count alone."""
    lines = [f'{row},"{("1", "2", "0,5")[n % 3]}"' for n, row in enumerate(rows())]
    (tmp_path / "t.csv").write_text(table(lines, "smiles,y,w"))
    fit = ("fit", "t.csv", *COLUMNS, "--weight", "w", "--steps", "2", "--ensemble", "1", "-o", "model")
    said = called(*fit, cwd=tmp_path).output()
    reason = "its weight is '0,5', not a number from 0 to 1e+30"
    assert f"20 of 60 rows left out; the first in line 4: {reason}; " in said


def test_a_split_without_rows_says_why_they_were_left_out(called, tmp_path):
    parts = ("train", "train", "Validation", "test")
    (tmp_path / "t.csv").write_text(table([f"{row},{parts[n % 4]}" for n, row in enumerate(rows())], "smiles,y,part"))
    line = called("fit", "t.csv", *COLUMNS, "--split", "column:part", "-o", "model", cwd=tmp_path).mistake()
    assert "val 0" in line and "15 rows were left out, the first in line 4: split 'Validation' is none of" in line


def test_evaluate_says_in_its_own_words_that_elements_are_new(folder, called):
    (folder / "t.csv").write_text(table(["C[Se]C,1.5", "CCC1CC1,2.5"]))
    code, _, err = called(*COMMANDS["evaluate"], cwd=folder)
    assert code == 0 and err.startswith("t.csv: categories that are not in the training data") and err.count("\n") == 1


def test_large_targets_with_small_differences_are_learned(called, tmp_path):
    """Rings differ by 2 from chains around 1e9, where float32 has steps of 64."""
    lines = [f"{'C' * (1 + n % 12)}{'c1ccccc1' if n % 2 else ''},{1_000_000_000 + 2 * (n % 2)}.5" for n in range(80)]
    (tmp_path / "t.csv").write_text(table(lines))
    fit = ("fit", "t.csv", *COLUMNS, "--steps", "60", "--ensemble", "2", "-o", "model", "--json")
    result = json.loads(called(*fit, cwd=tmp_path).output().splitlines()[-1])
    assert next(iter(result["test_scores"].values()))["value"] < 1
    called(*COMMANDS["predict"], cwd=tmp_path).output()
    with (tmp_path / "new.csv").open(newline="") as file:
        errors = [abs(float(row["predicted_y"]) - float(row["y"])) for row in csv.DictReader(file)]
    assert sum(errors) / len(errors) < 1
    assert json.loads(called(*COMMANDS["evaluate"], "--json", cwd=tmp_path).output())["mae"] < 1
    called(*COMMANDS["pack"], cwd=tmp_path).output()
    with np.load(tmp_path / "new.npz") as arrays:
        assert set(arrays["y"].tolist()) == {1e9 + 0.5, 1e9 + 2.5}


def test_a_packed_file_keeps_its_labels_and_never_changes_its_metric(called, tmp_path):
    values = ["ring" if number % 2 else "chain" for number in range(60)]
    parts = ["train" if number < 40 else "val" if number < 50 else "test" for number in range(60)]
    lines = [f"{row.partition(',')[0]},{y},{part}" for row, y, part in zip(rows(), values, parts, strict=True)]
    (tmp_path / "t.csv").write_text(table(lines, "smiles,y,set"))
    called(*COMMANDS["pack"], "--split", "set", cwd=tmp_path).output()
    packed = load_own(tmp_path / "new.npz")
    assert (packed.class_names, packed.metric) == (("chain", "ring"), "auroc") and len(packed.split(0, 0).val) == 10
    lines = [line.replace("ring,val", "chain,val") for line in lines]
    (tmp_path / "t.csv").write_text(table(lines, "smiles,y,set"))
    called(*COMMANDS["pack"], "--split", "set", "--overwrite", cwd=tmp_path).output()
    packed = load_own(tmp_path / "new.npz")
    assert packed.metric == "auroc"
    with pytest.raises(InputError, match="val has only one class, 0: split the graphs in another way"):
        packed.split(0, 0)
