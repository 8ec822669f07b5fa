"""Commands are timed in processes of their own, with the memory of all of them, and can be killed on the way."""

import os
import time

import pytest

from maggnn.data.sources import data_root
from maggnn.errors import InputError
from maggnn_paper import ledger
from maggnn_paper.bench import people


def test_a_command_is_timed_and_its_memory_seen():
    run = people.run_command(["data", "list", "--json"])
    assert run.answer["sr25"]["graphs"] == 15
    assert 0.05 < run.seconds < 60 and 5 < run.peak_mb < 4000


def test_a_failed_command_is_no_measurement():
    with pytest.raises(InputError, match="predict ended with exit code 2"):
        people.run_command(["predict", "nowhere", "nothing.csv", "-o", "out.csv"])


def test_a_killed_command_ends_at_once():
    began = time.monotonic()
    people.run_command(["demo", "-o", "nowhere"], kill_after_s=0.1)
    assert time.monotonic() - began < 20


def test_memory_of_this_process_group():
    assert people._memory_mb(os.getpgid(0)) > 50


def test_without_molecules_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setenv("MAGGNN_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"zinc12k_smiles\.txt\.xz: no such file"):
        list(people.smiles_of("zinc12k_smiles.txt.xz"))


@pytest.mark.slow
@pytest.mark.dataset
def test_all_rows(tmp_path):
    if not (data_root() / "zinc_full_smiles.txt.xz").is_file():
        pytest.skip("no SMILES of ZINC-FULL under the data root (MAGGNN_DATA)")
    rows = people.bench(limit=5000, tell=lambda line: None)
    ledger.append(rows, tmp_path / "ledger.jsonl")
    assert {row.method for row in rows if row.metric == "mae"} == set(people.NAMES.values())
    assert "the same file" in rows[-1].note and rows[-1].dataset == "smiles5000"
