"""Explanations of all kinds of models: the numbers in them, the page that needs nothing else, the pictures."""

import json
import re
import shutil
from importlib.resources import files
from xml.etree import ElementTree

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from maggnn import InputError, MagClassifier, MagRegressor
from maggnn import config as configs
from maggnn.apps.draw.marked import HUES, shade
from maggnn.apps.draw.shapes import Disc, Line, Words, to_svg
from maggnn.apps.explain.chart import nice_ticks
from maggnn.apps.explain.command import HEADER, explain, table_rows
from maggnn.apps.explain.depiction import Original, depicted
from maggnn.apps.explain.explanation import BEST_MOVES, RANDOM_WALKS, explain_subject
from maggnn.apps.explain.graph import read_subject
from maggnn.apps.explain.page import page
from maggnn.apps.explain.picture import MOST_PANELS, panel, picture, shown_steps
from maggnn.apps.explain.words import gain_notes, output_names
from maggnn.data.inputs import packed_inputs
from maggnn.data.synthetic.expressivity import shrikhande_rook
from maggnn.graphs.canonical_order import canonical_rows, reordered
from maggnn.graphs.conversions import to_graph6
from maggnn.training.run import train

SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "C1CCCCC1", "OCCO", "CC(C)O", "NCCO"]
OXYGENS = [smiles.count("O") for smiles in SMILES]
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
DEMO = "demo_shrikhande_rook"
FEW = ["training.predictor_steps=5", "training.agent_steps=5", "training.starts_per_graph=4"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of small models: numbers, two numbers and words from SMILES, words from graphs, and a run."""
    folder = tmp_path_factory.mktemp("models")
    two = [[count, 100 - count] for count in OXYGENS]
    words = ["<with> & co" if count else "without" for count in OXYGENS]
    rings = [make(size) for size in range(4, 8) for make in (nx.cycle_graph, nx.path_graph)]
    estimators = {
        "numbers": MagRegressor(steps=2, num_moves=3).fit(SMILES, OXYGENS),
        "two": MagRegressor(steps=2, num_tuples=2, num_moves=2).fit(SMILES, two),
        "words": MagClassifier(steps=2).fit(SMILES, words),
        "rings": MagClassifier(steps=2).fit(rings, ["ring", "chain"] * 4),
    }
    for name, estimator in estimators.items():
        estimator.fitted_.save(folder / name)
    train(configs.load(DEMO).with_settings(FEW), folder / "run", quiet=True)
    return folder


CASES = {
    "numbers": (ASPIRIN, []),
    "two": (ASPIRIN, ["4", "96.5"]),
    "words": ("Nc1ccccc1", ["without"]),
    "rings": (to_graph6(packed_inputs([nx.lollipop_graph(5, 3)])[0])[0], []),
    "run": ("1", []),
}


@pytest.fixture(scope="module")
def explanations(models):
    return {
        name: explain_subject(read_subject(models / name, graph, target), seed=2)
        for name, (graph, target) in CASES.items()
    }


@pytest.mark.parametrize("name", CASES)
def test_the_numbers(explanations, models, name):
    found = explanations[name]
    steps = found.agent.steps
    assert len(found.random) == RANDOM_WALKS and all(len(walk.steps) == len(steps) for walk in found.random)
    assert all(walk.steps[0] == steps[0] for walk in found.random)
    assert len({str(walk.steps[-1].tuples) for walk in found.random}) > 1
    assert len(found.graph.positions) == len(steps[0].q_table) and found.answer_step == len(steps) - 1
    has_target = bool(CASES[name][1]) or name == "run"
    assert all((step.score is not None) == has_target for step in steps)
    for step, moves in zip(steps, found.best_moves, strict=True):
        assert len(moves) == BEST_MOVES
        best = max(move.expected for move in moves)
        assert best <= max(gain for node in step.q_table for row in node for gain in row) + 1e-6
        assert all((move.true is not None) == has_target for move in moves)
    for moves, step in zip(found.best_moves, steps[1:], strict=False):
        made = {(move.number, move.slot, move.new) for move in moves if move.made}
        assert made and made <= set(step.moved)
    json.dumps(found.to_json(), allow_nan=False)


def test_the_answer_is_that_of_predict(explanations, models):
    from maggnn.apps.fit.fitted import FittedModel

    asymmetric = "CCC(C)CCO"  # no ties of Q, which are broken at random
    found = explain_subject(read_subject(models / "words", asymmetric))
    expected = FittedModel.load(models / "words").predict(packed_inputs([asymmetric])[0])[0]
    assert found.agent.steps[found.answer_step].answer == pytest.approx(expected.tolist(), rel=1e-4)


def test_names_and_elements(explanations):
    assert explanations["words"].outputs == ["<with> & co", "without"]
    graph = explanations["words"].graph
    names = [graph.node_name(node) for node in range(len(graph.labels))]
    assert "N0" in names and len(set(names)) == len(names)
    assert explanations["two"].outputs == ["y0", "y1"] and explanations["two"].target == [4.0, 96.5]
    assert explanations["run"].graph.labels == [] and explanations["run"].name == "graph 1 of shrikhande_rook"
    assert explanations["run"].target_text().startswith("class ")
    assert any("cycles6" in note for note in explanations["numbers"].notes)
    assert len(explanations["rings"].graph.edges) == nx.lollipop_graph(5, 3).number_of_edges()


def test_a_molecule_is_drawn_alike_in_any_order_of_its_atoms():
    """Names, places and bonds belong to the atoms of the SMILES, whatever order the model reads them in."""
    smiles = "CC(=O)Nc1ccc(O)cc1"
    made = packed_inputs([smiles], features="mol")[0]
    rows = canonical_rows(made)
    other = reordered(made, rows)
    first = depicted(made, Original(made.x, made.edge_attr, "mol", smiles))
    second = depicted(other, Original(other.x, other.edge_attr, "mol", smiles, tuple(rows.tolist())))
    assert rows.tolist() != sorted(rows.tolist())

    def described(drawn):
        name = drawn.node_name
        places = {name(node): (place, drawn.labels[node]) for node, place in enumerate(drawn.positions)}
        return places, {(frozenset((name(u), name(v))), order) for u, v, order in drawn.edges}

    assert described(first) == described(second)


@pytest.mark.parametrize("name", CASES)
def test_the_page_needs_nothing_else(explanations, name):
    text = page(explanations[name])
    outside = text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bsrc=|\bhref=|<link|<iframe|fetch\(|XMLHttp", outside, re.I)
    assert text.count("<script>") == 1 and "<with>" not in text
    steps = len(explanations[name].agent.steps)
    assert len(re.findall(r'<div class="step" data-step="\d+"', text)) == 2 * steps
    assert len(re.findall(r'<table class="step" data-step="\d+"', text)) == steps
    assert ("true gain" in text) == bool(explanations[name].target)
    for drawing in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        ElementTree.fromstring(drawing)


@pytest.mark.parametrize("name", CASES)
def test_the_picture(explanations, name):
    found = explanations[name]
    drawing = picture(found)
    root = ElementTree.fromstring(to_svg(drawing, found.name))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert words.count("start") == 2 and "agent" in words
    numbers = [place for shape in drawing.shapes for place in _places(shape)]
    assert all(-1 <= x <= drawing.width + 1 and -1 <= y <= drawing.height + 1 for x, y in numbers)
    texts = [shape for shape in drawing.shapes if isinstance(shape, Words)]
    assert all(left >= 0 and right <= drawing.width for left, right in map(_extent, texts))
    if found.graph.labels:  # each panel has the numbers of all atoms
        own = {str(number) for number in found.graph.numbers or range(len(found.graph.labels))}
        assert own <= {shape.text for shape in texts if shape.size == 9 and not shape.bold}


def _extent(words: Words) -> tuple[float, float]:
    """The left and the right end of a text in DejaVu Sans, the widest of the fonts."""
    font = FontProperties(family="DejaVu Sans", weight="bold" if words.bold else "normal", size=words.size)
    width = TextPath((0, 0), words.text, prop=font).get_extents().width
    left = words.place[0] - {"start": 0.0, "middle": 0.5, "end": 1.0}[words.anchor] * width
    return left, left + width


def _places(shape):
    """Points of a shape that must be on the sheet; what pulls a curve may lie outside."""
    if isinstance(shape, Disc):
        return [shape.centre]
    return [shape.place] if isinstance(shape, Words) else [shape.points[0], shape.points[-1]]


def test_a_notebook_shows_the_picture(explanations):
    explained = explanations["numbers"]
    assert ElementTree.fromstring(explained._repr_svg_()).tag.endswith("svg")
    assert repr(explained).startswith(f"Explanation({ASPIRIN!r}, 3 moves: ") and len(repr(explained)) < 200


def test_a_panel_shows_every_mark_and_every_move(explanations):
    found = explanations["two"]
    step = found.agent.steps[1]
    shapes = panel(found, found.agent, 1, 300).shapes
    marks = sum(len(row) for row in step.tuples)
    assert len([shape for shape in shapes if isinstance(shape, Disc) and shape.width == 2.6]) == marks
    ghosts = [shape for shape in shapes if isinstance(shape, Disc) and shape.dashed]
    before = found.agent.steps[0].tuples
    assert len(ghosts) == sum(before[number][slot] != node for number, slot, node in step.moved)
    assert len([shape for shape in shapes if isinstance(shape, Line) and shape.curve]) <= len(ghosts)


def test_files_and_the_table(models, tmp_path):
    outs = [tmp_path / "deep" / f"it.{ending}" for ending in ("html", "svg", "png")]
    found, facts = explain(models / "run", "0", outs, num_moves=1, seed=4)
    assert facts["out"] == [str(path) for path in outs] and len(facts["agent"]["steps"]) == 2
    assert outs[0].read_text().startswith("<!DOCTYPE html>") and outs[2].read_bytes().startswith(b"\x89PNG")
    ElementTree.parse(outs[1])
    assert sorted(path.name for path in outs[0].parent.iterdir()) == ["it.html", "it.png", "it.svg"]
    rows = table_rows(found)
    assert [row[0] for row in rows] == ["0", "1"] and all(len(row) == len(HEADER) for row in rows)
    assert rows[0][3] == "" and float(rows[1][3]) == pytest.approx(found.best_moves[0][0].expected, abs=5e-3)


def test_a_search_without_moves(models, tmp_path):
    found, _ = explain(models / "numbers", ASPIRIN, [tmp_path / "it.html", tmp_path / "it.png"], num_moves=0)
    assert len(found.agent.steps) == 1 and len(table_rows(found)) == 1


def test_graphs_of_files(models, tmp_path):
    lines = to_graph6(shrikhande_rook())
    (tmp_path / "pair.g6").write_text("\n".join(lines))
    (tmp_path / "one.edges").write_text("a b\nb c\nc d\n")
    told = read_subject(models / "run", f"{tmp_path}/pair.g6:1")
    number = read_subject(models / "run", "1")
    text = read_subject(models / "run", lines[1], ["1"])
    assert torch.equal(told.packed.edge_index, number.packed.edge_index)
    assert torch.equal(text.packed.edge_index, number.packed.edge_index)
    assert told.packed.y is None and number.packed.y.tolist() == [1] == text.packed.y.tolist()
    assert read_subject(models / "rings", f"{tmp_path}/one.edges").packed.num_nodes.tolist() == [4]
    with pytest.raises(InputError, match="has 2 graphs: give the number"):
        read_subject(models / "run", f"{tmp_path}/pair.g6")
    with pytest.raises(InputError, match="has graphs 0 to 1"):
        read_subject(models / "run", f"{tmp_path}/pair.g6:2")


def test_what_training_never_saw_is_said(models):
    assert any("not in the training data" in note for note in read_subject(models / "numbers", "CC[Si]").notes)


def argsort(numbers):
    return sorted(range(len(numbers)), key=numbers.__getitem__)


@pytest.mark.parametrize(
    ("smiles", "letters", "orders"),
    [
        ("BrCCBr", ["Br", "C", "C", "Br"], {1}),
        ("CC#CO", ["C", "C", "C", "O"], {1, 3}),
        ("FC=C", ["F", "C", "C"], {1, 2}),
    ],
)
def test_what_training_never_saw_is_drawn_as_it_is(models, smiles, letters, orders):
    subject = read_subject(models / "numbers", smiles)
    assert any("not in the training data" in note for note in subject.notes)
    found = explain_subject(subject, num_moves=1)
    assert {order for *_, order in found.graph.edges} == orders
    # Nodes are in canonical order, and are called by their numbers in the SMILES.
    assert [found.graph.labels[node] for node in argsort(found.graph.numbers)] == letters
    assert {found.graph.node_name(node) for node in range(len(letters))} == {f"{a}{n}" for n, a in enumerate(letters)}
    words = [shape.text for shape in picture(found).shapes if isinstance(shape, Words)]
    element = next(letter for letter in letters if letter != "C")  # carbons have no letter, a hydroxyl its hydrogen
    assert words.count("OH" if element == "O" else element) == letters.count(element) * 4  # two steps of two walks


def test_scores_of_numbers_have_a_unit(models, explanations):
    known = explain_subject(read_subject(models / "numbers", ASPIRIN, ["4"]))
    unit = "Scores are in units of the target's spread."
    assert unit in known.notes and unit.replace("'", "&#x27;") in page(known)
    assert unit in [shape.text for shape in picture(known).shapes if isinstance(shape, Words)]
    assert "Scores are in units of each target's spread." in explanations["two"].notes
    assert not any("Scores" in note for name in ("numbers", "words", "run") for note in explanations[name].notes)


def test_names_and_notes_of_runs(models):
    from maggnn.model.mag_gnn import MagGNN
    from maggnn.model.saving import load_model

    model, config = load_model(models / "run" / "model.safetensors")
    assert output_names(model, None, None) == (("0", "1"), ("class",))
    assert output_names(model, ("a", "b"), None) == (("a", "b"), ("class",))
    one, two = (MagGNN(outputs, task="regression") for outputs in (1, 2))
    assert output_names(one, None, ()) == ((), ("y",)) and output_names(two, None, None) == ((), ("y0", "y1"))
    assert output_names(one, None, ("mu",)) == ((), ("mu",))
    assert gain_notes(model, config) == ()
    standardised = config.replaced(training={"standardise_rewards": True})
    assert "their spread" in gain_notes(model, standardised)[0]


def test_random_moves_do_not_repeat_the_draws_of_the_start(tmp_path):
    single = [*FEW, "agent.num_tuples=6", "agent.tuple_order=1", "agent.num_moves=1"]
    train(configs.load(DEMO).with_settings(single), tmp_path, quiet=True)
    for seed in range(3):
        found = explain_subject(read_subject(tmp_path, "0"), seed=seed)
        assert all(walk.steps[1].tuples != walk.steps[0].tuples for walk in found.random)


def test_tuples_have_the_colours_of_the_page():
    folder = files("maggnn.apps.show") / "page"
    light, dark = re.findall(r"--tuple-0:.*", (folder / "page.css").read_text())
    assert tuple(re.findall(r"--tuple-\d: (#\w+);", light)) == HUES
    assert len(re.findall(r"--tuple-\d: (#\w+);", dark)) == len(HUES)
    assert f"const COLOURS = {len(HUES)};" in (folder / "picture.js").read_text()


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_are_few_and_enclose(low, reach):
    ticks = nice_ticks(low, low + reach)
    assert 2 <= len(ticks) <= 7 and ticks == sorted(set(ticks))
    slack = 1e-6 * max(1.0, abs(low), reach)
    assert ticks[0] <= low + slack and ticks[-1] >= low + reach - slack


def test_shades_darken():
    def lightness(colour):
        return sum(int(colour[place : place + 2], 16) for place in (1, 3, 5))

    values = [lightness(shade(part / 50)) for part in range(51)]
    assert values == sorted(values, reverse=True) and values[0] > 700 and values[-1] < 200


@given(st.integers(1, 200))
def test_long_searches_show_their_start_and_their_end(count):
    shown = shown_steps(count)
    assert shown[0] == 0 and shown[-1] == count - 1 and len(set(shown)) == min(count, MOST_PANELS)


@pytest.mark.slow
def test_stepping_in_a_browser(models, tmp_path):
    webdriver = pytest.importorskip("selenium.webdriver")
    browser, driver = (shutil.which(name) for name in ("chromium", "chromedriver"))
    if not browser or not driver:
        pytest.skip("no chromium with its driver")
    explain(models / "numbers", ASPIRIN, [tmp_path / "it.html"])
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    page_shown = webdriver.Chrome(options, webdriver.ChromeService(driver))
    try:
        page_shown.get((tmp_path / "it.html").as_uri())
        assert page_shown.get_log("browser") == []
        for clicks, step in (("", "0"), ("next next", "2"), ("back", "1"), ("back back", "0"), ("next " * 9, "3")):
            for name in clicks.split():
                page_shown.find_element("id", name).click()
            parts = page_shown.find_elements("class name", "step")
            shown = [part.get_attribute("data-step") for part in parts if part.is_displayed()]
            assert shown == [step] * 3  # both walks and the table
        assert page_shown.find_element("id", "shown").text == "after 3 moves"
    finally:
        page_shown.quit()
