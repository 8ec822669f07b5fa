"""The stages of `maggnn predict` are all measured, and add up; so is its rate on a device."""

import pytest
import torch

from maggnn.data.sources import data_root
from maggnn_paper import ledger
from maggnn_paper.bench import predict, predict_gpu


def need_smiles():
    if not (data_root() / "zinc_full_smiles.txt.xz").is_file():
        pytest.skip("no SMILES of ZINC-FULL under the data root (MAGGNN_DATA)")


@pytest.mark.dataset
def test_every_stage_is_a_row(tmp_path):
    need_smiles()
    told = []
    rows = predict.bench(limit=300, tell=told.append)
    ledger.append(rows, tmp_path / "ledger.jsonl")
    means = {row.dataset.removeprefix("predict-"): row.mean for row in rows}
    assert list(means) == [*predict.STAGES, "all"] and len(told) == len(rows)
    assert means["parsing"] > 0 and means["answering"] > 0
    assert means["all"] == pytest.approx(sum(means[stage] for stage in predict.STAGES), abs=0.1)


@pytest.mark.dataset
def test_the_rate_on_a_device_is_a_row(tmp_path):
    need_smiles()
    told = []
    (row,) = predict_gpu.bench(torch.device("cpu"), 2400, told.append)
    ledger.append(row, tmp_path / "ledger.jsonl")
    assert row.dataset == "predict-cpu" and row.mean > 0
    assert told == [row.note] and "2400 of them" in row.note and "the GPU waits" not in row.note
