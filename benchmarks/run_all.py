"""Every `maggnn-paper bench`, one after the other, for a machine that has only torch, PyG, numpy and safetensors.

    PYTHONPATH=src:paper/src MAGGNN_DATA=... python benchmarks/run_all.py results/ledger.jsonl [inference floor ...]

Rows are written as soon as a bench is done, so that nothing measured is lost when the time is up.
"""

import sys
import time

from maggnn_paper import ledger
from maggnn_paper.bench.tables import BENCHES, run_bench


def main(path: str, names: list[str]) -> None:
    began = time.monotonic()
    for name in names or BENCHES:
        rows = run_bench(
            name, "auto", None, 1000.0, tell=lambda line: print(f"{time.monotonic() - began:5.0f} s  {line}")
        )
        ledger.append(rows, path)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "results/ledger.jsonl", sys.argv[2:])
