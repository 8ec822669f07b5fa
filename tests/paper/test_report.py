"""The report: the same ledger gives the same bytes, and nothing in it is rounded up to perfect."""

import dataclasses
from itertools import groupby
from pathlib import Path

import pytest

from builders import make_row as short_row
from maggnn.errors import InputError
from maggnn_paper import ledger, report
from maggnn_paper.ledger import TABLES, LedgerRow
from maggnn_paper.report import readme, results, summary

ROOT = Path(__file__).resolve().parents[2]


def make_row(**changes) -> LedgerRow:
    values = {"std": 0.25, "runs": 10, "tests_per_run": 10, "commit": "abc1234"}
    return short_row(**(values | changes))


def moves_rows():
    agent = [make_row(table="moves", t=t, mean=[88, 99.2, 100][min(t, 2)]) for t in range(9)]
    control = [make_row(table="moves", method="random-moves", t=t, mean=88.0) for t in range(9)]
    return agent + control


def rendered(rows) -> str:
    """All pages of results in one text."""
    return "\n".join(text for name, text in results.render_pages(rows).items() if name.endswith(".md"))


def page(table, rows) -> str:
    return results.render_pages(rows)[f"{table}.md"]


def find_line(text, *words):
    return next(line for line in text.splitlines() if all(word in line for word in words))


def test_every_table_has_a_title():
    assert set(results.TITLES) == set(TABLES)


@pytest.mark.parametrize(("table", "method"), [("ceilings", "refinement"), ("people", "fingerprint-forest")])
def test_methods_of_one_table_alone(table, method):
    text = page(table, [make_row(table=table, method=method, metric="pairs", mean=251.0)])
    assert "251" in find_line(text, f"| {method} |")


def test_a_cell_shows_ours_and_the_papers():
    text = page("synthetic", [make_row(), make_row(method="gin", m=None, k=None, t=None, keep=None, mean=6.67)])
    line = find_line(text, "mag-gnn", "m=1, k=2, t=2, keep last")
    assert "99.50 ± 0.25 (10×10); paper 100" in line
    assert "cpu, 2 cores" in line
    assert "paper 93.8" in find_line(text, "| random-marks |")  # nobody measured it here: the paper's alone
    assert text.index("| gin |") < text.index("| random-marks |") < text.index("| mag-gnn |")


def test_the_newest_row_counts_and_failures_show():
    text = page("synthetic", [make_row(mean=12.34), make_row(mean=None, std=None, note="did | not\nfinish")])
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
    text = page(table, [make_row(table=table, metric=metric, mean=value, std=None)])
    assert f"| {expected} (10×10)" in text


def test_moves_are_one_line_a_method():
    text = page("moves", moves_rows())
    header = find_line(text, "t=0", "t=8")
    agent = find_line(text, "| mag-gnn |", "99.20")
    assert agent.count("|") == header.count("|")
    assert [cell.strip() for cell in agent.split("|")[3:12]] == ["88.00", "99.20", *["100.00"] * 7]
    assert "in six moves" in text


def test_wide_tables_are_cut():
    targets = ("mu", "alpha", "homo", "lumo", "gap", "r2", "zpve", "u0", "u", "h", "g", "cv")
    text = page("qm9", [make_row(table="qm9", dataset=f"qm9_{name}", metric="mae", mean=0.1) for name in targets])
    headers = [line for line in text.splitlines() if line.startswith("| method | setting | qm9_")]
    assert len(headers) == 2
    assert "qm9_mu (mae)" in headers[0]
    assert "qm9_cv (mae)" in headers[1]


def test_tables_are_well_formed():
    rows = [make_row(table=table, metric="ms" if table.startswith("bench") else "accuracy") for table in TABLES]
    lines = rendered(rows + moves_rows()).splitlines()
    tables = [list(group) for is_row, group in groupby(lines, lambda line: line.startswith("|")) if is_row]
    assert len(tables) >= len(TABLES)
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1, table[0]


def test_rendering_is_deterministic():
    rows = [make_row(dataset=d, method=m, note=f"{d} {m}") for d in ("exp", "csl") for m in ("gin", "mag-gnn")]
    assert results.render_pages(rows) == results.render_pages(list(rows))
    assert readme.render_table(rows) == readme.render_table(list(rows))
    assert "Nothing has been measured yet." in results.render_pages([])["README.md"]


