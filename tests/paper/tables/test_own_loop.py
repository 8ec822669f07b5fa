"""The table of the tutorial's training loop: the code of the page, its seeds, and the rows that come of it."""

from maggnn_paper.tables import own_loop


def test_the_loop_of_the_page_is_short_and_complete():
    page = own_loop.PAGE.read_text(encoding="utf-8")
    code = own_loop.loop_code(page)
    assert len(code[code.index("graphs =") :].splitlines()) <= 25
    short = own_loop.loop_code(page, steps=7, seed=3)
    assert "steps = 7 " in short and "torch.manual_seed(3)" in short and "torch.manual_seed(0)" not in short


def test_rows_of_agents_and_controls(tmp_path, monkeypatch):
    monkeypatch.setattr(own_loop, "TESTS", 2)
    whole = own_loop.loop_code
    monkeypatch.setattr(own_loop, "loop_code", lambda page, seed: whole(page, steps=2, seed=seed))
    rows = own_loop.reproduce(tmp_path, runs=2)
    assert len(rows) == 13 and {(row.table, row.dataset, row.runs) for row in rows} == {("own_loop", "sr25", 2)}
    by_key = {(row.method, row.keep, row.t): row for row in rows}
    start = [by_key[method, "last", 0].mean for method in ("mag-gnn", "random-moves")]
    assert start[0] == start[1]  # the same starts, before the first move
    assert by_key["mag-gnn", "last", 2].passes == by_key["random-moves", "confident", 2].passes == 3
    assert by_key["random-marks", "mean of 3", 0].passes == 3
    assert all(0 <= row.mean <= 100 and row.train_s is not None and row.train_s > 0 for row in rows)
    again = own_loop.reproduce(tmp_path, runs=2)  # models are read again, not trained
    assert [row.mean for row in again] == [row.mean for row in rows] and again[0].train_s is None
