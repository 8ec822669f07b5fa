"""scikit-learn's contract, every kind of input, and that something is learned.

`check_estimator` itself skips estimators whose X is no table of numbers. Its checks that need no X are run as they
are; those below are repeated with graphs. These cannot hold:

- check_methods_subset_invariance, check_methods_sample_order_invariance: starting marks are drawn for the whole of X,
  so a graph's answer depends on its place (asked about the same X, a model answers the same);
- check_n_features_in, check_n_features_in_after_fitting, check_dataframe_column_names_consistency, check_fit1d,
  check_fit2d_1feature, check_fit2d_predict1d: graphs have no columns;
- check_estimators_dtypes, check_readonly_memmap_input, check_estimator_sparse_*, check_complex_data,
  check_estimators_nan_inf, check_f_contiguous_array_estimator: about arrays of numbers in X;
- check_sample_weight*, check_class_weight_classifiers: weights of samples or classes are not taken.
"""

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks as checks
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from maggnn import InputError, MagClassifier, MagRegressor
from maggnn.apps.fit import estimator_base as module
from maggnn.apps.fit.answers.given_y import class_numbers, finite_numbers, several_labels
from maggnn.apps.fit.fitted import FittedModel, UnseenWarning
from maggnn.apps.fit.predicting import predict_table
from maggnn.data.inputs import packed_inputs
from maggnn.data.packing import pack, save_packed
from maggnn.graphs.conversions import pack_networkx, to_graph6, to_networkx, to_pyg
from maggnn.model.pretrained import pretrained_agent

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "OCCO", "C", "C#N", "O=C=O", "CC(C)O", "NCCO", "CO"]
OXYGENS = [smiles.count("O") for smiles in SMILES]
KINDS = ["with" if count else "without" for count in OXYGENS]
RINGS = [make(size) for size in range(4, 24) for make in (nx.cycle_graph, nx.path_graph)]
RING_LABELS = ["ring", "chain"] * 20

ESTIMATORS = [MagClassifier, MagRegressor]


def targets(estimator):
    return KINDS if is_classifier(estimator) else OXYGENS


@pytest.fixture(scope="module")
def classifier():
    return MagClassifier(steps=2).fit(SMILES, KINDS)


@pytest.fixture(scope="module")
def regressor():
    return MagRegressor(steps=2).fit(SMILES, OXYGENS)


# ---- the contract ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "check",
    [
        checks.check_estimator_cloneable,
        checks.check_estimator_tags_renamed,
        checks.check_valid_tag_types,
        checks.check_estimator_repr,
        checks.check_no_attributes_set_in_init,
        checks.check_mixin_order,
        checks.check_do_not_raise_errors_in_init_or_set_params,
        checks.check_parameters_default_constructible,
        checks.check_get_params_invariance,
        checks.check_set_params,
    ],
    ids=lambda check: check.__name__,
)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_checks_of_sklearn_that_need_no_table(kind, check):
    check(kind.__name__, kind())


def test_they_are_what_they_say():
    assert is_classifier(MagClassifier()) and is_regressor(MagRegressor())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_params_go_round_and_clones_are_not_fitted(kind, request):
    fitted = request.getfixturevalue("classifier" if kind is MagClassifier else "regressor")
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params() == kind(steps=2).get_params()
    assert fitted.is_fitted and not copy.is_fitted
    check_is_fitted(fitted)
    assert kind().set_params(**fitted.get_params()).get_params() == fitted.get_params()
    assert not hasattr(fitted, "n_features_in_")


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_fit_returns_itself_and_changes_neither_params_nor_data_nor_torchs_generator(kind):
    random_state = np.random.RandomState(3)
    model = kind(steps=np.int64(1), random_state=random_state, num_tuples=np.int64(2), num_moves=0)
    before, graphs, generator = dict(model.get_params()), list(SMILES), torch.get_rng_state()
    assert model.fit(graphs, targets(model)) is model
    assert all(model.get_params()[name] is value for name, value in before.items())
    assert graphs == SMILES and torch.equal(torch.get_rng_state(), generator)
    assert model.fitted_.config.agent.num_tuples == 2 and model.fitted_.config.agent.num_moves == 0
    state = dict(vars(model))
    model.predict(SMILES)
    assert vars(model) == state


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_equal_random_states_give_equal_answers(kind):
    def answers(model):
        return model.predict_proba(SMILES) if is_classifier(model) else model.predict(SMILES)

    model = kind(steps=2, random_state=5).fit(SMILES, targets(kind()))
    first = answers(model)
    assert np.array_equal(answers(model), first)
    assert np.array_equal(answers(model.fit(SMILES, targets(model))), first)
    other = kind(steps=2, random_state=6).fit(SMILES, targets(model))
    assert not np.array_equal(answers(other), first)


