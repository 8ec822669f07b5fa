"""Splits of tables: one molecule in one part, clusters, times; repeated molecules, salts and weights."""

from random import Random

import numpy as np
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

from maggnn.apps.fit.tables.number_columns import number_parsers
from maggnn.data.molecules.clusters import CUTOFF, clusters
from maggnn.data.molecules.fragments import largest_fragment
from maggnn.data.molecules.row_weights import training_weights, weight_value
from maggnn.data.molecules.table import NumberColumn, merged_values, read_table
from maggnn.data.molecules.table_splits import SplitInput, Times, random_parts, split_choice, time_parts
from maggnn.errors import InputError

TAILS = ["O", "N", "Cl", "C(=O)O", "C#N", "F"]
SMILES = [
    Chem.CanonSmiles(head + "C" * length + tail)
    for head in ("c1ccccc1", "C1CCCCC1", "c1ccncc1", "CC(C)(C)")
    for length in range(1, 6)
    for tail in TAILS
]


def rows(canonical: list[str], **numbers: np.ndarray) -> SplitInput:
    return SplitInput(canonical, np.zeros(len(canonical), dtype=int), numbers)


@pytest.mark.parametrize("split", ["random", "scaffold", "cluster", "time:year"])
def test_a_molecule_is_in_one_part(split):
    canonical = SMILES + SMILES[::3]
    Random(0).shuffle(canonical)
    choice = split_choice(split, 3)
    assert choice.deal is not None
    years = np.random.default_rng(0).integers(1990, 2024, len(canonical)).astype(float)
    parts = choice.deal(rows(canonical, year=years))
    of = {}
    assert all(of.setdefault(name, part) == part for name, part in zip(canonical, parts, strict=True))
    counts = {part: parts.count(part) for part in ("train", "val", "test")}
    assert sum(counts.values()) == len(canonical)
    if split != "scaffold":  # four scaffolds are too few for three parts
        assert min(counts.values()) > 0.03 * len(canonical)


def test_a_random_split_without_repeats_does_not_depend_on_the_names():
    deal = SplitInput(SMILES, np.arange(len(SMILES)) % 3, {})
    assert random_parts(deal, 1) == random_parts(SplitInput([*map(str, range(len(SMILES)))], deal.strata, {}), 1)


def test_clusters_are_near_their_middle_and_whole_in_a_part():
    found = clusters(SMILES)
    generator = GetMorganGenerator(radius=2, fpSize=2048)
    prints = {name: generator.GetFingerprint(Chem.MolFromSmiles(name)) for name in SMILES}
    for smiles, middle in zip(SMILES, found, strict=True):
        assert 1 - DataStructs.TanimotoSimilarity(prints[smiles], prints[middle]) <= CUTOFF + 1e-6
    assert 1 < len(set(found)) < len(SMILES)
    assert clusters(SMILES[::-1])[::-1] == found
    choice = split_choice("cluster", 0)
    assert choice.deal is not None and choice.groups is not None
    parts = choice.deal(rows(SMILES))
    where = {}
    assert all(where.setdefault(group, part) == part for group, part in zip(found, parts, strict=True))


def test_the_newest_molecules_test_and_repeats_go_with_the_oldest():
    years = np.arange(100, dtype=float)[::-1]
    names = [f"m{number}" for number in range(100)]
    parts = np.array(time_parts(rows(names, year=years), "year"))
    assert (parts[years >= 90] == "test").all() and (parts[(years >= 80) & (years < 90)] == "val").all()
    assert (parts[years < 80] == "train").all()
    names[0] = names[99]  # the newest row is the oldest molecule again
    assert time_parts(rows(names, year=years), "year")[0] == "train"


def test_molecules_of_equal_times_are_drawn_and_not_taken_in_the_order_of_the_rows():
    """A table that is sorted by its target would otherwise have the largest values of its last year in test."""
    names, years = [f"m{number}" for number in range(200)], np.repeat([2000.0, 2001.0], 100)
    parts = np.array(time_parts(rows(names, year=years), "year", 1))
    assert (parts[:100] == "train").all() and (parts == "test").sum() == 20
    assert 120 < np.flatnonzero(parts == "test").mean() < 180
    assert time_parts(rows(names[::-1], year=years[::-1]), "year", 1)[::-1] == parts.tolist()
    assert time_parts(rows(names, year=years), "year", 2) != parts.tolist()


def test_times_are_numbers_or_dates():
    assert Times()("2001.5") == 2001.5
    times = Times()
    assert times("2024-01-31") < times("2024-02-01T10:00") < times("2024-02-01T10:00+00:30") + 3600
    times.check("t.csv: column 't'")
    for text in ("", "last year", "31.1.2024"):
        with pytest.raises(InputError, match="its time is"):
            times(text)
    times("2019")
    with pytest.raises(
        InputError, match=r"t\.csv: column 't' mixes numbers such as '2019' with dates such as '2024-01-31'"
    ):
        times.check("t.csv: column 't'")


