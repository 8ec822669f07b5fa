"""`maggnn export`: a program that answers as the model does, on its own, and what happens where it cannot be written.

That the module which is traced equals the model for every setting is tested in unit/inference/test_exported_search.py.
"""

import importlib.util
import io
import json
import random
import re
import resource
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import networkx as nx
import pytest
import torch

import maggnn
from maggnn.apps import export as exporting
from maggnn.apps.export import export_model
from maggnn.apps.fit.ensemble import fit_blend
from maggnn.apps.fit.estimator import MagClassifier, MagRegressor
from maggnn.apps.fit.fitted import Facts, FittedModel
from maggnn.apps.fit.folds import single_fold
from maggnn.apps.fit.own_settings import own_config
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.splits import Split
from maggnn.errors import InputError
from maggnn.graphs.canonical_order import in_canonical_order
from maggnn.graphs.conversions import pack_networkx
from maggnn.inference.engine import Engine
from maggnn.inference.export import program as programs
from maggnn.inference.export.program import SUFFIXES, ExportedModel, load_exported, program_inputs
from maggnn.inference.export.search import ExportedSearch
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.saving import save_model

MISSING = [name for name in ("onnx", "onnxscript", "onnxruntime") if importlib.util.find_spec(name) is None]
OTHERS = {
    "aoti": [pytest.mark.slow, pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++)")],
    "onnx": [pytest.mark.slow, pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")],
}
RNG = random.Random(0)
MOLECULES = [
    "".join(RNG.choice("CCCO") for _ in range(RNG.randint(3, 8))) + RNG.choice(["", "", "c1ccccc1"]) for _ in range(60)
]
ALONE = """
import sys
import torch
sys.modules["maggnn"] = None
case = torch.load(sys.argv[2])
answers = torch.export.load(sys.argv[1]).module()(**case["inputs"])
torch.testing.assert_close(answers, case["answers"], rtol=1e-5, atol=1e-6)
print(len(answers))
"""


@pytest.fixture
def called(call_command, tmp_path):
    return partial(call_command, "maggnn", cwd=tmp_path)


@pytest.fixture(scope="module")
def fitted() -> FittedModel:
    """A small model with all that `maggnn fit` uses but the agent of the package: tracing that takes long."""
    packed = replace(packed_inputs(MOLECULES)[0], y=torch.tensor([[smiles.count("O") + 0.5] for smiles in MOLECULES]))
    ids = torch.arange(len(MOLECULES))
    dataset = Dataset("mine", packed, "regression", 1, lambda *_: [Split(ids[:40], ids[40:50], ids[50:])], metric="mae")
    config = own_config(dataset, predictor_steps=5).replaced(
        encoder={"num_layers": 1, "hidden": 16, "random_walk": 3},
        agent={"pretrained": ""},
        training={"paradigm": "ord"},
    )
    facts = Facts("smiles", "regression", "ogb", targets=("y",))
    return fit_blend(dataset, facts, config, single_fold(dataset.split(0, 0), len(ids)))[0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fitted: FittedModel) -> Path:
    """A model's folder and, beside it, the program, in the place of an older file."""
    folder = tmp_path_factory.mktemp("export")
    fitted.save(folder / "model")
    (folder / "model.pt2").write_bytes(b"old")
    export_model(folder / "model", folder / "model.pt2", overwrite=True)
    return folder


@pytest.fixture(scope="module")
def exported(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> ExportedModel:
    """The program, from a folder without the model."""
    elsewhere = shutil.copy(folder / "model.pt2", tmp_path_factory.mktemp("elsewhere") / "program.pt2")
    return maggnn.load_exported(elsewhere, trust=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as `maggnn fit` makes it, and its program."""
    folder = tmp_path_factory.mktemp("whole")
    estimator = MagRegressor(steps=3).fit(MOLECULES, [smiles.count("O") + 0.5 for smiles in MOLECULES])
    estimator.fitted_.save(folder / "model")
    export_model(folder / "model", folder / "model.pt2")
    return folder


def batches() -> list[list[str]]:
    """Of other sizes than the traced one; of one atom; without bonds; with an element that training never saw."""
    return [["C"], ["C", "O", "C"], ["CCO"], ["C", "c1ccccc1CC(=O)O", "CO"], MOLECULES[:37], ["CC[Fe]"]]


@pytest.mark.filterwarnings("ignore:.*not in the training data")
def test_answers_are_the_models_and_the_folder_is_not_needed(exported, fitted):
    search = ExportedSearch(fitted.model, fitted.facts.seen_nodes, fitted.facts.seen_edges)
    for smiles in batches():
        packed = in_canonical_order(packed_inputs(smiles)[0])  # as `predict` reads it
        answers = exported.predict(smiles)
        inputs = program_inputs(exported.description, packed[torch.arange(len(packed))])
        torch.testing.assert_close(answers, search(**inputs), rtol=1e-5, atol=1e-6)
        # `predict` breaks ties at random: among some seeds is one that takes the first.
        seeds = torch.stack([fitted.predict(packed, seed=seed) for seed in range(12)])
        assert bool(((seeds - answers).abs() <= 1e-5 * answers.abs() + 1e-6).any(dim=0).all())


@pytest.mark.filterwarnings("ignore:.*never saw")
@pytest.mark.parametrize("labels", ["classes", "several targets"])
def test_a_program_has_the_temperatures_and_the_fragments_of_its_model(labels, tmp_path):
    """Temperatures are fitted to 20 rows or more; an element that is new is replaced before atoms are put in order."""
    smiles = [f"{a}{b}{c}" for a in "CNO" for b in ("C", "CC", "CCC", "C(C)C", "CO") for c in "CNOFSP"] * 3
    y = [len(text) % 2 for text in smiles]
    several = [[one, int("N" in text)] for one, text in zip(y, smiles, strict=True)]
    found = MagClassifier(steps=20).fit(smiles, y if labels == "classes" else several).fitted_
    blend = found.facts.blend
    assert blend.temperatures or any(target.temperatures for target in blend.targets)
    fitted = replace(found, facts=replace(found.facts, salts="largest"))
    fitted.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "model.pt2")
    exported = maggnn.load_exported(tmp_path / "model.pt2", trust=True)
    asked = ["CCO", "[Na]C", "[Na+].[Cl-]", "CCN.[Cl-]", "CCN", "C" * 30]
    torch.testing.assert_close(exported.predict(asked), fitted.predict(asked), rtol=1e-4, atol=1e-5)
    assert exported.predict(["CCN.[Cl-]"]).equal(exported.predict(["CCN"]))


def test_a_program_of_networks_that_read_descriptors_does_without(tmp_path, capsys):
    y = [smiles.count("O") + 0.5 for smiles in MOLECULES]
    fitted = MagRegressor(steps=2, ensemble=2).fit(MOLECULES, y).fitted_
    fitted.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "model.pt2")
    assert "only its first network is used here, without descriptors" in capsys.readouterr().err
    exported = maggnn.load_exported(tmp_path / "model.pt2", trust=True)
    assert "graph_attr" not in exported.description["inputs"]
    expected = fitted.networks[0].predict(MOLECULES[:9])
    torch.testing.assert_close(exported.predict(MOLECULES[:9]), expected, rtol=1e-4, atol=1e-5)


def test_features_of_graphs_are_an_input(tmp_path):
    config = Config().replaced(
        encoder={"num_layers": 1, "hidden": 8},
        agent={"tuple_order": 0, "num_moves": 0},
        training={"agent_steps": 0},
    )
    torch.manual_seed(0)
    model = MagGNN(2, encoder=config.encoder, agent=config.agent, graph_features=3).eval()
    save_model(tmp_path / "model.safetensors", model, config)
    said = export_model(tmp_path / "model.safetensors", tmp_path / "x.pt2")
    assert said["inputs"]["graph_attr"]["shape"] == ["graphs", 3]
    exported = load_exported(tmp_path / "x.pt2", trust=True)
    rings = pack_networkx([nx.cycle_graph(size) for size in range(3, 9)])
    values = torch.randn(6, 3).index_put((torch.tensor([1]), torch.tensor([2])), torch.tensor(torch.nan))
    packed = rings.with_graph_attr(values)
    expected = Engine(model, "cpu").predict(packed).softmax(dim=-1)
    torch.testing.assert_close(exported.predict(packed), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="3 columns of float32 as graph_attr, these graphs have none"):
        exported.predict(rings)


def test_it_runs_without_this_package(folder, exported, tmp_path):
    packed = in_canonical_order(packed_inputs(["C", "CCO", "c1ccccc1"])[0])
    inputs = program_inputs(exported.description, packed[torch.arange(3)])
    torch.save({"inputs": inputs, "answers": exported.predict(packed)}, tmp_path / "case.pt")
    command = [sys.executable, "-c", ALONE, str(folder / "model.pt2"), str(tmp_path / "case.pt")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "3"


def test_wrong_graphs_for_a_program_are_one_line(exported):
    with pytest.raises(InputError, match="9 columns of int64 as x, these graphs have none"):
        exported.predict([nx.cycle_graph(4)])


def test_strings_are_not_guessed_at_by_a_program_for_graphs(tmp_path):
    """Both "Bw" and "CC" are graph6, and "CC" is ethane as well."""
    graphs = [make(size) for size in range(3, 9) for make in (nx.cycle_graph, nx.path_graph)]
    lines = [nx.to_graph6_bytes(graph, header=False).decode().strip() for graph in graphs]
    estimator = MagClassifier(inputs="graph6", steps=2).fit(lines, ["ring", "chain"] * 6)
    estimator.fitted_.save(tmp_path / "model")
    export_model(tmp_path / "model", tmp_path / "model.pt2")
    exported = load_exported(tmp_path / "model.pt2", trust=True)
    for inputs in ("auto", "smiles"):
        with pytest.raises(InputError, match=r"fitted to graphs, not to SMILES: .* inputs='graph6'"):
            exported.predict(["CC"], inputs=inputs)
    torch.testing.assert_close(exported.predict(lines, inputs="graph6"), exported.predict(graphs))
    assert exported.predict(["CC"], inputs="graph6").shape == (1, 2)


def random_starts(folder: Path) -> Path:
    """A run folder of a classifier that chooses who moves and keeps the surest answer, from random tuples."""
    config = Config().replaced(
        encoder={"num_layers": 1, "hidden": 8},
        agent={"num_tuples": 3, "num_moves": 1, "actions": "choose", "keep": "confident"},
    )
    torch.manual_seed(0)
    model = MagGNN(2, encoder=config.encoder, agent=config.agent)
    save_model(folder / "model.safetensors", model, config)
    return folder


@pytest.mark.slow
def test_random_starts_are_an_input(tmp_path, called):
    said = json.loads(called("export", random_starts(tmp_path), "-o", tmp_path / "x.pt2", "--json").output())
    assert list(said["inputs"]) == ["edge_index", "node_graph", "num_nodes", "tuples"]
    assert said["output"]["what"] == "probabilities of the classes"
    exported = load_exported(tmp_path / "x.pt2", trust=True)
    rings = [nx.cycle_graph(size) for size in range(3, 9)]
    answers = exported.predict(rings, seed=3)
    assert torch.equal(answers, exported.predict(rings, seed=3))
    torch.testing.assert_close(answers.sum(dim=1), torch.ones(6))


def test_mistakes_are_one_line_and_leave_what_is_there(folder, tmp_path, called):
    (tmp_path / "old.pt2").write_bytes(b"old")
    (tmp_path / "file").write_bytes(b"")
    damaged = tmp_path / "damaged"
    shutil.copytree(folder / "model", damaged)
    whole = (damaged / "model.safetensors").read_bytes()
    (damaged / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    baseline = Config().replaced(
        baseline={"name": "gine"}, agent={"tuple_order": 0, "num_moves": 0}, training={"agent_steps": 0}
    )
    from maggnn.model.features import FeatureSpec
    from maggnn.model.named_encoders import make_encoder

    g_p = make_encoder(baseline.baseline, baseline.encoder, FeatureSpec(), FeatureSpec())
    save_model(tmp_path / "baseline.safetensors", MagGNN(2, agent=baseline.agent, g_p=g_p), baseline)
    model = folder / "model"
    words = "old.pt2: exists already; choose another name, or --overwrite to replace it"
    assert called("export", model, "-o", tmp_path / "old.pt2").mistake().endswith(words)
    for arguments, words in (
        ((tmp_path / "absent", "-o", tmp_path / "old.pt2"), "no such model"),
        ((damaged, "-o", tmp_path / "old.pt2"), "truncated or damaged"),
        ((model, "-o", tmp_path / "old.pt2", "--format", "tflite"), "give torch, aoti, onnx"),
        ((model, "-o", tmp_path / "old.pt2", "--format", "onnx"), "writes a .onnx file"),
        ((model, "-o", tmp_path / "x.onnx"), "writes a .pt2 file"),
        ((model, "-o", tmp_path / "file" / "x.pt2"), "cannot be written"),
        ((tmp_path / "baseline.safetensors", "-o", tmp_path / "old.pt2"), "a baseline (GINE) cannot be exported"),
    ):
        assert words in called("export", *arguments, "--overwrite").mistake(), arguments
    assert (tmp_path / "old.pt2").read_bytes() == b"old"
    with pytest.raises(InputError, match="no such file"):
        load_exported(tmp_path / "absent.pt2", trust=True)
    whole = (folder / "model.pt2").read_bytes()
    for cut in (0, 100, len(whole) // 2):
        (tmp_path / "cut.pt2").write_bytes(whole[:cut])
        with pytest.raises(InputError, match="truncated, damaged"):
            load_exported(tmp_path / "cut.pt2", trust=True)


def test_a_full_disk_leaves_the_previous_file(tmp_path):
    (tmp_path / "old.pt2").write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(InputError, match=r"cannot be written .*; the previous file is unchanged"):
            exporting.write_checked(tmp_path / "old.pt2", bytes(2000), lambda path: None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in tmp_path.iterdir()] == ["old.pt2"]
    assert (tmp_path / "old.pt2").read_bytes() == b"old"


def test_a_program_that_cannot_be_read_back_is_not_said_to_be_unwritable(tmp_path):
    def check(path: Path) -> None:
        (tmp_path / "absent").read_bytes()

    with pytest.raises(InputError, match=r"x.pt2: the new file cannot be read back \(No such file"):
        exporting.write_checked(tmp_path / "x.pt2", b"program", check)
    assert not list(tmp_path.iterdir())


def agree(first: Path, second: Path) -> None:
    one, other = load_exported(first, trust=True), load_exported(second, trust=True)
    for smiles in batches():
        torch.testing.assert_close(one.predict(smiles), other.predict(smiles), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["torch", *(pytest.param(kind, marks=OTHERS[kind]) for kind in OTHERS)])
def test_distance_marks_are_exported(kind, tmp_path):
    config = Config().replaced(
        encoder={"num_layers": 1, "hidden": 8, "marking": "distance"}, agent={"num_moves": 1, "start": "central"}
    )
    torch.manual_seed(0)
    model = MagGNN(2, encoder=config.encoder, agent=config.agent)
    save_model(tmp_path / "model.safetensors", model, config)
    path = tmp_path / f"x{SUFFIXES[kind]}"
    export_model(tmp_path, path, kind)
    graphs = [nx.path_graph(7), nx.star_graph(4), nx.cycle_graph(5), nx.empty_graph(1), nx.empty_graph(3)]
    answers = load_exported(path, trust=True).predict(graphs)
    expected = Engine(model, "cpu").predict(pack_networkx(graphs)).softmax(dim=-1)
    torch.testing.assert_close(answers, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++)")
def test_compiled_programs_answer_alike(whole, tmp_path, called):
    path = tmp_path / "x.pt2"
    called("export", whole / "model", "-o", path, "--format", "aoti").output()
    agree(whole / "model.pt2", path)


@pytest.mark.slow
@pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)} (extra onnx)")
def test_onnx_answers_alike_and_repeats_with_several_threads(whole, tmp_path, called):
    import onnxruntime

    path = tmp_path / "x.onnx"
    called("export", whole / "model", "-o", path, "--format", "onnx").output()
    agree(whole / "model.pt2", path)
    exported = load_exported(whole / "model.pt2", trust=True)
    packed, _ = packed_inputs(MOLECULES)
    inputs = program_inputs(exported.description, packed[torch.arange(len(packed))])
    feed = {name: value.numpy() for name, value in inputs.items()}
    for threads in (2, 4):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        answers = [torch.from_numpy(session.run(None, feed)[0]) for _ in range(50)]
        assert all(torch.equal(answer, answers[0]) for answer in answers)
        torch.testing.assert_close(answers[0], exported.predict(packed), rtol=1e-4, atol=1e-4)
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(InputError, match="truncated, damaged"):
        load_exported(path, trust=True)


class Payload:
    """What an unpickler without limits executes."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


def with_payload(program: Path, hostile: Path, marker: Path) -> Path:
    """A copy of a .pt2 whose example inputs make a file when they are unpickled."""
    with zipfile.ZipFile(program) as archive, zipfile.ZipFile(hostile, "w") as copy:
        for name in archive.namelist():
            pickled = io.BytesIO()
            torch.save(Payload(marker), pickled)
            copy.writestr(name, pickled.getvalue() if "sample_inputs" in name else archive.read(name))
    return hostile


def with_expression(program: Path, hostile: Path, marker: Path) -> Path:
    """A copy of a .pt2 with a symbolic size that makes a file when it is evaluated."""
    code = json.dumps(f"__import__('pathlib').Path({str(marker)!r}).touch()")
    with zipfile.ZipFile(program) as archive, zipfile.ZipFile(hostile, "w") as copy:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith("models/model.json"):
                content = re.sub(rb'"expr_str": "[^"]*"', lambda _: f'"expr_str": {code}'.encode(), content)
            copy.writestr(name, content)
    return hostile


@pytest.mark.parametrize("make", [with_payload, with_expression])
def test_a_hostile_program_executes_nothing_without_trust(folder, tmp_path, make):
    marker = tmp_path / "made by the file"
    hostile = make(folder / "model.pt2", tmp_path / "hostile.pt2", marker)
    with pytest.raises(InputError, match=r"can execute code .* trust=True .* onnx"):
        load_exported(hostile)
    assert not marker.exists()
    with pytest.raises(InputError):
        load_exported(hostile, trust=True)
    assert marker.exists(), "this torch reads such a file without executing it: trust may not be needed any more"


def test_a_compiled_program_is_not_opened_without_trust(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt2", "w") as archive:
        archive.writestr("x/data/aotinductor/model/model.so", b"no library")
    with pytest.raises(InputError, match="trust=True"):
        load_exported(tmp_path / "x.pt2")


WRONG = ["[]", "{", "{}", "1", "[" * 100_000]
ENTRIES = [{"inputs": {"x": {"dtype": "load", "shape": [1, 2]}}}, {"source": 3}, {"inputs": []}, {"search": None}]
ENTRIES += [{"inputs": {"tuples": {"dtype": "int64", "shape": ["graphs", 10**12, 2]}}}, {"inputs": {"y": {}}}]


def test_what_a_program_says_of_itself_is_checked(exported, tmp_path):
    texts = [*WRONG, *(json.dumps(exported.description | entry) for entry in ENTRIES)]
    for text in texts:
        with pytest.raises(InputError) as caught:
            programs._description(tmp_path / "x.onnx", text)
        assert "\n" not in str(caught.value)
    programs._description(tmp_path / "x.onnx", json.dumps(exported.description))