@pytest.mark.parametrize(
    ("kind", "method"),
    [*itertools.product(ESTIMATORS, ["predict", "score"]), (MagClassifier, "predict_proba")],
)
def test_asked_before_fit(kind, method):
    model = kind()
    arguments = (SMILES, targets(model)) if method == "score" else (SMILES,)
    with pytest.raises(NotFittedError):
        getattr(model, method)(*arguments)


def test_shapes_and_types_of_answers(classifier, regressor):
    chances = classifier.predict_proba(SMILES)
    assert chances.shape == (12, 2) and chances.dtype == np.float64
    assert np.allclose(chances.sum(axis=1), 1, atol=1e-12)
    labels = classifier.predict(SMILES)
    assert classifier.classes_.tolist() == ["with", "without"]
    assert labels.dtype == classifier.classes_.dtype
    assert np.array_equal(labels, classifier.classes_[chances.argmax(axis=1)])
    assert classifier.score(SMILES, KINDS) == np.mean(labels == np.array(KINDS))
    numbers = regressor.predict(SMILES)
    assert numbers.shape == (12,) and numbers.dtype == np.float64


def test_several_targets_and_a_column():
    rows = np.array([[count, 100 - count] for count in OXYGENS])
    several = MagRegressor(steps=1).fit(SMILES, rows)
    assert several.predict(SMILES[:3]).shape == (3, 2)
    assert several.fitted_.facts.targets == ("y0", "y1")
    assert MagRegressor(steps=1).fit(SMILES, rows[:, :1]).predict(SMILES[:3]).shape == (3, 1)


@pytest.mark.parametrize(
    ("labels", "classes"),
    [([2, 0, 7] * 4, [0, 2, 7]), ([True, False] * 6, [False, True]), (np.array(["b", "a"] * 6, object), ["a", "b"])],
)
def test_labels_of_any_kind(labels, classes):
    model = MagClassifier(steps=1).fit(SMILES, labels)
    assert model.classes_.tolist() == classes
    assert set(model.predict(SMILES).tolist()) <= set(classes)
    assert model.fitted_.facts.classes == tuple(map(str, classes))


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_pickles_answer_the_same(name, request):
    model = request.getfixturevalue(name)
    copy = pickle.loads(pickle.dumps(model))
    assert np.array_equal(copy.predict(SMILES), model.predict(SMILES))
    assert copy.get_params() == model.get_params()


def test_its_folder_answers_the_same(regressor, tmp_path):
    regressor.fitted_.save(tmp_path / "model")
    loaded = FittedModel.load(tmp_path / "model")
    assert loaded.facts == regressor.fitted_.facts
    answers = loaded.predict(packed_inputs(SMILES)[0], seed=regressor.seed_)
    assert np.array_equal(answers[:, 0].double().numpy(), regressor.predict(SMILES))


def test_its_folder_answers_for_a_table_with_the_usual_column(regressor, tmp_path):
    regressor.save(tmp_path / "model")
    (tmp_path / "t.csv").write_text("name,smiles\na,CCO\n")
    predict_table(tmp_path / "model", tmp_path / "t.csv", tmp_path / "out.csv")
    name, smiles, value, *_ = (tmp_path / "out.csv").read_text().splitlines()[1].split(",")
    assert (name, smiles) == ("a", "CCO") and float(value) == pytest.approx(regressor.predict(["CCO"])[0], rel=1e-5)


def test_in_grids_folds_and_pipelines():
    scores = cross_val_score(MagClassifier(steps=1), RINGS[:12], RING_LABELS[:12], cv=2, error_score="raise")
    assert scores.shape == (2,)
    search = GridSearchCV(MagRegressor(), {"steps": [1, 2]}, cv=2, error_score="raise")
    with pytest.warns(UnseenWarning):
        search.fit(np.array(SMILES), OXYGENS)
    assert search.best_params_["steps"] in (1, 2)
    pipeline = make_pipeline(FunctionTransformer(lambda column: [text.strip() for text in column]), MagRegressor())
    pipeline.set_params(magregressor__steps=1).fit([f" {text} " for text in SMILES], OXYGENS)
    assert pipeline.predict(SMILES).shape == (12,)


