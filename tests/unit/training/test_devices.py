"""Two processes learn as one with the doubled batch does: gradients, losses, norms; and a run goes on as it was."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import on_devices
from killing import ended, started
from maggnn import config as configs
from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.training.checkpoint import FILE
from maggnn.training.devices import ONE, launched
from maggnn.training.epochs import Epochs
from maggnn.training.progress import read_log
from maggnn.training.run import train, train_on

pytest.importorskip("lightning_fabric", reason="needs Lightning Fabric: pip install 'maggnn[devices]'")

CLOSE, ADAM = {"rtol": 1e-6, "atol": 1e-6}, {"rtol": 1e-4, "atol": 1e-4}
STEPS = 12
RUN = Config().replaced(
    data={"name": "csl8"},
    encoder={"num_layers": 1, "hidden": 8},
    agent={"num_tuples": 2, "actions": "in_turn"},
    replay={"capacity": 500, "warmup": 50, "walk_length": 3},
    training={
        "predictor_steps": 40, "agent_steps": 30, "batch_size": 4, "agent_batch_size": 8, "walkers": 8,
        "target": "double_dqn", "gamma": 0.5, "sync_every": 7,
    },
    runtime={"checkpoint_every": 10, "log_every": 5, "device": "cpu", "tests": 1},
)  # fmt: skip


def calls(cases: list[str], double: bool) -> list[tuple[str, tuple[Any, ...]]]:
    """What is computed: in one process with the doubled batch, in two with their share of it."""
    torch.manual_seed(1)
    rows = 3 + torch.randn(11, 2, 5, dtype=torch.float64).cumsum(dim=-1)
    found: list[tuple[str, tuple[Any, ...]]] = []
    for case in cases:
        size = on_devices.CASES[case].training.batch_size
        found.append(("learned", (case, 2 * size if double else size, STEPS)))
    for padding in (0, 3):
        found += [("normalised", (kind, rows, [7, 4], padding)) for kind in ("batch", "whitening")]
    return [*found, ("averaged_over_nodes", (rows[:, 0, 0], [7, 4]))]


@pytest.mark.usefixtures("double_precision")
def test_two_processes_are_one_with_the_doubled_batch(data_root, monkeypatch):
    """Gradients to 1e-6 and losses on SR25 and ZINC; norms of unequal shares with padding; means over nodes.

    With whitening, plain gradient descent: Adam divides gradients by their size, also those that are nothing but
    rounding, and whitening makes many of them so (it undoes what the weights before it do to scales and shifts). There
    two processes drift apart from one as fast as one process does from itself with weights changed by 1e-15
    (`test_adam_enlarges_rounding_before_whitening`).
    """
    monkeypatch.setenv("MAGGNN_DATA", str(data_root))
    cases = ["sr25", "zinc", "zinc_whitened"]
    together = launched(on_devices.all_of, 2, 1, "cpu", calls(cases, double=False))
    alone = on_devices.all_of(ONE, calls(cases, double=True))
    for number, (found, expected) in enumerate(zip(together, alone, strict=True)):
        assert found.keys() == expected.keys() and (number or any("gradient" in name for name in found))
        for name, values in expected.items():
            # Adam enlarges the rounding of gradients that are zero but for it, such as those of a shift before a norm.
            adam = number < cases.index("zinc_whitened") and not name.startswith(("losses", "gradient"))
            np.testing.assert_allclose(found[name], values, err_msg=name, **(ADAM if adam else CLOSE))
    assert all(found["losses"][0] != found["losses"][-1] for found in together[:3])  # something was learned


@pytest.mark.usefixtures("double_precision")
def test_adam_enlarges_rounding_before_whitening(data_root, monkeypatch):
    """In one process: weights that differ by 1e-15 give gradients that differ by much more after a few steps of Adam.

    Plain gradient descent keeps them together, so this is no error of the sums over processes.
    """
    monkeypatch.setenv("MAGGNN_DATA", str(data_root))
    apart = [on_devices.apart_after_rounding("zinc_whitened", 32, STEPS, adam) for adam in (False, True)]
    assert apart[0] < 1e-9 and apart[1] > 1e-7


@pytest.mark.slow
def test_a_large_result_comes_back():
    """Larger than a pipe: the first process must not wait for a reader that waits for it."""
    assert launched(on_devices.many_numbers, 2, 1, "cpu", 300_000).sum() == 300_000


def test_parts_of_a_batch_are_the_batch():
    ids = torch.arange(17)
    whole = Epochs(ids, 6, seed=3)
    parts = [Epochs(ids, 2, seed=3, part=part, parts=3) for part in range(3)]
    for number in range(9):
        assert torch.equal(torch.cat([part.batch(number) for part in parts]), whole.batch(number))


def test_a_run_on_two_devices_has_one_log_and_goes_on_with_two_only(tmp_path):
    weights = launched(on_devices.weights_of_all, 2, 1, "cpu", RUN, tmp_path / "two")
    assert len(weights) == 2 and np.array_equal(*weights)
    lines = read_log(tmp_path / "two")
    assert [(line["phase"], line["step"]) for line in lines] == [(0, n) for n in range(4, 40, 5)] + [
        (1, n) for n in range(4, 30, 5)
    ]
    tensors = load_file(tmp_path / "two" / FILE)
    own, other = tensors["walkers/ids"], tensors["rank1/walkers/ids"]
    assert not torch.equal(own, other)  # walkers of their own, on graphs of their own
    assert not torch.equal(tensors["replay/floats"], tensors["rank1/replay/floats"])
    with pytest.raises(InputError, match=r"contains a run on 2 devices.* give --devices 2"):
        train_on(1, 1, RUN, tmp_path / "two", quiet=True)


def test_one_device_is_a_plain_run(tmp_path):
    short = RUN.replaced(training={"predictor_steps": 5, "agent_steps": 5})
    plain = train(short, tmp_path / "plain", quiet=True).model.state_dict()
    train_on(1, 1, short, tmp_path / "one", quiet=True)
    saved = load_file(tmp_path / "one" / "model.safetensors")
    assert all(torch.equal(value, plain[name.removeprefix("model/")]) for name, value in saved.items())


def test_mistakes_before_anything_starts(tmp_path, monkeypatch):
    for name in ("NODE_RANK", "GROUP_RANK", "SLURM_NODEID"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="--devices 4096: this machine has"):
        train_on(4096, 1, RUN, tmp_path / "run")
    with pytest.raises(InputError, match="--nodes 2: set MASTER_ADDR"):
        train_on(1, 2, RUN, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_model_is_fitted_on_two_devices(call_command, tmp_path):
    """`maggnn fit --devices 2`: networks of both processes' rows; other numbers of devices are refused or resume."""
    rows = [f"{'C' * (1 + n % 7)}{'O' * (n % 3)}C,{n % 3}.5" for n in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    command = ["fit", "mine.csv", "--target", "y", "-o", "model", "--steps", "12", "--ensemble", "1", "--device", "cpu"]
    assert (
        "--devices 4096: this machine" in call_command("maggnn", *command, "--devices", "4096", cwd=tmp_path).mistake()
    )
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]
    ended = call_command("maggnn", *command, "--devices", "2", cwd=tmp_path)
    assert ended.code == 0 and (tmp_path / "model" / "model.safetensors").exists(), ended.err


