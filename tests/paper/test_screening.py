"""The model of large screens: rates from measured costs, and what limits them."""

import pytest

from builders import make_row
from maggnn.errors import InputError
from maggnn_paper.figures.commands import draw
from maggnn_paper.figures.screening import ANSWERS, READS, draw_screening, exponent, model_of


def rows(driver_ms: float = 10.0) -> list:
    """Costs of .2 ms to read a molecule and of .3 ms to answer it, and measured rates of .9 of the model's."""
    stages = {f"predict-{stage}": 200.0 / len(READS) for stage in READS}
    stages |= {f"predict-{stage}": 300.0 / len(ANSWERS) for stage in ANSWERS}
    rates = {1: 1e3 / 0.3, 2: 2e3 / 0.5, 4: 2e3 / 0.5}
    stages |= {f"screen-workers{workers}": 1e6 / (0.9 * rate) for workers, rate in rates.items()}
    stages["screen-driver"] = driver_ms
    return [
        make_row(table="people", dataset=name, metric="ms", mean=value, hardware="cpu, 2 cores")
        for name, value in stages.items()
    ]


def test_rates_and_bottlenecks():
    model = model_of(rows())
    assert model.share == pytest.approx(0.9) and model.rate(1, 2) == pytest.approx(1e3 / 0.3)
    one, many = model.screen(1), model.screen(64)
    assert one["molecules a second"] == pytest.approx(0.9 * 16e3 / 0.5) and one["bottleneck"] == "cores"
    assert one["hours"] == pytest.approx(64 * many["hours"]) and one["dollars"] == pytest.approx(many["dollars"])
    slow = model_of(rows(driver_ms=1000.0)).screen(64)
    assert slow["bottleneck"] == "the driver" and slow["molecules a second"] == pytest.approx(32_768)
    assert exponent({1: 3.0, 2: 12.0, 4: 48.0}) == pytest.approx(2.0)


def test_the_plot_and_the_table(tmp_path):
    lines = draw_screening(rows(), tmp_path / "screening.png")
    assert (tmp_path / "screening.png").stat().st_size > 10_000
    assert lines[0].startswith("| 1 | 28,800 | 9.6 | 6.9 | cores (driver busy 0.9 %)")
    bounds = draw_screening(rows()[: len(READS + ANSWERS)], tmp_path / "bounds.png")  # of what was measured in part
    assert bounds[0] == "| 1 | 32,000 | 8.7 | 6.2 | cores |"
    with pytest.raises(InputError, match="no row predict-reading"):
        draw_screening(rows()[1:], tmp_path / "none.png")


def test_a_missing_ledger_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.jsonl: no such ledger"):
        draw("screening", tmp_path / "none.jsonl", tmp_path / "screening.png", [0], 0)