# ---- kinds of X -----------------------------------------------------------------------------------------


def saved(folder: Path) -> Path:
    from maggnn.data.molecules.smiles import featurise

    save_packed(folder / "graphs.npz", pack(featurise(smiles, "ogb") for smiles in SMILES))
    return folder / "graphs.npz"


MOLECULES: dict[str, Callable[[Path], object]] = {
    "array": lambda folder: np.array(SMILES),
    "tuple": lambda folder: tuple(SMILES),
    "column": lambda folder: np.array(SMILES, object)[:, None],
    "networkx": lambda folder: to_networkx(packed_inputs(SMILES)[0]),
    "pyg": lambda folder: to_pyg(packed_inputs(SMILES)[0]),
    "packed": lambda folder: packed_inputs(SMILES)[0],
    "path": saved,
    "text of a path": lambda folder: str(saved(folder)),
}


@pytest.mark.parametrize("kind", MOLECULES)
def test_every_kind_of_molecule_gets_the_same_answer(kind, regressor, tmp_path):
    assert np.array_equal(regressor.predict(MOLECULES[kind](tmp_path)), regressor.predict(SMILES))


@pytest.mark.parametrize("kind", ["networkx", "pyg", "packed", "path"])
def test_every_kind_of_molecule_teaches_the_same(kind, regressor, tmp_path):
    model = MagRegressor(steps=2).fit(MOLECULES[kind](tmp_path), OXYGENS)
    assert np.array_equal(model.predict(SMILES), regressor.predict(SMILES))
    assert (model.fitted_.facts.source, regressor.fitted_.facts.source) == ("graphs", "smiles")


def test_graph6_and_networkx_are_the_same():
    lines = to_graph6(packed_inputs(RINGS)[0])
    model = MagClassifier(steps=1, inputs="graph6").fit(lines, RING_LABELS)
    other = MagClassifier(steps=1).fit(RINGS, RING_LABELS)
    assert np.array_equal(model.predict_proba(lines), other.predict_proba(RINGS))


def test_targets_that_a_set_brings_are_not_looked_at(regressor):
    from dataclasses import replace

    packed = packed_inputs(SMILES)[0]
    packed = replace(packed, y=torch.zeros(len(packed.in_degree)), level="node")
    assert np.array_equal(regressor.predict(packed), regressor.predict(SMILES))


def test_features_of_whole_graphs_and_weights_of_edges_are_refused(tmp_path):
    graphs = [nx.cycle_graph(3 + number % 5) for number in range(12)]
    y = [float(len(graph)) for graph in graphs]
    model, packed = MagRegressor(steps=1).fit(graphs, y), pack_networkx(graphs)
    more = packed.with_graph_attr(torch.ones(12, 1))
    weighted = [Data(edge_index=graph.edge_index, edge_weight=torch.ones(graph.num_edges)) for graph in to_pyg(packed)]
    for given, name in ((more, "graph_attr"), (to_pyg(more), "graph_attr"), (weighted, "edge_weight")):
        for call in (lambda X: MagRegressor(steps=1).fit(X, y), model.predict, model.fitted_.predict):
            with pytest.raises(InputError, match=name):
                call(given)
    torch.save(to_pyg(more), tmp_path / "more.pt")
    model.save(tmp_path / "model")
    with pytest.raises(InputError, match="graph_attr"):
        predict_table(tmp_path / "model", tmp_path / "more.pt", tmp_path / "out.csv")


def test_one_atom_and_unseen_elements(regressor):
    assert regressor.predict(["C"]).shape == (1,)
    assert np.array_equal(regressor.predict(to_networkx(packed_inputs(["C"])[0])), regressor.predict(["C"]))
    with pytest.warns(UnseenWarning, match="of nodes 1, of directed edges 0"):
        strange = regressor.predict(["CCS"])
    known = packed_inputs(["CCS"])[0]
    assert known.x is not None
    known.x[2, 0] = known.x[0, 0]  # sulfur, but for its element, which is taken for the commonest one
    assert np.array_equal(strange, regressor.predict(known))


