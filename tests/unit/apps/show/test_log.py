"""Reading a log while it is written."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from maggnn.apps.show.log import new_lines


def line(step, **scalars):
    return json.dumps({"phase": 0, "step": step, **scalars}) + "\n"


def test_goes_on_from_its_place_and_waits_for_the_end_of_a_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert new_lines(path).lines == []
    path.write_text(line(0, loss=1.5) + line(1, loss=1.0)[:-9])
    first = new_lines(path)
    assert [entry["step"] for entry in first.lines] == [0] and first.fresh
    path.write_text(line(0, loss=1.5) + line(1, loss=1.0) + line(2, loss=0.5))
    second = new_lines(path, first.place)
    assert [entry["step"] for entry in second.lines] == [1, 2] and not second.fresh
    assert new_lines(path, second.place).lines == []


def test_what_is_not_a_number_is_none_and_what_is_no_line_is_counted(tmp_path):
    path = tmp_path / "metrics.jsonl"
    strange = ['{"phase": 0, "st\n', "[1]\n", "\x00\x01\n", '{"phase": 0}\n', '{"phase": 0, "step": 3, "loss": "x"}\n']
    path.write_text(line(0, loss=float("nan"), reward=float("-inf")) + "".join(strange) + "\n" + line(4, loss=2))
    found = new_lines(path)
    assert found.lines == [{"phase": 0, "step": 0, "loss": None, "reward": None}, {"phase": 0, "step": 4, "loss": 2}]
    assert found.unreadable == len(strange)


def test_a_resumed_run_that_dropped_lines_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(line(step, loss=1.0) for step in range(20)))
    place = new_lines(path).place
    path.write_text("".join(line(step, loss=2.0) for step in range(30)))  # longer than before, and other bytes
    again = new_lines(path, place)
    assert again.fresh and len(again.lines) == 30
    path.write_text(line(0, loss=3.0))
    assert new_lines(path, again.place).fresh


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30) | st.from_regex(r"\A\d{1,20}:\d{1,12}\Z"))
def test_any_place_is_safe(tmp_path_factory, place):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text(line(0, loss=1.0) + line(1, loss=2.0))
    found = new_lines(path, place)
    assert len(found.lines) == 2 or not found.fresh


def test_a_long_log_takes_several_looks(tmp_path, monkeypatch):
    monkeypatch.setattr("maggnn.apps.show.log.MOST_BYTES", 1000)
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(line(step, loss=1.0) for step in range(100)) + "x" * 3000 + "\n" + line(100, loss=0.0))
    steps, place, more = [], "", True
    while more:
        found = new_lines(path, place)
        place, more = found.place, found.more
        steps += [entry["step"] for entry in found.lines]
    assert steps == list(range(101))
