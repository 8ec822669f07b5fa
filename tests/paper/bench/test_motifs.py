"""Planted groups: their atoms are known, and ranking counts what it says."""

import pytest

from maggnn.data.sources import data_root
from maggnn_paper import ledger
from maggnn_paper.bench import motifs


def test_atoms_of_groups_have_the_numbers_of_the_smiles():
    assert motifs.MOTIFS["ester"].atoms("CCOC(=O)c1ccccc1") == {2, 3, 4}
    assert motifs.MOTIFS["ester"].atoms("CC(=O)NC") == set()
    assert motifs.MOTIFS["sulfonamide"].atoms("CS(=O)(=O)NC") == {1, 2, 3, 4}
    assert motifs.MOTIFS["urea"].atoms("CNC(=O)NC") == {1, 2, 3, 4}


@pytest.mark.parametrize(
    ("contributions", "expected"),
    [([3.0, 2.0, 1.0], (True, True)), ([3.0, 1.0, 2.0], (False, True)), ([1.0, 1.0, 1.0], (False, True)),
     ([0.0, 1.0, 2.0], (False, False)), ([3.0, 2.0, -9.0], (True, True))],
)  # fmt: skip
def test_all_known_atoms_come_before_all_others(contributions, expected):
    assert motifs.ranks_first(contributions, {0, 1}) == expected


@pytest.mark.slow
@pytest.mark.dataset
def test_a_row_a_motif(tmp_path, monkeypatch):
    if not (data_root() / "zinc_full_smiles.txt.xz").is_file():
        pytest.skip("no SMILES of ZINC-FULL under the data root (MAGGNN_DATA)")
    monkeypatch.setattr(motifs, "MOTIFS", {"ester": motifs.MOTIFS["ester"]})
    rows = motifs.bench(limit=10, tell=lambda line: None, steps=20)
    ledger.append(rows, tmp_path / "ledger.jsonl")
    assert [row.dataset for row in rows] == ["motif-ester-top", "motif-ester"]
    assert rows[0].mean >= rows[1].mean >= 0 and all("of 10 molecules" in row.note for row in rows)