def test_floats_as_features():
    graphs = to_pyg(packed_inputs(SMILES)[0])
    for graph in graphs:
        graph.x, graph.edge_attr = graph.x.float(), graph.edge_attr.float()
    model = MagRegressor(steps=1).fit(graphs, OXYGENS)
    assert model.predict(graphs).shape == (12,)
    alone = type(graphs[0])(x=graphs[0].x[:1], edge_index=torch.empty(2, 0, dtype=torch.long))
    assert model.predict([alone]).shape == (1,)
    alone.x = alone.x[:, :4]
    with pytest.raises(InputError, match="features have shape"):
        model.predict([alone])


def test_features_are_chosen():
    model = MagRegressor(steps=1, features="zinc").fit(SMILES, OXYGENS)
    assert model.fitted_.facts.features == "zinc"
    assert model.predict(SMILES).shape == (12,)


def test_molecules_become_what_the_model_learned_from_whatever_is_set_later():
    model = MagRegressor(steps=1, features="ogb").fit(SMILES, OXYGENS)
    answers = model.predict(SMILES)
    assert np.array_equal(model.set_params(features="mol").predict(SMILES), answers)


def test_masked_targets_are_missing():
    """Numpy drops the mask of an array that it converts, and its values would be learned."""
    masked = np.ma.masked_array([[1.0, 2.0], [1e6, 3.0], [2.0, 5.0]], mask=[[0, 0], [1, 0], [0, 0]])
    numbers = finite_numbers(masked, "MagRegressor")
    assert np.isnan(numbers[1, 0]) and np.isfinite(numbers).sum() == 5
    with pytest.raises(InputError, match=r"y\[1\] is nan"):
        finite_numbers(masked[:, 0], "MagRegressor")
    with pytest.raises(InputError, match=r"y\[1\] is None: drop or repair that row"):
        class_numbers(np.ma.masked_array([0, 1, 1], mask=[0, 1, 0]), "MagClassifier")


def test_labels_of_several_columns_are_told_apart_as_those_of_one():
    """1.5 and "0.5" in one column become texts; the labels of the rows have to become these, too."""
    y = np.array([[1.5, 0], ["0.5", 1]] * 6, dtype=object)
    classes, numbers = several_labels(y, "MagClassifier")
    assert [labels.tolist() for labels in classes] == [["0.5", "1.5"], [0, 1]]
    assert numbers.tolist() == [[1.0, 0.0], [0.0, 1.0]] * 6


# ---- what cannot be used --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([], "X is empty"),
        (np.array([], dtype=str), "X is empty"),
        (None, "X is of type NoneType"),
        (3.0, "X is of type float"),
        ("CCO", "single string 'CCO'"),
        ("nowhere.npz", "no file nowhere.npz"),
        (nx.path_graph(12), "X is a NetworkX graph: give a list"),
        (np.zeros((12, 3)), r"X has shape \(12, 3\)"),
        (np.zeros(12), r"X\[0\] is of type float"),
        ([*SMILES[:11], None], r"X\[11\] is of type NoneType"),
        ([*SMILES[:11], nx.path_graph(3)], r"mixes kinds: X\[0\] is a string, X\[11\] is a NetworkX graph"),
        ([*SMILES[:4], "C1CC", *SMILES[5:]], r"X\[4\] \('C1CC'\): not a SMILES string"),
        ([*SMILES[:4], " ", *SMILES[5:]], r"X\[4\] .*no atoms"),
        ([*RINGS[:5], nx.Graph(), *RINGS[:6]], "graph 5 has no nodes"),
        (SMILES[:7], "X has 7 graphs, y has 12 targets"),
    ],
)
def test_x_that_cannot_be_used(X, message):
    with pytest.raises(InputError, match=message):
        MagRegressor(steps=1).fit(X, OXYGENS)


def test_pyg_graphs_without_nodes_and_alone():
    graphs = to_pyg(packed_inputs(RINGS[:2])[0])
    with pytest.raises(InputError, match="X is a PyG graph: give a list"):
        MagRegressor(steps=1).fit(graphs[0], OXYGENS)
    empty = type(graphs[0])(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=0)
    with pytest.raises(InputError, match="graph 2 has no nodes"):
        MagRegressor(steps=1).fit([*graphs, empty], [0, 1, 2])


@pytest.mark.parametrize(
    ("lines", "message"),
    [(["Bw", " "], r"X\[1\] is an empty string"), (["Bw", "B"], "X\\[0\\] is line 1: line 2 is not graph6")],
)
def test_graph6_that_cannot_be_used(lines, message):
    with pytest.raises(InputError, match=message):
        MagRegressor(steps=1, inputs="graph6").fit(lines, [0, 1])


