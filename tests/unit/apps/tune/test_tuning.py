"""A study goes on after an interruption, prunes, keeps to the validation split and refuses what is not its own."""

import contextlib
import csv
import resource
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from maggnn import config as configs
from maggnn.apps.fit.own_settings import own_config
from maggnn.apps.tune import space as tuning_space
from maggnn.apps.tune.problem import Problem, config_problem
from maggnn.apps.tune.space import start_params, suggested, without_marks
from maggnn.apps.tune.study import AGAIN, MOST_AGAIN, next_trial, tune
from maggnn.config import Config
from maggnn.data.dataset import Dataset
from maggnn.data.inputs import packed_inputs
from maggnn.data.molecules.smiles import Molecule, featurise_all
from maggnn.data.molecules.table import PARTS
from maggnn.data.packing import pack, save_packed
from maggnn.data.splits import Split
from maggnn.errors import InputError

optuna = pytest.importorskip("optuna")

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "OCCO", "CO", "C#N", "O=C=O", "CC(C)O", "NCCO", "CCCO"] * 2


@pytest.fixture(autouse=True)
def _small_networks(monkeypatch):
    """Trials of a fraction of a second."""
    monkeypatch.setattr(tuning_space, "HIDDEN", (8, 16))
    monkeypatch.setattr(tuning_space, "NUM_LAYERS", (1, 2))
    monkeypatch.setattr(tuning_space, "NUM_MOVES", (0, 1))


def problem(steps: int = 4, **training: float) -> Problem:
    """Small graphs, and a small network to start from."""
    y = torch.tensor([[smiles.count("O") + 0.5 * smiles.count("C")] for smiles in SMILES])
    packed, ids = replace(packed_inputs(SMILES)[0], y=y), torch.arange(len(SMILES))
    dataset = Dataset("mine", packed, "regression", 1, lambda *_: [Split(ids[:12], ids[12:18], ids[18:])], metric="mae")
    base = own_config(dataset, predictor_steps=steps, **training).replaced(
        encoder={"num_layers": 1, "hidden": 8, "random_walk": 2}
    )
    return Problem(dataset, base, True, "digest")


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    return [{key: value for key, value in row.items() if key != "seconds"} for row in found]


def quiet(_: str) -> None:
    pass


