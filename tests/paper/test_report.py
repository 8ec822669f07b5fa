"""The report: the same ledger gives the same bytes, and nothing in it is rounded up to perfect."""

import dataclasses
from pathlib import Path

import pytest

from builders import make_row as short_row
from maggnn.errors import InputError
from maggnn_paper import ledger, report
from maggnn_paper.ledger import TABLES, LedgerRow
from maggnn_paper.report import readme, results

ROOT = Path(__file__).resolve().parents[2]


def make_row(**changes) -> LedgerRow:
    values = {"std": 0.25, "runs": 10, "tests_per_run": 10, "commit": "abc1234"}
    return short_row(**(values | changes))


def moves_rows():
    agent = [make_row(table="moves", t=t, mean=[88, 99.2, 100][min(t, 2)]) for t in range(9)]
    control = [make_row(table="moves", method="random-moves", t=t, mean=88.0) for t in range(9)]
    return agent + control


def find_line(text, *words):
    return next(line for line in text.splitlines() if all(word in line for word in words))


def test_every_table_has_a_title():
    assert set(results.TITLES) == set(TABLES)


@pytest.mark.parametrize(("table", "method"), [("ceilings", "refinement"), ("people", "fingerprint-forest")])
def test_methods_of_one_table_alone(table, method):
    text = results.render([make_row(table=table, method=method, metric="pairs", mean=251.0)])
    assert "251" in find_line(text, f"| {method} |")


def test_a_cell_shows_ours_and_the_papers():
    text = results.render([make_row(), make_row(method="gin", m=None, k=None, t=None, keep=None, mean=6.67)])
    line = find_line(text, "mag-gnn", "m=1, k=2, t=2, keep last")
    assert "99.50 ± 0.25 (10×10); paper 100" in line
    assert "cpu, 2 cores" in line
    assert "paper 93.8" in find_line(text, "| random-marks |")  # nobody measured it here: the paper's alone
    assert text.index("| gin |") < text.index("| random-marks |") < text.index("| mag-gnn |")


def test_the_newest_row_counts_and_failures_show():
    text = results.render([make_row(mean=12.34), make_row(mean=None, std=None, note="did | not\nfinish")])
    assert "12.34" not in text
    assert "failed (10×10) [1]" in text
    assert "- [1] did \\| not finish" in text


@pytest.mark.parametrize(
    ("value", "metric", "expected"),
    [
        (100.0, "accuracy", "100.00"),
        (99.999, "accuracy", ">99.99"),
        (99.98, "auroc", "99.98"),
        (0.002567, "mae", "0.00257"),
        (0.9996, "score", ">0.999"),
        (0.5775, "score", "0.578"),
        (6.22e-15, "difference", "6.22e-15"),
        (377.0, "pairs", "377"),
        (10.26, "ms", "10.3"),
        (1.014, "exponent_nodes", "1.01"),
        (None, "ms", "failed"),
    ],
)
def test_numbers(value, metric, expected):
    table = "bench_scaling" if metric.startswith("exponent") else "synthetic"
    text = results.render([make_row(table=table, metric=metric, mean=value, std=None)])
    assert f"| {expected} (10×10)" in text


def test_moves_are_one_line_a_method():
    text = results.render(moves_rows())
    header = find_line(text, "t=0", "t=8")
    agent = find_line(text, "| mag-gnn |", "99.20")
    assert agent.count("|") == header.count("|")
    assert [cell.strip() for cell in agent.split("|")[3:12]] == ["88.00", "99.20", *["100.00"] * 7]
    assert "in six moves" in text


def test_wide_tables_are_cut():
    targets = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv")
    text = results.render([make_row(table="qm9", dataset=f"qm9_{name}", metric="mae", mean=0.1) for name in targets])
    headers = [line for line in text.splitlines() if line.startswith("| method | setting | qm9_")]
    assert len(headers) == 2
    assert "qm9_mu (mae)" in headers[0]
    assert "qm9_cv (mae)" in headers[1]


def test_tables_are_well_formed():
    rows = [make_row(table=table, metric="ms" if table.startswith("bench") else "accuracy") for table in TABLES]
    widths = None
    for line in results.render(rows + moves_rows()).splitlines():
        if not line.startswith("|"):
            widths = None
            continue
        width = line.replace("\\|", "").count("|")
        assert width == (widths or width)
        widths = width


