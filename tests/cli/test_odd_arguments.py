"""Seeds beyond what generators take, names beyond what file systems take: one line, before any work."""

from functools import partial

import pytest

from maggnn.apps.fit.tables.cross_validation import SEEDS_APART
from maggnn.apps.terminal import MOST_SEED
from maggnn.config import Config

TABLE = ("--smiles", "smiles", "--target", "y", "--workers", "1")
LONG = "n" * 300
TINY = '[data]\nname = "shrikhande_rook"\n[training]\npredictor_steps = 2\nagent_steps = 0\nbatch_size = 2\n'


@pytest.fixture
def called(call_command):
    return partial(call_command, "maggnn")


@pytest.fixture
def folder(tmp_path):
    lines = [f"{'C' * (1 + number % 9)}O,{number % 5}.5\n" for number in range(60)]
    (tmp_path / "mine.csv").write_text("smiles,y\n" + "".join(lines))
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("seed", [2**64, 2**70, -1])
@pytest.mark.parametrize(
    "command",
    [
        ("fit", "mine.csv", *TABLE, "-o", "out"),
        ("tune", "mine.csv", *TABLE, "-o", "out"),
        ("data", "pack", "mine.csv", *TABLE, "-o", "out.npz"),
        ("explain", "model", "CCO"),
    ],
    ids=lambda command: command[0],
)
def test_seeds_that_no_generator_takes(folder, called, command, seed):
    line = called(*command, "--seed", seed, cwd=folder).mistake()
    assert "--seed" in line and names(folder) == ["mine.csv", "tiny.toml"]


@pytest.mark.parametrize("setting", ["runtime.seed", "data.split_seed"])
def test_settings_that_no_generator_takes(folder, called, setting):
    line = called("train", "tiny.toml", "-o", "run", "--set", f"{setting}={2**64}", cwd=folder).mistake()
    assert f"{setting.partition('.')[2]} is {2**64}, must be at most" in line and names(folder) == [
        "mine.csv",
        "tiny.toml",
    ]


def test_a_wrong_option_points_to_the_help_of_its_command(folder, called):
    assert (
        called("data", "pack", "mine.csv", "--smile", "s", cwd=folder)
        .mistake()
        .endswith("(see maggnn data pack --help)")
    )
    assert called("--colour", cwd=folder).mistake().endswith("(see maggnn --help)")
    line = called("fit", "mine.csv", "--setp", "3", cwd=folder).mistake()
    assert line.endswith("No such option: --setp. Did you mean --steps? (see maggnn fit --help)")
    assert called("show", "--port", cwd=folder).mistake().endswith("requires an argument (see maggnn show --help)")
    assert called("explain", cwd=folder).mistake().endswith("Missing argument 'model' (see maggnn explain --help)")


def test_repeats_and_networks_of_the_largest_seed_have_valid_seeds(folder, called):
    """Of a short fit, and by the largest numbers of repeats and networks that the options take."""
    Config().replaced(runtime={"seed": MOST_SEED + 100 * SEEDS_APART + 100})
    options = ("--steps", "3", "--seed", MOST_SEED, "--folds", "2", "--ensemble", "2", "-o", "out")
    assert called("fit", "mine.csv", *TABLE, *options, cwd=folder).code == 0


def test_a_seed_of_more_than_32_bits_fits(folder, called):
    """Also the baselines of the card, which take 32."""
    options = ("--steps", "3", "--seed", 2**40 + 1, "--ensemble", "2", "-o", "out")
    ended = called("fit", "mine.csv", *TABLE, *options, cwd=folder)
    assert ended.code == 0 and "random forest" in ended.out, ended.err


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "mine.csv", *TABLE, "-o", LONG),
        ("fit", f"{LONG}.csv", *TABLE, "-o", "out"),
        ("tune", "mine.csv", *TABLE, "-o", LONG),
        ("data", "pack", "mine.csv", *TABLE, "-o", f"{LONG}.npz"),
        ("train", "tiny.toml", "-o", LONG),
        ("train", LONG),
        ("evaluate", LONG),
        ("predict", LONG, "mine.csv", "-o", "out.csv"),
        ("explain", LONG, "CCO"),
        ("show", LONG),
    ],
    ids=" ".join,
)
def test_names_of_300_letters(folder, called, command):
    ended = called(*command, cwd=folder)
    assert (ended.code, ended.out) == (2, "")
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("maggnn: ") and "Traceback" not in ended.err
    assert names(folder) == ["mine.csv", "tiny.toml"]


@pytest.mark.parametrize("place", [("fit", "\udcff.csv", *TABLE, "-o", "out"), ("train", "tiny.toml", "-o", "\udcff")])
def test_names_that_are_not_utf8(folder, called, place):
    assert "is not UTF-8" in called(*place, cwd=folder).mistake()
    assert names(folder) == ["mine.csv", "tiny.toml"]