def test_summary_never_chooses_by_score():
    rows = [
        make_row(mean=98.0),
        make_row(mean=100.0, runs=1, tests_per_run=1, hardware="gpu"),  # better, but a single run
        make_row(method="random-moves", mean=90.0),
        make_row(method="random-moves", mean=70.0, m=2),  # newer, but not at the agent's m
        make_row(method="random-marks", mean=88.0, t=0),
    ]
    text = summary.render_summary(rows)
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

    assert "BREC" not in summary.render_summary([row("basic", 60.0)])  # nothing to say before all pairs are measured
    rows = [row("all", 304.0), row("cfi", 20.0), row("basic", 59.0, hardware="cpu, 2 cores")]
    rows += [row("basic:all", 60.0, "random-marks", None), row("all", 110.0, "random-marks")]
    rows += [row("all", 234.0, "ppgn", None)]
    text = summary.render_summary(rows)
    assert find_line(text, "mag-gnn, ours").split("|")[2:-1] == [" – ", " – ", " – ", " 20 (10×10) ", " 304 (10×10) "]
    assert "281" in find_line(text, "i2gnn, published") and "110" in find_line(text, "random-marks, ours")
    assert "234" in find_line(text, "ppgn, ours") and "233" in find_line(text, "ppgn, published")
    assert find_line(text, "every pair of marks").split("|")[2].strip() == "60 (10×10)"
    assert "finest" not in text
    finest = dataclasses.replace(row("all:finest", 366.0, "mag-gnn-finest", 1, "cpu, 2 cores"), passes=1)
    text = summary.render_summary([*rows, finest])
    assert "366" in find_line(text, "the finest marks, ours") and "the 1 that the network reads" in text


def test_plots_show_every_row_and_the_published_figures():
    rows = [make_row(mean=98.0), make_row(method="random-moves", mean=88.0, std=None)]
    svg = results.render_pages(rows)["synthetic.svg"]
    assert svg.count('r="3.2"') == 2 + 3  # two rows and the key
    assert ">mag-gnn, m=1, k=2, t=2, keep last" in svg and ">sr25<" in svg
    curves = results.render_pages(moves_rows())["moves-sr25.svg"]
    assert curves.count("<path") >= 2 and ">moves<" in curves


def benchmark_rows():
    return [
        make_row(table="passes", mean=100.0, t=2, runs=10, tests_per_run=100),
        make_row(table="passes", mean=90.0, t=2, runs=1, tests_per_run=1, hardware="gpu"),  # fewer runs
        make_row(table="passes", mean=55.0, t=4, runs=99, tests_per_run=100),  # another setting
        make_row(table="passes", method="random-marks", keep="mean of 3", mean=99.95, t=0),
        make_row(method="gin", m=None, k=None, t=None, keep=None, mean=6.67),
        make_row(method="i2gnn", m=None, k=None, t=None, keep=None, mean=97.0),
        make_row(method="ngnn", m=None, k=None, t=None, keep=None, mean=6.67),
    ]


def test_the_readme_has_the_agent_beside_its_controls():
    cells = [cell.strip() for cell in find_line(readme.render_table(benchmark_rows()), "SR25").split("|")[1:-1]]
    assert cells[:4] == ["SR25, accuracy", "6.67 ± 0.25", "99.95 ± 0.25", "**100.00 ± 0.25**"]
    assert cells[4] == "100" and cells[5] == "100 (i2gnn, published)"
    assert "EXP" not in readme.render_table(benchmark_rows())


def test_readme_is_filled_between_its_marks(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(f"# a\n\n{readme.BEGIN}\nold\n{readme.END}\n\ntail\n", encoding="utf-8")
    report.update_readme(path, benchmark_rows())
    once = path.read_text(encoding="utf-8")
    assert "old" not in once
    assert once.startswith("# a\n\n")
    assert once.endswith("\n\ntail\n")
    assert "99.95" in once
    report.update_readme(path, benchmark_rows())
    assert path.read_text(encoding="utf-8") == once


def test_readme_without_marks_is_left_alone(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("# a\n", encoding="utf-8")
    with pytest.raises(InputError, match="results:begin"):
        report.update_readme(readme, [])
    assert readme.read_text(encoding="utf-8") == "# a\n"


def test_write_report_and_stale(tmp_path):
    ledger.append([make_row(t=4), *moves_rows()], tmp_path / report.LEDGER)
    (tmp_path / "README.md").write_text(f"{readme.BEGIN}\n{readme.END}\n", encoding="utf-8")
    written = {"README.md", "synthetic.md", "synthetic.svg", "moves.md", "moves-sr25.svg"}
    assert {path.name for path in report.stale(tmp_path)} == written
    assert {path.name for path in report.write_report(tmp_path)} == written
    assert report.stale(tmp_path) == []
    assert report.write_report(tmp_path) == []
    ledger.append(make_row(mean=50.0, t=4), tmp_path / report.LEDGER)
    (tmp_path / report.RESULTS / "forgotten.md").write_text("a table that no ledger has")
    assert {path.name for path in report.write_report(tmp_path)} == {
        "README.md",
        "synthetic.md",
        "synthetic.svg",
        "forgotten.md",
    }
    assert not (tmp_path / report.RESULTS / "forgotten.md").exists()


@pytest.mark.skipif(not (ROOT / report.LEDGER).exists(), reason="nothing has been measured yet")
def test_the_committed_report_is_up_to_date():
    assert report.stale(ROOT) == [], "run `maggnn-paper report`"