def test_rendering_is_deterministic():
    rows = [make_row(dataset=d, method=m, note=f"{d} {m}") for d in ("exp", "csl") for m in ("gin", "mag-gnn")]
    assert results.render(rows) == results.render(list(rows))
    assert readme.render_summary(rows) == readme.render_summary(list(rows))
    assert "Nothing has been measured yet." in results.render([])


def test_summary_never_chooses_by_score():
    rows = [
        make_row(mean=98.0),
        make_row(mean=100.0, runs=1, tests_per_run=1, hardware="gpu"),  # better, but a single run
        make_row(method="random-moves", mean=90.0),
        make_row(method="random-moves", mean=70.0, m=2),  # newer, but not at the agent's m
        make_row(method="random-marks", mean=88.0, t=0),
    ]
    text = readme.render_summary(rows)
    assert "98.00 ± 0.25 (10×10) | 100 |" in find_line(text, "| mag-gnn |")
    assert "90.00" in find_line(text, "| random-moves |")
    assert "88.00" in find_line(text, "| random-marks |")
    assert find_line(text, "| gin |").split("|")[2].strip() == "–"


def test_brec_stands_beside_published_counts_of_one_machine():
    def row(dataset, mean, method="mag-gnn", m=4, hardware="gpu"):
        return make_row(
            table="brec_rpc",
            dataset=dataset,
            method=method,
            metric="pairs",
            mean=mean,
            std=None,
            m=m,
            hardware=hardware,
        )

    assert "BREC" not in readme.render_summary([row("basic", 60.0)])  # nothing to say before all pairs are measured
    rows = [row("all", 304.0), row("cfi", 20.0), row("basic", 59.0, hardware="cpu, 2 cores")]
    rows += [row("basic:all", 60.0, "random-marks", None), row("all", 110.0, "random-marks")]
    rows += [row("all", 234.0, "ppgn", None)]
    text = readme.render_summary(rows)
    assert find_line(text, "mag-gnn, ours").split("|")[2:-1] == [" – ", " – ", " – ", " 20 (10×10) ", " 304 (10×10) "]
    assert "281" in find_line(text, "i2gnn, published") and "110" in find_line(text, "random-marks, ours")
    assert "234" in find_line(text, "ppgn, ours") and "233" in find_line(text, "ppgn, published")
    assert find_line(text, "every pair of marks").split("|")[2].strip() == "60 (10×10)"
    assert "finest" not in text
    finest = dataclasses.replace(row("all:finest", 366.0, "mag-gnn-finest", 1, "cpu, 2 cores"), passes=1)
    text = readme.render_summary([*rows, finest])
    assert "366" in find_line(text, "the finest marks, ours") and "reads, 1 for each graph" in text


def test_readme_is_filled_between_its_marks(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"# a\n\n{readme.BEGIN}\nold\n{readme.END}\n\ntail\n", encoding="utf-8")
    report.update_readme(path, [make_row(), *moves_rows()])
    once = path.read_text(encoding="utf-8")
    assert "old" not in once
    assert once.startswith("# a\n\n")
    assert once.endswith("\n\ntail\n")
    assert "99.20" in once
    report.update_readme(path, [make_row(), *moves_rows()])
    assert path.read_text(encoding="utf-8") == once


def test_readme_without_marks_is_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("# a\n", encoding="utf-8")
    with pytest.raises(InputError, match="results:begin"):
        report.update_readme(readme, [])
    assert readme.read_text(encoding="utf-8") == "# a\n"


def test_write_report_and_stale(tmp_path):
    ledger.append([make_row(), *moves_rows()], tmp_path / report.LEDGER)
    (tmp_path / "README.md").write_text(f"{readme.BEGIN}\n{readme.END}\n", encoding="utf-8")
    assert len(report.stale(tmp_path)) == 2
    assert len(report.write_report(tmp_path)) == 2
    assert report.stale(tmp_path) == []
    assert report.write_report(tmp_path) == []
    ledger.append(make_row(mean=50.0), tmp_path / report.LEDGER)
    assert len(report.stale(tmp_path)) == 2


@pytest.mark.skipif(not (ROOT / report.LEDGER).exists(), reason="nothing has been measured yet")
def test_the_committed_report_is_up_to_date():
    assert report.stale(ROOT) == [], "run `maggnn-paper report`"
