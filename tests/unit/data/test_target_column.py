"""Target columns: what is missing, what are classes, what are numbers, and where a user has to say it."""

from pathlib import Path

import pytest

from maggnn.data.molecules.target_column import TargetKind, target_kind
from maggnn.errors import InputError


def column(tmp_path: Path, *values: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("smiles,y\n" + "".join(f'C,"{value}"\n' for value in values), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["yes", "no", "NA", "yes"], ("no", "yes")),
        (["0", "1", "NA", "1"], ("0", "1")),
        (["0", "1.0", "2", "n/a", "?", "null", "None", "NaN", "#N/A", "<NA>", ""], ("0", "1", "2")),
        (["true", "False", "TRUE", "false"], ("false", "true")),
        (["true", "no", "1", "0"], ("false", "true")),
        (["T", "F", "t"], ("f", "t")),
        (["ring", "chain", " ring"], ("chain", "ring")),
        (["5-HT1A", "5-HT2A", "D2"], ("5-HT1A", "5-HT2A", "D2")),
        (["1.5", "2", "NA", "-3e-2"], ()),
        (["1", "2", "1"], ()),  # too few to tell codes from numbers
        ([str(number) for number in range(30)], ()),
    ],
)
def test_a_column_is_taken_for_what_it_holds(tmp_path, values, classes):
    kind = target_kind(column(tmp_path, *values), ["y"])
    assert kind.classes == classes and kind.guessed
    assert kind.why.startswith(f"column 'y' is interpreted as {'classes' if classes else 'numbers'}: ")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1,5", "2,5"], r"numbers with commas \('1,5' in line 2\): write a decimal point"),
        (["1.5", "2,5"], r"'2,5' in line 3"),
        (["2024-01-31", "2024-02-01"], r"dates \('2024-01-31' in line 2\)"),
        (["31.1.2024", "1/2/24"], r"dates"),
        (["1.5", "high", "2.5"], r"mixes numbers with text \(1 of 3 .* 'high' in line 3\): give --task regression"),
        (["1_000", "5"], r"mixes numbers with text"),
        (["1", "2", "1", "2"], r"few whole numbers \(1, 2\).*give --task classification or --task regression"),
        (["007", "012", "012", "007"], r"few whole numbers \(007, 012\)"),
        (["-1", "1", "1.0", "-1"], r"few whole numbers \(-1, 1\)"),
        (["Ring", "ring", "chain"], r"differ only in case \('Ring', 'ring' in line 3\)"),
        (["yes", "yes"], r"only one class, 'yes'"),
        (["12 nM", "3.5 nM"], r"numbers with units or signs \('12 nM' in line 2\): write the numbers alone, or give"),
        (["45%", "3 %", "n.d."], r"units or signs \('45%' in line 2\)"),
        ([">10", "<=2.5", "~3"], r"units or signs"),
        (["1 000", "12 500"], r"units or signs"),
        (["1.2 ± 0.3", "1.4±0.2"], r"units or signs"),
        (["\u22121.5", "\u22122e-3"], r"units or signs"),  # a minus sign that is no hyphen
        (["long" * 50_000, "short"], r"a label of 200000 characters \('longlong.*' in line 2\): at most 200"),
    ],
)
def test_a_column_that_can_be_read_in_two_ways_stops_with_the_choice(tmp_path, values, message):
    with pytest.raises(InputError, match=message) as error:
        target_kind(column(tmp_path, *values), ["y"])
    assert "\n" not in str(error.value) and "t.csv: column 'y'" in str(error.value)


def test_the_user_has_the_last_word(tmp_path):
    assert target_kind(column(tmp_path, "1", "2", "1", "2"), ["y"], "classification").classes == ("1", "2")
    assert target_kind(column(tmp_path, "0", "1"), ["y"], "regression").classes == ()
    assert target_kind(column(tmp_path, "1,5", "2,5"), ["y"], "classification").classes == ("1,5", "2,5")
    assert target_kind(column(tmp_path, "007", "012", "12"), ["y"], "classification").classes == ("007", "012", "12")
    assert target_kind(column(tmp_path, "0.0", "1.", "+1", "-0"), ["y"]).classes == ("0", "1")
    assert target_kind(column(tmp_path, "<10", "10-20"), ["y"], "classification").classes == ("10-20", "<10")
    assert not target_kind(column(tmp_path, "1.5", "high"), ["y"], "regression").guessed
    with pytest.raises(InputError, match="numbers with commas"):
        target_kind(column(tmp_path, "1,5", "2,5"), ["y"], "regression")
    with pytest.raises(InputError, match="has no value"):
        target_kind(column(tmp_path, "NA", ""), ["y"], "classification")


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (("Active", "inactive"), ("inactive", "Active")),
        (("toxic", "non-toxic"), ("non-toxic", "toxic")),
        (("soluble", "not_soluble"), ("not_soluble", "soluble")),
        (("+", "-"), ("-", "+")),
        (("high", "low"), ("low", "high")),
        (("negative", "positive"), ("negative", "positive")),
        (("ring", "string"), ("ring", "string")),
        (("active", "inactive", "unknown"), ("active", "inactive", "unknown")),
    ],
)
def test_of_two_opposites_the_positive_one_is_last(tmp_path, labels, classes):
    assert target_kind(column(tmp_path, *labels, *reversed(labels)), ["y"], "classification").classes == classes


def test_truth_values_are_compared_by_what_they_mean():
    kind = TargetKind(("no", "yes"))
    assert [kind.value("y", text) for text in ("no", "Yes", "TRUE", "0", " 1 ")] == [0, 1, 1, 0, 1]
    assert [TargetKind(("0", "1")).value("y", text) for text in ("1.0", "false", "Y")] == [1, 0, 1]
    with pytest.raises(InputError, match="not one of the classes"):
        TargetKind(("chain", "ring")).value("y", "true")
    with pytest.raises(InputError, match=r"missing \(N/A\)"):
        kind.value("y", "N/A")
