"""Checkpoints are all or nothing, and damage is reported in one line."""

import json
import resource

import pytest
import torch
from safetensors.torch import save_file

from maggnn.config import Config
from maggnn.errors import InputError
from maggnn.graphs.packed import PackedGraphs
from maggnn.model import saving as checkpoint
from maggnn.model import weights_file
from maggnn.model.features import FeatureSpec
from maggnn.model.mag_gnn import MagGNN

TENSORS = {"a": torch.randn(50, 4), "empty": torch.zeros(3, 0), "flags": torch.tensor([True, False])}
FACTS = {"position": [1, 20], "rate": 0.1, "name": "run"}


def refused(action, *arguments):
    with pytest.raises(InputError) as caught:
        action(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_round_trip(tmp_path):
    path = tmp_path / "new folder" / "run.safetensors"
    weights_file.save(path, TENSORS, FACTS)
    tensors, facts = weights_file.load(path)
    assert facts == FACTS and tensors.keys() == TENSORS.keys()
    assert all(torch.equal(value, TENSORS[name]) for name, value in tensors.items())
    assert files(path.parent) == ["run.safetensors"]


def test_a_missing_file(tmp_path):
    assert "none.safetensors: no such file" in refused(weights_file.load, tmp_path / "none.safetensors")
    assert "no such file" in refused(weights_file.load, tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.99])
def test_a_truncated_file(tmp_path, share):
    path = tmp_path / "run.safetensors"
    weights_file.save(path, TENSORS, FACTS)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "run.safetensors: truncated or damaged" in refused(weights_file.load, path)


def test_files_of_another_format(tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"a": torch.ones(2)}, path)
    assert "not a maggnn file" in refused(weights_file.load, path)
    save_file({"a": torch.ones(2)}, path, {"format": "maggnn/0"})
    assert "written by another version (maggnn/0" in refused(weights_file.load, path)
    path.write_text(json.dumps(FACTS), encoding="utf-8")
    assert "other.safetensors" in refused(weights_file.load, path)
    torch.save(TENSORS, path)  # a pickle is never opened as one
    assert "other.safetensors" in refused(weights_file.load, path)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    message = refused(weights_file.save, tmp_path / "file" / "run.safetensors", TENSORS, FACTS)
    assert "cannot be written" in message


def test_a_failed_write_leaves_the_previous_file(tmp_path):
    path = tmp_path / "run.safetensors"
    weights_file.save(path, TENSORS, FACTS)
    before = path.read_bytes()
    alias = torch.ones(4)
    with pytest.raises((InputError, RuntimeError)):  # two names for one memory cannot be written
        weights_file.save(path, {"a": alias, "b": alias}, FACTS)
    assert path.read_bytes() == before and files(tmp_path) == ["run.safetensors"]


def test_a_full_disk_leaves_the_previous_file(tmp_path):
    path = tmp_path / "run.safetensors"
    weights_file.save(path, TENSORS, FACTS)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))  # files may not grow any larger
    try:
        message = refused(weights_file.save, path, {"large": torch.zeros(10 * len(before))}, FACTS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "run.safetensors: cannot be written" in message
    assert path.read_bytes() == before and files(tmp_path) == ["run.safetensors"]


def test_a_target_that_cannot_be_replaced(tmp_path):
    path = tmp_path / "run.safetensors"
    path.mkdir()
    assert "run.safetensors: cannot be written" in refused(weights_file.save, path, TENSORS, FACTS)
    assert files(tmp_path) == ["run.safetensors"] and path.is_dir()


def make_model(config):
    torch.manual_seed(0)
    return MagGNN(
        num_outputs=3,
        node_features=FeatureSpec(categories=(4, 2)),
        edge_features=FeatureSpec(width=2),
        encoder=config.encoder,
        predictor=config.predictor,
        agent=config.agent,
        task="regression",
        level="node",
    ).eval()


CONFIG = Config().replaced(encoder={"conv": "gine", "num_layers": 2, "hidden": 8}, agent={"history": "lstm"})


def test_a_model_comes_back_whole(tmp_path):
    model, path = make_model(CONFIG), tmp_path / "model.safetensors"
    checkpoint.save_model(path, model, CONFIG)
    again, config = checkpoint.load_model(path)
    assert config == CONFIG and not again.training
    assert (again.task, again.predictor.level, again.num_outputs) == ("regression", "node", 3)
    graphs = PackedGraphs.build(
        torch.tensor([3]),
        torch.tensor([1]),
        torch.tensor([[0], [2]]),
        torch.ones(3, 2).long(),
        torch.rand(1, 2),
    )[torch.tensor([0])]
    answers = [one(graphs, generator=torch.Generator().manual_seed(0)) for one in (model, again)]
    assert torch.equal(*answers)


def test_weights_that_do_not_fit(tmp_path):
    model, path = make_model(CONFIG), tmp_path / "model.safetensors"
    checkpoint.save_model(path, model, CONFIG.replaced(encoder={"hidden": 9}))
    assert "do not fit" in refused(checkpoint.load_model, path)


def test_a_training_checkpoint_is_not_a_model(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    weights_file.save(path, TENSORS, {"config": {}, "position": [0, 0], "counters": {}})
    message = refused(checkpoint.load_model, path)
    assert "checkpoint.safetensors: a training checkpoint" in message and "model.safetensors" in message