def test_repeated_molecules_are_merged_refused_or_kept(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("smiles,y,part\nCCO,1.5,train\nOCC,2.5,train\nCC,7.25,val\nCCC,0.125,test\nC(C)O,2.0,train\n")
    kept = read_table(path, "smiles", ["y"], split_column="part")
    assert len(kept.canonical) == 5 and not kept.num_merged
    merged = read_table(path, "smiles", ["y"], split_column="part", duplicates="mean")
    assert merged.canonical == ["CCO", "CC", "CCC"] and merged.arrays["y"].tolist() == [2.0, 7.25, 0.125]
    assert merged.num_merged == 2 and merged.arrays["num_nodes"].tolist() == [3, 2, 3]
    with pytest.raises(InputError, match="2 rows repeat a molecule, such as CCO in lines 2 and 3"):
        read_table(path, "smiles", ["y"], split_column="part", duplicates="refuse")
    path.write_text(path.read_text().replace("2.5,train", "2.5,test"))
    with pytest.raises(InputError, match="lines 2 and 3 are the same molecule, but their split is train and test"):
        read_table(path, "smiles", ["y"], split_column="part", duplicates="mean")
    with pytest.raises(InputError, match="--duplicates is 'some'"):
        read_table(path, "smiles", ["y"], duplicates="some")


def test_merged_rows_keep_conditions_apart_and_have_the_oldest_time_and_the_weight_of_all(tmp_path):
    path = tmp_path / "t.csv"
    rows = ["CCO,1,300,2009,1", "OCC,4,300,2001,3", "CCO,9,400,2005,1", "CC,5,300,2003,0", "CC,7,300,2004,2"]
    rows += ["C,1,,1,0", "C,3,,2,0"]
    path.write_text("smiles,y,kelvin,year,weight\n" + "\n".join(rows) + "\n")
    numbers = {
        "kelvin": number_parsers(["kelvin"])["kelvin"],
        "year": NumberColumn(Times(), "least"),
        "weight": NumberColumn(weight_value, "total"),
    }
    table = read_table(path, "smiles", ["y"], task="regression", numbers=numbers, duplicates="mean")
    assert table.canonical == ["CCO", "CCO", "CC", "C"]
    assert table.arrays["y"].tolist() == [3.25, 9.0, 7.0, 2.0]
    assert table.numbers["year"].tolist() == [2001, 2005, 2003, 1]
    assert table.numbers["weight"].tolist() == [4, 1, 2, 0]
    assert table.num_merged == 3


def test_classes_that_contradict_each_other_are_left_out(tmp_path):
    path = tmp_path / "t.csv"
    lines = [("CCO", "a"), ("OCC", "b"), ("CC", "a"), ("CC", "b"), ("CC", "b"), ("CCC", "a")]
    path.write_text("smiles,y,part\n" + "".join(f"{smiles},{label},train\n" for smiles, label in lines))
    table = read_table(path, "smiles", ["y"], split_column="part", duplicates="mean")
    assert table.arrays["train"].tolist() == [1, 2] and table.arrays["y"][1:].tolist() == [1, 0]
    assert [(error.row, error.smiles) for error in table.errors] == [(2, "CCO")]
    assert merged_values(np.array([[0.0, np.nan], [1.0, 1.0], [1.0, np.nan]]), "multilabel") == (1.0, 1.0)
    assert merged_values(np.array([[2.0, np.nan], [4.0, 1.0]]), "regression") == (3.0, 1.0)


def test_salts_are_kept_or_left_out(tmp_path):
    assert largest_fragment("CC(=O)[O-].[Na+]") == "CC(=O)[O-]" and largest_fragment("OCC") == "OCC"
    assert largest_fragment("[Na+].[Cl-].CO") == "CO" and largest_fragment("C(.O") == "C(.O"
    path = tmp_path / "t.csv"
    path.write_text("smiles,y,part\nCC(=O)[O-].[Na+],1.5,train\nCC,2.5,val\nC(.O,1.0,test\nCCC,3.5,test\n")
    table = read_table(path, "smiles", ["y"], split_column="part", salts="largest")
    assert table.canonical == ["CC(=O)[O-]", "CC", "CCC"] and [error.row for error in table.errors] == [4]
    assert read_table(path, "smiles", ["y"], split_column="part").canonical[0] == "CC(=O)[O-].[Na+]"
    with pytest.raises(InputError, match="--salts is 'none'"):
        read_table(path, "smiles", ["y"], salts="none")


def test_weights_have_the_mean_one_and_balance_classes():
    y = np.array([0, 0, 0, 1, 1, 0])
    train = np.arange(5)
    weights = training_weights(y, train, None, balance=True)
    assert weights is not None and weights.dtype == np.float32
    assert weights[train].mean() == pytest.approx(1.0)
    assert weights[train][y[train] == 0].sum() == pytest.approx(weights[train][y[train] == 1].sum())
    rows_of = np.array([1.0, 2.0, 3.0, 0.0, 4.0, 9.0])
    both = training_weights(y, train, rows_of, balance=True)
    assert both is not None and both[:3].sum() == pytest.approx(both[3:5].sum()) and both[3] == 0
    assert both[1] == pytest.approx(2 * both[0])
    several = np.array([[0.0, np.nan], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    each = training_weights(several, np.arange(4), None, balance=True)
    assert (
        each is not None and each[0, 0] == pytest.approx(3 * each[1, 0]) and each[2, 1] == pytest.approx(2 * each[1, 1])
    )
    assert training_weights(y, train, None, balance=False) is None
    with pytest.raises(InputError, match="weight 0"):
        training_weights(y, train, np.zeros(6), balance=False)
    assert weight_value(" 0.5 ") == 0.5
    for text in ("-1", "NA", "heavy"):
        with pytest.raises(InputError, match="its weight is"):
            weight_value(text)
