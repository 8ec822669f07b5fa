"""`maggnn predict` for a model that was fitted to graphs: reads a file of graphs and writes a table of predictions.

The file formats are those of `maggnn.data.graph_files` (.g6, .npz, .pt, .edges); files are read as a whole. The column
`graph` numbers the graphs from 0.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from maggnn.apps.fit.answers.answered_rows import AnsweredRows
from maggnn.apps.fit.answers.columns import NOT_FINITE, answer_columns, answer_names, answer_types
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning
from maggnn.apps.fit.row_files import cell_text, join_parts, write_part
from maggnn.data.files import check_output, whole_file
from maggnn.data.graph_files import read_graphs


def predict_graphs(fitted: FittedModel, path: Path, out: Path, overwrite: bool, coverage: float) -> dict[str, Any]:
    """Write the predictions for all graphs of a file."""
    began = time.monotonic()
    check_output(out, overwrite)
    graphs = read_graphs(str(path))
    with warnings.catch_warnings(action="ignore", category=UnseenWarning):
        answer = fitted.answer(graphs)
    finite = answer.values.isfinite().all(dim=1).numpy()
    reasons = ["" if good else NOT_FINITE for good in finite.tolist()]
    answers = AnsweredRows(answer_columns(answer, fitted, coverage), np.arange(len(graphs)), finite, reasons)
    cells = [list(range(len(graphs))), *answers.cells()]
    if out.suffix == ".csv":
        cells = [[cell_text(value) for value in column] for column in cells]
    header, types = ["graph", *answer_names(fitted)], ["int64", *answer_types(fitted)]
    with whole_file(out) as waiting:
        part = waiting.with_name(f"{waiting.name}.part")
        try:
            write_part(part, out.suffix, header, types, cells)
            join_parts([part], waiting, out.suffix, header)
        finally:
            part.unlink(missing_ok=True)
    seconds = time.monotonic() - began  # graphs have no similarity to training, so there is nothing to warn about
    counts = {"rows": len(graphs), "without": answers.without, "far": 0}
    return {"out": str(out), **counts, "warning": "", "seconds": seconds}