@pytest.mark.slow
def test_a_mistake_in_one_process_is_one_line():
    with pytest.raises(InputError, match="what was wrong, in one line"):
        launched(on_devices.mistaken, 2, 1, "cpu")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_killed_run_goes_on_exactly(tmp_path):
    """Killed at random moments; the weights and the log are those of a run that nobody killed."""
    (tmp_path / "run.toml").write_text(
        configs.to_toml(RUN.replaced(training={"predictor_steps": 120, "agent_steps": 80}))
    )

    def folder(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.toml").symlink_to(tmp_path / "run.toml")
        return tmp_path / name

    command = ["train", "run.toml", "--devices", "2", "-o", "run", "--json"]

    def result(place: Path) -> Any:
        said = json.loads((place / "out.txt").read_text().splitlines()[-1])
        del said["train_s"]
        return load_file(place / "run" / "model.safetensors"), (place / "run" / "metrics.jsonl").read_text(), said

    whole, broken = folder("whole"), folder("broken")
    ended(started(command, whole), whole)
    rng, kills = random.Random(0), 0
    while kills < 3:
        process = started(command, broken)
        begun = len(read_log(broken / "run"))
        while process.exitcode is None and len(read_log(broken / "run")) < begun + 10:
            process.join(0.05)
        process.join(rng.uniform(0, 0.5))
        if process.exitcode is not None:
            break
        process.kill()
        process.join()
        kills += 1
    ended(started(command, broken), broken)
    found, expected = result(broken), result(whole)
    assert kills >= 2 and found[1:] == expected[1:]
    assert all(torch.equal(found[0][name], value) for name, value in expected[0].items())
