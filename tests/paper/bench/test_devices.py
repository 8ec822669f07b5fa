"""The cost of distributed training in one process is measured through a process group of size 1."""

import pytest
import torch

from maggnn.data.sources import data_root
from maggnn_paper import ledger
from maggnn_paper.bench import devices

pytest.importorskip("lightning_fabric")


@pytest.mark.dataset
def test_a_workload_is_a_row(tmp_path):
    if not (data_root() / "zinc12k.npz").is_file():
        pytest.skip("no ZINC under the data root (MAGGNN_DATA)")
    told = []
    (row,) = devices.bench(torch.device("cpu"), told.append, ("zinc",), repeats=1, at_once=1)
    ledger.append(row, tmp_path / "ledger.jsonl")
    assert (row.table, row.dataset, row.metric) == ("bench_train", "devices-zinc", "percent")
    assert row.mean > -100 and "(gloo)" in row.note and len(told) == 1