def test_same_seed_same_trials_also_after_an_interruption(tmp_path):
    said = []
    whole = tune(problem(), tmp_path / "whole", trials=3, tell=said.append)
    assert len(said) == 3 and "best" in said[-1] and "3 of 3" in said[-1]
    tune(problem(), tmp_path / "parts", trials=1, tell=quiet)
    parts = tune(problem(), tmp_path / "parts", trials=3, tell=quiet)
    assert rows(tmp_path / "whole") == rows(tmp_path / "parts")
    assert (whole["best"], whole["params"]) == (parts["best"], parts["params"])
    assert tune(problem(), tmp_path / "whole", trials=3, tell=quiet)["trials"] == whole["trials"]
    best = configs.load(tmp_path / "whole" / "best.toml")
    assert best.encoder.hidden == whole["params"]["encoder.hidden"]
    assert best.data.name == "mine" and configs.load(tmp_path / "parts" / "best.toml") == best
    assert whole["best"] == min(float(row["value"]) for row in rows(tmp_path / "whole") if row["value"])
    assert (tmp_path / "whole" / "tuning.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="study of other data or settings"):
        tune(replace(problem(), digest="other"), tmp_path / "whole", trials=4)


def test_the_first_trial_is_the_config_to_start_from(tmp_path):
    base = problem().base
    fixed = optuna.trial.FixedTrial(start_params(base, own_table=True))
    assert suggested(fixed, base, own_table=True) == base
    result = tune(problem(), tmp_path, trials=1, tell=quiet)
    assert result["start"] == result["best"]


def test_bad_trials_are_pruned(tmp_path):
    said = []
    result = tune(problem(steps=12, validate_every=2), tmp_path, trials=8, tell=said.append)
    assert result["trials"]["pruned"] >= 1
    assert result["trials"]["pruned"] + result["trials"]["complete"] == 8
    pruned = [row for row in rows(tmp_path) if row["state"] == "pruned"]
    assert all(row["reason"].startswith("pruned after") for row in pruned)
    assert sum(": pruned after" in line for line in said) == len(pruned)


def killed_trial(folder: Path) -> None:
    """What a process leaves behind that is killed while a trial runs."""
    study = optuna.load_study(study_name="maggnn tune", storage=f"sqlite:///{folder / 'study.db'}")
    suggested(next_trial(study, problem()), problem().base, own_table=True)


def test_a_killed_trial_fails_and_runs_again_and_others_follow_as_they_would_have(tmp_path):
    tune(problem(), tmp_path / "whole", trials=3, tell=quiet)
    tune(problem(), tmp_path / "killed", trials=1, tell=quiet)
    killed_trial(tmp_path / "killed")
    said = []
    tune(problem(), tmp_path / "killed", trials=3, tell=said.append)
    assert said[0] == "trial 1 was interrupted and counts as failed: its settings run again"
    first, cut, again, last = rows(tmp_path / "killed")
    assert [row["state"] for row in (first, cut, again)] == ["complete", "fail", "complete"]
    assert again["reason"] == "trial 1 was interrupted: its settings run again"
    searched = [key for key in cut if "." in key]
    assert [cut[key] for key in searched] == [again[key] for key in searched]
    compared = ("state", "value", *searched)
    for row, expected in zip((first, again, last), rows(tmp_path / "whole"), strict=True):
        assert [row[key] for key in compared] == [expected[key] for key in compared]


def test_settings_that_are_killed_every_time_are_given_up(tmp_path):
    """They may be what kills the process."""
    tune(problem(), tmp_path, trials=1, tell=quiet)
    said = []
    for _ in range(MOST_AGAIN + 1):
        killed_trial(tmp_path)
        tune(problem(), tmp_path, trials=1, tell=said.append)
    assert [AGAIN in line for line in said] == [True] * MOST_AGAIN + [False]
    tune(problem(), tmp_path, trials=2, tell=quiet)
    *_, cut, other = rows(tmp_path)
    assert (cut["state"], other["state"]) == ("fail", "complete")
    assert [cut[key] for key in cut if "." in key] != [other[key] for key in cut if "." in key]


def test_time_ends_a_trial_at_its_next_look(tmp_path):
    with pytest.raises(InputError, match="no trial has finished"):
        tune(problem(steps=100_000, validate_every=5), tmp_path, minutes=0.01, tell=quiet)
    result = tune(problem(), tmp_path, trials=1, tell=quiet)
    assert result["trials"] == {"complete": 1, "pruned": 0, "fail": 1}
    assert [row["reason"] for row in rows(tmp_path)][1].endswith("its settings run again")


def test_only_train_and_validation_targets_matter(tmp_path):
    other = problem()
    y = other.dataset.y.clone()
    y[18:] = 1e6  # the test part
    other = replace(other, dataset=replace(other.dataset, graphs=replace(other.dataset.graphs, y=y)))
    first, second = (tune(each, tmp_path / name, 2, tell=quiet) for each, name in ((problem(), "a"), (other, "b")))
    assert first["best"] == second["best"] and rows(tmp_path / "a") == rows(tmp_path / "b")


def test_what_it_cannot_tune_is_one_line(tmp_path):
    for arguments, words in (
        ({"trials": 0}, "--trials is 0"),
        ({"minutes": -1.0}, "--minutes is -1"),
        ({"minutes": float("nan")}, "--minutes is nan"),
    ):
        with pytest.raises(InputError, match=words):
            tune(problem(), tmp_path / "x", **arguments)
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "study.db").write_bytes(b"no data base" * 1000)
    with pytest.raises(InputError, match=r"study.db: damaged"):
        tune(problem(), tmp_path / "damaged")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot be written"):
        tune(problem(), tmp_path / "file")
    for name in ("sr25", "csl"):  # the one has three times the same graphs, the other two parts
        (tmp_path / "x.toml").write_text(configs.to_toml(Config().replaced(data={"name": name})))
        with pytest.raises(InputError, match=f"{name} has no validation split"):
            config_problem(tmp_path / "x.toml", [], None, None)


def packed_file(path: Path, targets: list[float], num_train: int = 12, num_val: int = 6) -> None:
    """As `maggnn data pack` writes it: the first graphs to train on, then those to validate with."""
    parts = np.split(np.arange(len(SMILES)), [num_train, num_train + num_val])
    arrays = pack(molecule for molecule in featurise_all(SMILES, "ogb") if isinstance(molecule, Molecule))
    save_packed(path, {**arrays, "y": np.array(targets), **dict(zip(PARTS, parts, strict=True))})


