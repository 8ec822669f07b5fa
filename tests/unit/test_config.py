"""Settings: mistakes stop at once with one line, and values survive the round trip."""

import json

import pytest

from maggnn import config
from maggnn.config import Config
from maggnn.errors import InputError

CONFIGS = sorted(config.packaged_folder().glob("*.toml"))


def refused(values):
    with pytest.raises(InputError) as caught:
        config.from_dict(values, "run.toml")
    message = str(caught.value)
    assert "\n" not in message and "run.toml" in message
    return message


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"agent": {"num_tuple": 2}}, "agent.num_tuple: did you mean 'num_tuples'?"),
        ({"training": {"lerning_rate": 0.1}}, "training.lerning_rate: did you mean 'learning_rate'?"),
        ({"agnet": {}}, "[agnet]: did you mean 'agent'?"),
    ],
)
def test_unknown_names_get_the_nearest(values, expected):
    assert expected in refused(values)


def test_the_former_name_of_a_section_is_read():
    plain = {"agent": {"tuple_order": 0, "num_moves": 0}, "training": {"agent_steps": 0}}
    former = config.from_dict({"rival": {"name": "ngnn"}, **plain}, "run.toml")
    assert former.baseline.name == "ngnn" and "rival" not in config.to_toml(former)
    assert "[baseline] is given twice" in refused({"rival": {"name": "ngnn"}, "baseline": {"name": "gine"}})


@pytest.mark.parametrize(
    ("section", "key", "value", "kind"),
    [
        ("agent", "num_moves", "4", "int"),
        ("agent", "num_moves", 4.0, "int"),
        ("agent", "num_moves", True, "int"),
        ("encoder", "residual", 1, "bool"),
        ("training", "learning_rate", "fast", "float"),
        ("training", "learning_rate", True, "float"),
        ("data", "name", 25, "str"),
        ("data", "name", ["sr25"], "str"),
    ],
)
def test_wrong_types_are_named(section, key, value, kind):
    message = refused({section: {key: value}})
    assert f"{section}.{key} is {value!r}" in message and f"must be {kind}" in message


def test_literals_list_their_choices():
    message = refused({"agent": {"actions": "all"}})
    assert "agent.actions is 'all', must be one of simultaneous, in_turn, choose" in message


def test_a_section_is_not_a_value():
    assert "[agent] must be a section" in refused({"agent": 3})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"agent": {"num_tuples": 0}}, "num_tuples is 0, must be at least 1"),
        ({"training": {"gamma": 1.5}}, "gamma is 1.5, must be at most 1"),
        ({"training": {"epsilon_end": -0.1}}, "epsilon_end is -0.1, must be at least 0"),
        ({"training": {"learning_rate": float("nan")}}, "learning_rate is nan, must be a finite number"),
        ({"replay": {"capacity": 99, "warmup": 100}}, "replay.capacity must be at least 100"),
        ({"replay": {"capacity": 63, "warmup": 10}}, "replay.capacity must be at least 64"),
        ({"training": {"gamma": 0.5}}, "lookahead scores moves exactly"),
        ({"runtime": {"checkpoint_every": 25, "log_every": 10}}, "checkpoint_every must be a multiple"),
        ({"agent": {"tuple_order": 0, "num_moves": 0}}, "no agent to train"),
        ({"agent": {"tuple_order": 0}}, "nothing to move"),
    ],
)
def test_impossible_values(values, expected):
    assert expected in refused(values)


def test_an_int_may_stand_for_a_float():
    rate = config.from_dict({"training": {"learning_rate": 1}}, "run.toml").training.learning_rate
    assert isinstance(rate, float) and rate == 1.0


def test_set():
    settings = [
        "data.name=csl",
        "agent.num_moves=3",
        "training.learning_rate = 1e-2",
        "encoder.residual=true",
    ]
    changed = Config().with_settings(settings)
    assert changed.data.name == "csl" and changed.agent.num_moves == 3
    assert changed.training.learning_rate == 0.01 and changed.encoder.residual is True
    assert changed.replay == Config().replay


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("agent.num_moves", "expected section.key=value"),
        ("num_moves=3", "expected section.key=value"),
        ("agent.num_moves=many", "agent.num_moves is 'many'"),
        ("agent.moves=3", "did you mean 'num_moves'"),
        ("agents.num_moves=3", "did you mean 'agent'"),
    ],
)
def test_set_mistakes(setting, expected):
    with pytest.raises(InputError, match="--set") as caught:
        Config().with_settings([setting])
    assert expected in str(caught.value)


def test_replaced_changes_a_copy():
    changed = Config().replaced(data={"fold": 3}, agent={"num_moves": 1})
    assert (changed.data.fold, changed.agent.num_moves) == (3, 1)
    assert Config().data.fold == 0


def test_round_trip():
    changed = Config().with_settings(["data.name=csl", "training.epsilon_end=0.5", "agent.keep=confident"])
    assert config.from_dict(config.to_dict(changed), "again") == changed
    assert config.from_dict(json.loads(config.to_json(changed)), "again") == changed


def test_every_setting_is_described():
    rows = [*config.describe(), *config.describe(experimental=True)]
    assert len(rows) == sum(len(section) for section in config.to_dict(Config()).values())
    assert all(text for _, _, text in rows)


def test_files(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[agent]\nnum_moves = 2\n", encoding="utf-8")
    assert config.load(path).agent.num_moves == 2
    for content in (b"[agent\n", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"run\.toml: cannot be read as TOML"):
            config.load(path)
    for missing in (tmp_path / "none.toml", tmp_path):
        with pytest.raises(InputError, match=missing.name):
            config.load(missing)


def test_a_user_meets_few_settings():
    assert len(config.describe()) <= 45


def test_experimental_settings_have_a_section_of_their_own_in_files(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("[encoder]\nhidden = 8\n\n[experimental.encoder]\njk = 'sum'\n", encoding="utf-8")
    assert (config.load(path).encoder.hidden, config.load(path).encoder.jk) == (8, "sum")
    for wrong, words in (
        ("[encoder]\njk = 'sum'\n", "encoder.jk is experimental: set it under [experimental.encoder]"),
        ("[experimental.encoder]\nhidden = 8\n", "no experimental setting encoder.hidden"),
        ("[experimental]\njk = 'sum'\n", "no experimental setting"),
        ("experimental = 3\n", "must be sections such as [experimental.encoder]"),
        ("[experimental.encoder]\njkk = 'sum'\n", "did you mean 'encoder.jk'?"),
    ):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError) as raised:
            config.load(path)
        assert words in str(raised.value) and "\n" not in str(raised.value)


def test_packaged_configs_are_found_by_name():
    assert config.load("sr25") == config.load(config.packaged_folder() / "sr25.toml")
    with pytest.raises(InputError, match="no config 'sr52': did you mean"):
        config.load("sr52")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_load(path):
    assert isinstance(config.load(path), Config)
