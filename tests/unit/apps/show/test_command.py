"""`maggnn show` as people start it: the address, the end, and mistakes of one line."""

import signal
import socket

import httpx
import pytest

from maggnn.apps.show.runs import MOST_RUNS


def test_it_serves_until_it_is_interrupted(runs, start_command):
    process = start_command("maggnn", "show", runs, "--port", "0", cwd=runs)
    assert process.stdout is not None
    address = process.stdout.readline().split()[0]
    assert address.startswith("http://127.0.0.1:")
    assert httpx.get(address).text.startswith("<!doctype html>")
    assert len(httpx.get(f"{address}api/runs").json()["runs"]) == 2
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "")


def test_it_says_that_it_shows_only_some_of_very_many_runs(tmp_path, start_command):
    for number in range(MOST_RUNS + 1):
        (tmp_path / f"{number:04d}").mkdir()
        (tmp_path / f"{number:04d}" / "metrics.jsonl").touch()
    with start_command("maggnn", "show", tmp_path, "--port", "0", cwd=tmp_path) as process:
        assert f"shows the first {MOST_RUNS} runs in" in process.stdout.readline()
        process.terminate()
        process.communicate(timeout=20)


@pytest.fixture
def fails(call_command, tmp_path):
    def run(*arguments: object) -> str:
        return call_command("maggnn", "show", *arguments, cwd=tmp_path).mistake()

    return run


def test_mistakes(fails, runs, tmp_path):
    assert "no such folder" in fails(tmp_path / "absent", "--port", 0)
    assert "contains no run" in fails(tmp_path, "--port", 0)
    (tmp_path / "model.safetensors").write_bytes((runs / "marks" / "model.safetensors").read_bytes()[:-100])
    assert "damaged" in fails(tmp_path, "--port", 0)
    assert "cannot listen" in fails(runs, "--host", "999.0.0.1")
    assert "--molecules" in fails(runs / "marks", "--port", 0, "--molecules", tmp_path / "some.smi")
    assert "65535" in fails(runs, "--port", 65536)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: cannot listen there" in fails(runs, "--port", port)