def test_a_packed_file_that_was_changed_is_another_study(tmp_path):
    targets = [smiles.count("O") + 0.5 for smiles in SMILES]
    base = problem().base.replaced(data={"name": str(tmp_path / "mine.npz")})
    (tmp_path / "mine.toml").write_text(configs.to_toml(base))

    def read() -> Problem:
        return config_problem(tmp_path / "mine.toml", [], None, None)

    packed_file(tmp_path / "mine.npz", targets)
    tune(read(), tmp_path / "study", trials=1, tell=quiet)
    packed_file(tmp_path / "mine.npz", targets)
    assert tune(read(), tmp_path / "study", trials=1, tell=quiet)["trials"]["complete"] == 1
    before = (tmp_path / "study" / "trials.csv").read_bytes()
    for changed in ({"targets": [0.0, *targets[1:]]}, {"num_train": 11, "num_val": 7}, {"num_val": 5}):
        packed_file(tmp_path / "mine.npz", **{"targets": targets, **changed})
        with pytest.raises(InputError, match="study of other data or settings"):
            tune(read(), tmp_path / "study", trials=2, tell=quiet)
    assert (tmp_path / "study" / "trials.csv").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("paradigm", ["ord", "simul"])
def test_a_config_is_tuned_in_its_own_paradigm(tmp_path, paradigm):
    base = Config().replaced(
        data={"name": "links"},
        encoder={"num_layers": 1, "hidden": 8},
        agent={"num_moves": 1, "tuple_order": 1},
        replay={"warmup": 64},
        training={"paradigm": paradigm, "predictor_steps": 20, "agent_steps": 10},
    )
    (tmp_path / "links.toml").write_text(configs.to_toml(base))
    found = config_problem(tmp_path / "links.toml", ["training.batch_size=16"], 3, 8)
    assert (found.base.training.predictor_steps, found.base.training.agent_steps) == (8, 4)
    assert found.maximises and found.objective == "auroc"
    tune(found, tmp_path / "study", trials=2, tell=quiet)
    best = configs.load(tmp_path / "study" / "best.toml")
    assert (best.training.paradigm, best.runtime.seed, best.data.name) == (paradigm, 3, "links")


@pytest.mark.parametrize("name", ["what?", "50%20", "a#b", "naïve @:"])
def test_a_folder_may_have_any_name(tmp_path, name):
    """The address of the data base is a URL, in which some of these characters have a meaning."""
    tune(problem(), tmp_path / name, trials=1, tell=quiet)
    tune(problem(), tmp_path / name, trials=2, tell=quiet)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(rows(tmp_path / name)) == 2


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let no file grow beyond `size`, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_one_line_and_the_study_goes_on_afterwards(tmp_path):
    """Nobody may be told that the study is damaged and should be removed."""
    words = r"study\.db: cannot be written \(.+\); finished trials are kept, and the same command resumes$"
    with pytest.raises(InputError, match=words), largest_file(20_000):
        tune(problem(), tmp_path / "study", trials=1, tell=quiet)
    tune(problem(), tmp_path / "study", trials=1, tell=quiet)
    first = rows(tmp_path / "study")
    with pytest.raises(InputError, match=words), largest_file(60_000):
        tune(problem(), tmp_path / "study", trials=3, tell=quiet)
    assert tune(problem(), tmp_path / "study", trials=2, tell=quiet)["trials"]["complete"] >= 1
    assert rows(tmp_path / "study")[0] == first[0]


def test_one_study_at_a_time(tmp_path):
    from maggnn.apps.tune.folder import lock_study

    with lock_study(tmp_path), pytest.raises(InputError, match="another `maggnn tune`"):
        tune(problem(), tmp_path)


@pytest.mark.parametrize("path", sorted(Path("configs").glob("*.toml")), ids=lambda path: path.stem)
def test_any_config_round_trips_through_toml(path, tmp_path):
    config = configs.load(path)
    (tmp_path / "copy.toml").write_text(configs.to_toml(config))
    assert configs.load(tmp_path / "copy.toml") == config


def test_every_proposal_is_a_valid_config():
    """Configs are checked as they are made; each paradigm keeps its own rules."""
    bases = [configs.load(path) for path in sorted(Path("configs").glob("*.toml"))] + [problem().base]
    for number, base in enumerate(bases):
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=number))
        for own_table in (False, True):
            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=number))
            for _ in range(3):
                proposed = suggested(study.ask(), base, own_table)
                assert proposed.data == base.data
                assert bool(proposed.agent.pretrained) == (proposed.training.paradigm == "pre")
    assert without_marks(problem().base).agent.tuple_order == 0
