"""What is shown and kept while a run goes on."""

import torch

from maggnn.training import progress
from maggnn.training.progress import Log, Progress, read_log


def test_scalars_are_appended_and_read_back(tmp_path):
    log = Log(tmp_path, (0, 0))
    shown = log.write(0, 9, {"predictor/loss": torch.tensor(0.5), "rate": 0.25})
    log.write(1, 4, {"agent/reward": 1.0})
    log.close()
    assert shown == {"predictor/loss": 0.5, "rate": 0.25}
    assert read_log(tmp_path) == [
        {"phase": 0, "step": 9, "predictor/loss": 0.5, "rate": 0.25},
        {"phase": 1, "step": 4, "agent/reward": 1.0},
    ]


def test_a_resumed_run_forgets_what_it_will_log_again(tmp_path):
    log = Log(tmp_path, (0, 0))
    for phase, step in ((0, 4), (0, 9), (1, 4), (1, 5), (1, 9)):
        log.write(phase, step, {"x": 1.0})
    log.close()
    path = tmp_path / "metrics.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('{"phase": 1, "st')  # the kill came in the middle of a line
    Log(tmp_path, (1, 5)).close()
    assert [(line["phase"], line["step"]) for line in read_log(tmp_path)] == [(0, 4), (0, 9), (1, 4)]
    Log(tmp_path, (0, 0)).close()
    assert read_log(tmp_path) == []


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = Log(None, (0, 0))
    assert log.write(0, 0, {"x": torch.tensor(2.0)}) == {"x": 2.0}
    log.close()
    assert not list(tmp_path.iterdir())
    assert read_log(tmp_path) == []


def test_lines_where_there_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    for quiet in (False, True):
        shown = Progress(quiet)
        shown.begin("agent", 10, 0)
        shown.step(5, {"agent/reward": 0.125})
        shown.close()
        line = capsys.readouterr().err
        assert line == "" if quiet else "agent 5/10" in line and "reward 0.1250" in line


def test_the_bar_of_a_terminal():
    bar = progress._rich_bar()
    assert bar is not None
    shown = Progress(quiet=True)
    shown.bar = bar
    shown.begin("agent", 10, 2)
    shown.step(7, {"agent/reward": 0.125})
    shown.close()
    assert bar.tasks[0].completed == 7