@pytest.mark.parametrize("X", [RINGS, packed_inputs(RINGS)[0]])
def test_inputs_that_allow_strings_alone(X):
    with pytest.raises(InputError, match="inputs is 'smiles', but X"):
        MagClassifier(steps=1, inputs="smiles").fit(X, RING_LABELS)


@pytest.mark.parametrize(
    ("kind", "y", "message"),
    [
        (MagClassifier, None, "requires y to be passed, but the target y is None"),
        (MagRegressor, None, "requires y to be passed, but the target y is None"),
        (MagClassifier, ["a"] * 12, "y has the one class"),
        (MagClassifier, [], "y has no labels"),
        (MagClassifier, [0.5 * count for count in range(12)], "Unknown label type: continuous"),
        (MagClassifier, [0, 1, np.nan] * 4, r"y\[2\] is nan"),
        (MagClassifier, ["a", None] * 6, r"y\[1\] is None"),
        (MagClassifier, ["a", 1] * 6, None),
        (MagClassifier, np.zeros((12, 2)), r"y\[:, 0\] has the one class"),
        (MagRegressor, [0.0, 1.0, np.nan] * 4, r"y\[2\] is nan"),
        (MagRegressor, [[0.0, np.inf]] * 12, r"y\[0, 1\] is inf"),
        (MagRegressor, [1e300] * 12, r"y\[0\] is 1e\+300"),
        (MagRegressor, ["many"] * 12, "y cannot be used as numbers"),
        (MagRegressor, np.zeros((12, 2, 2)), "y has shape"),
        (MagRegressor, np.arange(12) + 1j, "y cannot be used as numbers: it holds complex numbers"),
        (MagRegressor, np.arange(12).astype("datetime64[D]"), "y cannot be used as numbers: it holds dates"),
        (MagRegressor, np.arange(12).astype("timedelta64[D]"), "it holds differences of dates"),
        (
            MagRegressor,
            [[1.0 * count, np.nan] for count in range(12)],
            r"y\[:, 1\] has no value: leave that column out",
        ),
        (MagRegressor, 3.0, "y has shape"),
    ],
)
def test_y_that_cannot_be_used(kind, y, message):
    if message is None:  # numpy makes strings of both
        assert kind(steps=1).fit(SMILES, y).classes_.tolist() == ["1", "a"]
        return
    with pytest.raises(InputError, match=message) as caught:
        kind(steps=1).fit(SMILES, y)
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"features": "ogbb"}, "no features 'ogbb': did you mean 'ogb'"),
        ({"inputs": "mol"}, "inputs is 'mol', must be auto, smiles, graph6"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 1.5}, "steps is 1.5"),
        ({"steps": True}, "steps is True"),
        ({"num_tuples": 0}, "num_tuples is 0"),
        ({"num_moves": -1}, "num_moves is -1"),
        ({"agent": "ani"}, "no agent 'ani': did you mean 'any'"),
        ({"agent": 2}, "agent is 2: give a name"),
        ({"validation": 1.0}, "validation is 1.0"),
        ({"validation": "some"}, "validation is 'some'"),
        ({"random_state": "zero"}, "random_state is 'zero'"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
def test_parameters_are_checked_in_fit(params, message):
    model = MagRegressor(**params)
    with pytest.raises(InputError, match=message):
        model.fit(SMILES, OXYGENS)
    assert not model.is_fitted


def test_the_agent_can_be_chosen(tmp_path):
    """The chosen agent moves the marks, and the saved model keeps it."""
    model = MagRegressor(agent="any", num_moves=2, steps=2).fit(SMILES, OXYGENS)
    held, weights = model.fitted_.model.q_network.state_dict(), pretrained_agent("any").weights
    assert held.keys() == weights.keys() and all(torch.equal(held[name], weights[name]) for name in weights)
    assert model.fitted_.config.agent.pretrained == "any"
    model.save(tmp_path / "model")
    again = MagRegressor.load(tmp_path / "model")
    assert again.get_params()["agent"] == "any"
    assert np.array_equal(again.predict(SMILES), model.predict(SMILES))


def test_graphs_of_another_kind_than_those_learned_from(regressor):
    with pytest.raises(InputError, match="fitted to graphs with node features, these have none"):
        regressor.predict(RINGS)
    packed = packed_inputs(SMILES, features="zinc")[0]
    with pytest.raises(InputError, match="node features of 9 integer columns, these are 1"):
        regressor.predict(packed)


# ---- the validation part --------------------------------------------------------------------------------


def test_a_share_of_each_class_is_held_out():
    y = torch.tensor([0] * 100 + [1] * 100 + [2])
    split = module._held_out(y, 0.2, seed=0)
    assert y[split.val].bincount().tolist() == [20, 20]
    assert torch.cat([split.train, split.val]).sort().values.tolist() == list(range(201))
    assert torch.equal(split.val, module._held_out(y, 0.2, seed=0).val)
    assert not torch.equal(split.val, module._held_out(y, 0.2, seed=1).val)


def test_too_few_to_hold_out_are_learned_from():
    few = torch.zeros(50, 1)
    assert len(module._held_out(few, 0.2, seed=0).val) == 0
    assert len(module._held_out(few, 0.4, seed=0).val) == 20
    assert len(module._held_out(few, 0.0, seed=0).val) == 0


def test_weights_are_chosen_by_the_validation_part():
    model = MagClassifier(steps=4, validation=0.5).fit(RINGS, RING_LABELS)
    assert model.fitted_.facts.rows == {"train": 20, "val": 20}
    assert model.fitted_.config.training.validate_every == 1


# ---- learning -------------------------------------------------------------------------------------------


def test_learns_to_count_oxygens():
    random = Random(0)
    pieces = ["C", "C", "O", "N", "C(C)", "C(=O)"]
    smiles = ["".join(random.choices(pieces, k=random.randint(3, 9))) for _ in range(160)]
    oxygens = [text.count("O") for text in smiles]
    model = MagRegressor(steps=60).fit(smiles[:120], oxygens[:120])
    assert model.score(smiles[120:], oxygens[120:]) > 0.8  # the mean has 0


def test_learns_rings_and_chains():
    model = MagClassifier(steps=60).fit(RINGS, RING_LABELS)
    assert model.predict([nx.cycle_graph(30), nx.path_graph(30)]).tolist() == ["ring", "chain"]
    assert model.score(RINGS, RING_LABELS) > 0.9


def test_a_model_of_graphs_takes_no_strings_for_molecules():
    graphs = [nx.cycle_graph(number) for number in (3, 4, 5, 6) * 3]
    model = MagClassifier(steps=2, random_state=0).fit(graphs, [0, 1] * 6)
    with pytest.raises(InputError, match="graphs without atoms: for graph6 strings, set inputs='graph6'"):
        model.predict(["CC"])


def test_large_targets_with_small_differences_are_learned():
    graphs = [nx.cycle_graph(3 + n % 9) if n % 2 else nx.path_graph(3 + n % 9) for n in range(60)]
    y = 1e9 + 2.0 * (np.arange(60) % 2)
    model = MagRegressor(steps=60).fit(graphs, y)
    assert np.abs(model.predict(graphs) - y).mean() < 0.8
    nx.set_node_attributes(graphs[0], 1.0, "x")
    with pytest.raises(InputError, match="graph 1 has a node without 'x'"):
        MagRegressor(steps=2).fit(graphs, y)


def test_features_beyond_float32_are_refused_with_graph_and_column():
    graphs = [nx.path_graph(3 + n % 4) for n in range(20)]
    for graph in graphs:
        nx.set_node_attributes(graph, {node: [0.5, 1.5] for node in graph}, "x")
    graphs[7].nodes[1]["x"] = [0.5, 1e300]
    with pytest.raises(InputError, match="column 1, of graph 7"):
        MagRegressor(steps=2).fit(graphs, np.arange(20.0))


def test_an_ensemble_that_the_targets_do_not_allow_is_a_single_network():
    """Two members of a class, or a constant, leave a fold without anything to learn or to validate with."""
    molecules = ["[Na+]", "C", "CCO", "*CC", "c1ccccc1", "[Fe]", "CCN", "CCC", "OCC", "CCCl", "CO", "CN"] * 2
    rare = MagClassifier(steps=2, ensemble=2).fit(molecules, ["a"] * 23 + ["b"])
    assert rare.fitted_.facts.blend.folds == 1 and rare.predict_proba(["C", "CO"]).shape == (2, 2)
    assert MagRegressor(steps=2, ensemble=2).fit(molecules, np.ones(24)).predict(["CO"]) == pytest.approx(
        [1.0], abs=1.0
    )
