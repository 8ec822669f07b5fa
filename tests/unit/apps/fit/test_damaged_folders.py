"""A model folder that somebody damaged or changed answers, or is refused in one line, and never takes a gigabyte."""

import csv
import itertools
import json
import math
import resource
import shutil
import time
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from damage import FACTS, MODEL, TREES, damaged, edit_facts, edit_json, edit_tensors
from maggnn import MagClassifier, MagRegressor, load_model
from maggnn.apps.fit.classical.trees_file import MOST_KNOWN
from maggnn.apps.fit.ensemble import fit_blend, fold_set
from maggnn.apps.fit.fitted import Facts, FittedModel
from maggnn.apps.fit.folds import deal_folds
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.fit.predicting import predict_table
from maggnn.apps.show.runs import Run
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.own_file import official_split
from maggnn.errors import InputError
from maggnn.model.pretrained import AGENT_FOLDER, pretrained_agent

BY_DEFAULT, ALL = 96, 704
MOST_BYTES = 10**9
MOST_SECONDS = 5.0
"""Of the processor, which other programs on the machine do not disturb; what waits for ever ends by pytest's limit."""

SMILES = ["CCO", "CC", "OCCO", "c1ccccc1", "CCCC", "CO", "OCC(O)CO", "C1CCCCC1", "CCN", "CC=O"]
MORE = SMILES + [f"{smiles}.Cl" for smiles in SMILES]
OTHERS = [nx.cycle_graph(5), nx.path_graph(4)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """A classifier and a regression of molecules, a classifier of bare graphs, and two blends."""
    root = tmp_path_factory.mktemp("models")
    graphs = [make(size) for size in range(4, 9) for make in (nx.cycle_graph, nx.path_graph)]
    models = {
        "classes": MagClassifier(steps=2).fit(SMILES, ["a", "b"] * 5),
        "numbers": MagRegressor(steps=2).fit(SMILES, list(range(10))),
        "graphs": MagClassifier(steps=2).fit(graphs, [0, 1] * 5),
        "blend of classes": MagClassifier(steps=2, ensemble=2).fit(MORE, ["a", "b"] * 10),
    }
    saved = {name: model.fitted_ for name, model in models.items()} | {"blend": blend_of_all_parts()}
    for name, fitted in saved.items():
        fitted.save(root / name)
    return {name: root / name for name in saved}


def blend_of_all_parts() -> FittedModel:
    """With all files that a folder can have."""
    y = np.array([[len(smiles)] for smiles in MORE], dtype=np.float32)
    packed = replace(packed_inputs(MORE)[0], y=torch.from_numpy(y))
    dataset = Dataset("mine", packed, "regression", 1, official_split, metric="mae")
    folds = deal_folds(np.arange(len(y)), y, "regression", 2, 0, MORE)
    assert folds is not None
    config = own_config(fold_set(dataset, folds, 0), predictor_steps=3)
    facts = Facts("smiles", "regression", "mol", targets=("y",), metric="mae")
    fitted, *_ = fit_blend(dataset, facts, config, folds, MORE)
    blend = replace(fitted.facts.blend, weights=dict.fromkeys(fitted.facts.blend.weights, 0.2))
    return replace(fitted, facts=replace(fitted.facts, blend=blend))


@pytest.fixture
def bounded():
    """No more than two gigabytes of addresses beyond what there are: a test that fails must not take the machine."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2 * 2**30, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, limits)


def answers(folder: Path, name: str) -> torch.Tensor:
    """Answers for some graphs, which are no numbers where `maggnn predict` gives a reason."""
    if name == "graphs":
        return FittedModel.load(folder).predict(packed_inputs(OTHERS)[0])
    asked, answered = folder.with_suffix(".csv"), folder.with_suffix(".out.csv")
    asked.write_text("\n".join(["text", *SMILES[:3], "[Og]", "C1CC1"]) + "\n")
    predict_table(folder, asked, answered, "text", 1, overwrite=True)
    with answered.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 and not any("inf" in (row[key] or "") for row in rows for key in row)
    place = next(
        key for key in rows[0] if key.startswith(("p_", "predicted_")) and name.endswith("classes") == (key[:2] == "p_")
    )
    assert all(row[place] or row["reason"] for row in rows)
    return torch.tensor([float(row[place] or "nan") for row in rows])


def refused(folder: Path, name: str = "classes") -> str:
    with pytest.raises(InputError) as caught:
        answers(folder, name)
    return one_line(caught.value, folder)


def one_line(error: InputError, folder: Path) -> str:
    text = str(error).replace(str(folder), "")
    assert "\n" not in text and len(text) < 500, text
    return text


def outcome(folder: Path, name: str) -> str:
    """Answers, or one line; and the page lists the folder either way."""
    json.dumps(Run(name, folder).facts())
    try:
        assert len(answers(folder, name)) > 0
    except InputError as error:
        return one_line(error, folder)
    return ""


def check(folders: dict[str, Path], tmp_path: Path, count: int) -> list[str]:
    """What became of `count` damaged folders."""
    names = itertools.cycle(folders)
    ended = []
    for number, name in zip(range(count), names, strict=False):
        folder = tmp_path / str(number)
        shutil.copytree(folders[name], folder)
        others = [other for other in folders if other != name]
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
        said = damaged(folder, folders[others[number % 2]], number)
        try:
            ended.append(outcome(folder, name))
        except Exception as error:
            raise AssertionError(f"damage {number} to {name}, {said}: {type(error).__name__}: {error}") from error
        taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
        assert taken < MOST_BYTES, f"damage {number} to {name}, {said}: {taken} bytes"
        assert time.process_time() - began < MOST_SECONDS, f"damage {number} to {name}, {said}"
        for left in tmp_path.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
    return ended


@pytest.mark.usefixtures("bounded")
@pytest.mark.filterwarnings("ignore")
def test_damaged_folders_answer_or_are_refused(folders, tmp_path):
    ended = check(folders, tmp_path, BY_DEFAULT)
    assert sum(map(bool, ended)) > BY_DEFAULT / 2 and not all(ended)  # the generator makes both


@pytest.mark.slow
@pytest.mark.usefixtures("bounded")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.timeout(900)
def test_many_damaged_folders(folders, tmp_path):
    ended = check(folders, tmp_path, ALL)
    print(f"{len(ended)} damaged folders, {sum(map(bool, ended))} refused")
    assert len(ended) == ALL


LARGE = {
    "width": ("encoder", "hidden", 20_000),
    "tuples": ("agent", "num_tuples", 10**6),
    "layers": ("encoder", "num_layers", 10**9),
    "walk": ("encoder", "random_walk", 10**8),
    "order": ("agent", "tuple_order", 10**7),
    "moves": ("agent", "num_moves", 10**9),
}


@pytest.mark.usefixtures("bounded")
@pytest.mark.parametrize(("section", "key", "value"), LARGE.values(), ids=LARGE)
def test_large_settings_take_no_memory(folders, tmp_path, section, key, value):
    shutil.copytree(folders["classes"], tmp_path / "model")
    edit_facts(tmp_path / "model" / MODEL, lambda facts: facts["config"][section].update({key: value}))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    refused(tmp_path / "model")
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MOST_BYTES
    assert time.process_time() - began < MOST_SECONDS


@pytest.mark.usefixtures("bounded")
def test_large_facts_take_no_memory(folders, tmp_path):
    shutil.copytree(folders["classes"], tmp_path / "model")
    path = tmp_path / "model" / MODEL
    for change in (
        {"num_outputs": 10**9},
        {"node_features": {"categories": [10**9], "width": 0}},
        {"node_features": {"categories": [], "width": 10**9}},
        {"node_features": {"categories": [1] * 100_000, "width": 0}},
    ):
        shutil.copy(folders["classes"] / MODEL, path)
        edit_facts(path, lambda facts, change=change: facts["model"].update(change))
        assert "do not fit" in refused(tmp_path / "model")


def test_a_whole_folder_answers(folders):
    for name, folder in folders.items():
        assert answers(folder, name).isfinite().all()


def test_a_checksum_notices_what_fits(folders, tmp_path):
    """Changes that no other check can see."""
    shutil.copytree(folders["classes"], tmp_path / "model")
    path = tmp_path / "model" / MODEL
    edit_facts(path, lambda facts: facts["config"]["encoder"].update(c_plus=2.0), keep_checksum=True)
    assert "checksum" in refused(tmp_path / "model")
    content = bytearray((folders["classes"] / MODEL).read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    assert "checksum" in refused(tmp_path / "model")
    shutil.copy(folders["classes"] / MODEL, path)
    edit_json(tmp_path / "model" / FACTS, lambda values: values.update(classes=["b", "a"]), keep_checksum=True)
    assert "checksum" in refused(tmp_path / "model")


def test_a_folder_from_before_checksums_answers(folders, tmp_path):
    shutil.copytree(folders["classes"], tmp_path / "model")
    edit_facts(tmp_path / "model" / MODEL, lambda facts: None)
    edit_json(tmp_path / "model" / FACTS, lambda values: None)
    assert torch.equal(answers(tmp_path / "model", "classes"), answers(folders["classes"], "classes"))


DISAGREEMENTS = {
    "task": ({"task": "regression"}, "task is regression"),
    "metric": ({"metric": "mae"}, "metric 'mae'"),
    "classes": ({"classes": ["a", "b", "c"]}, "3 different classes"),
    "one class twice": ({"classes": ["a", "a"]}, "1 different classes"),
    "targets": ({"targets": ["y", "z"]}, "2 targets"),
    "columns": ({"seen_nodes": [[0]]}, "1 columns were seen"),
    "categories": ({"seen_edges": [[0], [0], [99]]}, "column 2"),
    "features": ({"features": "zinc"}, "columns"),
    "unknown features": ({"features": "x"}, "features are 'x'"),
}


def test_names_that_no_file_can_hold(folders, tmp_path):
    shutil.copytree(folders["classes"], tmp_path / "model")
    edit_json(tmp_path / "model" / FACTS, lambda values: values.update(classes=["a", "\ud800"]))
    assert "damaged" in refused(tmp_path / "model")


@pytest.mark.parametrize(("change", "expected"), DISAGREEMENTS.values(), ids=DISAGREEMENTS)
def test_facts_and_model_agree(folders, tmp_path, change, expected):
    shutil.copytree(folders["classes"], tmp_path / "model")
    edit_json(tmp_path / "model" / FACTS, lambda values: values.update(change))
    line = refused(tmp_path / "model")
    assert "does not match the model" in line and expected in line


BLENDS = {
    "more seen than networks": ({"folds": 1, "weights": {"network": 1.0}}, "more networks have seen"),
    "seen without networks": ({"weights": {"network": 0.0, "forest": 1.0}}, "more networks have seen"),
    "a device": ({"files": {"/dev/zero": ""}}, "not one of a model"),
    "a file elsewhere": ({"files": {"../fitted.json": ""}}, "not one of a model"),
    "temperatures of numbers": ({"temperatures": {"blend": 0.01}}, "temperatures of a regression"),
}


@pytest.mark.parametrize(("change", "expected"), BLENDS.values(), ids=BLENDS)
def test_parts_that_do_not_fit(folders, tmp_path, change, expected):
    shutil.copytree(folders["blend"], tmp_path / "model")
    edit_json(tmp_path / "model" / FACTS, lambda values: values["blend"].update(change))
    assert expected in refused(tmp_path / "model", "blend")


def test_a_network_of_which_nobody_says_what_it_saw(folders, tmp_path):
    """It has weights for some categories and none for the others."""
    shutil.copytree(folders["blend"], tmp_path / "model")
    change = {"seen_nodes": [], "seen_edges": []}
    edit_json(
        tmp_path / "model" / FACTS, lambda values: values.update(change) or values["blend"].update(seen=[[[], []]])
    )
    assert answers(tmp_path / "model", "blend").isfinite().all()


NAMES = {"no names of targets": ([], "names no target"), "one name for two": (["y", "y"], "the same name")}


@pytest.mark.parametrize(("targets", "expected"), NAMES.values(), ids=NAMES)
def test_names_of_columns_to_add(folders, tmp_path, targets, expected):
    shutil.copytree(folders["numbers"], tmp_path / "model")
    edit_json(tmp_path / "model" / FACTS, lambda values: values.update(targets=targets))
    assert expected in refused(tmp_path / "model")


TABLES = {
    "a type that numpy has not": lambda name, value: value.to(torch.bfloat16) if name.endswith("value") else value,
    "more fingerprints than are kept": lambda name, value: (
        torch.zeros(MOST_KNOWN + 1, value.shape[1], dtype=value.dtype) if name == "known" else value
    ),
}


@pytest.mark.parametrize("change", TABLES.values(), ids=TABLES)
def test_tables_of_trees(folders, tmp_path, change):
    shutil.copytree(folders["blend"], tmp_path / "model")
    path = tmp_path / "model" / TREES
    edit_tensors(path, lambda tensors: tensors.update({name: change(name, value) for name, value in tensors.items()}))
    edit_json(tmp_path / "model" / FACTS, lambda values: values["blend"]["files"].update({TREES: ""}))
    assert TREES in refused(tmp_path / "model", "blend")


def test_facts_of_another_model(folders, tmp_path):
    shutil.copytree(folders["classes"], tmp_path / "model")
    shutil.copy(folders["numbers"] / FACTS, tmp_path / "model" / FACTS)
    assert "written for a different model" in refused(tmp_path / "model")


def test_weights_that_are_no_numbers(folders, tmp_path):
    path = tmp_path / MODEL
    shutil.copy(folders["classes"] / MODEL, path)
    # Which tensor a file lists first is up to safetensors, and counts are no floats.
    edit_tensors(path, lambda all_: next(value for value in all_.values() if value.is_floating_point()).fill_(math.nan))
    with pytest.raises(InputError, match="NaN or infinity"):
        load_model(path)


@pytest.mark.usefixtures("bounded")
def test_damaged_agents(tmp_path):
    path = tmp_path / "agent.safetensors"
    for section, change in (
        ("agent", {"encoder": {"hidden": 20_000}}),
        ("agent", {"pooling": []}),
        ("config", {"x": 1}),
    ):
        shutil.copy(AGENT_FOLDER / "cycles6.safetensors", path)
        edit_facts(path, lambda facts, section=section, change=change: facts[section].update(change))
        with pytest.raises(InputError) as caught:
            pretrained_agent(str(path))
        one_line(caught.value, tmp_path)
    shutil.copy(AGENT_FOLDER / "cycles6.safetensors", path)
    edit_facts(path, lambda facts: facts.update(tuple_order=10**9))
    with pytest.raises(InputError, match="tuple_order"):
        pretrained_agent(str(path))
