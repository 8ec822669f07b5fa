"""Every control of the page, clicked in Chromium, and what changes by it."""

import json
import shutil
import statistics
import threading
import time

import pytest

By = pytest.importorskip("selenium.webdriver.common.by", reason="the page is tested with selenium").By
from selenium.common.exceptions import StaleElementReferenceException  # noqa: E402
from selenium.webdriver.common.action_chains import ActionChains  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

SLOWEST_FRAME_MS = 33
SLOWEST_ANSWER_S = 0.3


class Page:
    """What a reader does and sees."""

    def __init__(self, driver, address):
        self.driver = driver
        driver.get(address)
        self.until(lambda: self.text("stage"))

    def __call__(self, name):
        return self.driver.find_element(By.ID, name)

    def until(self, holds, seconds=10):
        waiting = WebDriverWait(self.driver, seconds, 0.03, [StaleElementReferenceException])  # it was just redrawn
        return waiting.until(lambda _: holds())

    def text(self, name):
        return self(name).text

    def click(self, name):
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", self(name))
        self(name).click()

    def choose(self, name, value):
        self.until(lambda: Select(self(name)).select_by_value(value) is None)

    def open(self, run):
        self.choose("run", run)
        self.click("view-graphs")
        self.until(lambda: self.text("about"))
        return self

    def start(self, run):
        self.open(run)
        self.until(lambda: self.step() == (0, 0) and self.marks())
        return self

    def step(self):
        words = self.text("position").split()
        return (int(words[1]), int(words[3])) if words else None

    def marks(self, picture="picture"):
        """The node of each mark, by tuple and slot."""
        script = """return Object.fromEntries([...document.querySelectorAll(`#${arguments[0]} .mark`)]
            .map((mark) => [mark.dataset.mark, Number(mark.dataset.at)]))"""
        return self.driver.execute_script(script, picture)

    def prediction(self):
        return self.text("prediction-card")

    def fills(self):
        return self.driver.execute_script(
            "return [...document.querySelectorAll('#picture .node')].map((n) => n.style.fill)"
        )

    def points(self, metric):
        cards = self.driver.find_elements(By.CSS_SELECTOR, f"[data-metric='{metric}'][data-points]")
        return int(cards[0].get_attribute("data-points")) if cards else 0

    def click_node(self, node):
        ActionChains(self.driver).move_to_element(
            self.driver.find_element(By.CSS_SELECTOR, f"#picture .node[data-node='{node}']")
        ).click().perform()

    def walked(self, action, steps):
        """Do something that leads to a step, and wait for it."""
        action()
        self.until(lambda: self.step() == steps)

    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture
def page(browser, address):
    page = Page(browser, address)
    page.errors()
    yield page
    # An answer that says what is wrong is also noted by the browser; nothing else may go wrong.
    assert [error for error in page.errors() if "status of 4" not in error] == []


def test_training_curves_and_their_choice(page):
    page.choose("run", "marks")
    page.until(lambda: page.points("agent/reward") == 4)
    assert page.points("predictor/loss") == 4 and page.points("agent/epsilon") == 4
    assert "of 8, agent" in page.text("log-note") and page.text("stage") == "finished"
    assert page.until(lambda: page.points("moves")) == 3  # after 0, 1 and 2 moves
    assert "Accuracy against moves" in page.text("curves")
    page.choose("metric", "agent/reward")
    page.until(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".curve")) == 1)
    chart = page.driver.find_element(By.CSS_SELECTOR, ".curve svg")
    before = page.text("curves")
    ActionChains(page.driver).move_to_element_with_offset(chart, -chart.size["width"] // 3, 0).perform()
    page.until(lambda: page.text("curves") != before)  # the value under the pointer
    page.choose("metric", "")
    page.until(lambda: len(page.driver.find_elements(By.CSS_SELECTOR, ".curve")) > 4)


def test_a_log_that_is_being_written_pause_and_resume(page, runs):
    log = runs / "growing" / "metrics.jsonl"
    log.parent.mkdir()
    with log.open("w") as file:

        def write(text):
            file.write(text)
            file.flush()

        def line(step, value):
            return json.dumps({"phase": 0, "step": step, "predictor/loss": value}) + "\n"

        write(line(0, 2.0) + line(1, float("nan")) + line(2, 1.5)[:-8])
        page.until(lambda: "growing (training)" in page.text("run"))  # found without a reload
        page.choose("run", "growing")
        page.until(lambda: page.points("predictor/loss") == 2)
        assert page.driver.find_elements(By.CSS_SELECTOR, ".not-number") and page.text("stage") == "training"
        write(line(2, 1.5)[-8:] + "what is this?\n" + line(3, 1.25))
        page.until(lambda: page.points("predictor/loss") == 4)
        assert "1.25 at step 4" in page.text("curves") and "1 line cannot be read" in page.text("log-note")
        page.click("pause")
        assert page.text("pause") == "Resume updates"
        write(line(4, 1.0))
        time.sleep(1.3)  # longer than it is from look to look
        assert page.points("predictor/loss") == 4
        page.click("pause")
        page.until(lambda: page.points("predictor/loss") == 5)
        page.click("view-graphs")
        assert "no model yet" in page.text("no-graphs")
    shutil.rmtree(log.parent)
    page.until(lambda: Select(page("run")).first_selected_option.text == "large")  # a run that is gone


def test_a_training_seen_from_its_first_line_to_its_model(page, runs, small_runs):
    training = threading.Thread(target=small_runs.trained, args=(runs / "live", small_runs.tiny_config(steps=40)))
    training.start()
    page.until(lambda: "live" in page.text("run"))
    page.choose("run", "live")
    page.until(lambda: page.points("predictor/loss") > 0)
    training.join()
    page.until(lambda: page.points("predictor/loss") == 20 and page.points("agent/reward") == 20)
    page.until(lambda: page.text("stage") == "finished")
    page.click("view-graphs")
    page.until(lambda: page.marks() and page.step() == (0, 0))


def test_marks_by_hand_and_by_the_agent(page):
    page.start("marks")
    before, marks = page.prediction(), page.marks()
    assert set(marks) == {"0.0", "0.1", "1.0", "1.1"}
    target = (marks["0.0"] + 5) % 16
    page.walked(lambda: page.click_node(target), (1, 1))
    assert page.marks() == {**marks, "0.0": target} and page.prediction() != before
    assert f"You moved mark 1 of tuple 1 to node {target}" in page.text("what-moved")
    for kind in ("tuple", "slot"):
        page.driver.find_element(By.CSS_SELECTOR, f"input[name={kind}][value='1']").click()
    assert "mark 2 of tuple 2" in page.text("legend")
    page.walked(lambda: page.click_node(7), (2, 2))
    assert page.marks()["1.1"] == 7
    placed, marks = page.prediction(), page.marks()
    page.walked(lambda: page.click("agent"), (3, 3))
    assert page.marks() != marks and page.prediction() != placed and "The agent moved" in page.text("what-moved")
    page.walked(lambda: page.click("back"), (2, 3))
    assert page.marks() == marks and page.text("answer") in placed
    page.walked(lambda: page.click("forward"), (3, 3))
    page.walked(lambda: page.click("all-moves"), (4, 5))
    assert not page.driver.find_elements(By.CSS_SELECTOR, "#forward[disabled]")
    page.driver.find_elements(By.CSS_SELECTOR, "#course .stop")[0].click()
    page.until(lambda: page.step() == (0, 5))
    assert page.driver.find_elements(By.CSS_SELECTOR, "#back[disabled]")
    page.walked(lambda: page.click_node(3), (1, 1))  # what came after no longer counts
    page.walked(lambda: page.click("restart"), (0, 0))
    start = page.marks()
    page.click("random")
    page.until(lambda: page.marks() != start and page.step() == (0, 0))
    page("node").clear()
    page("node").send_keys("9")
    page.walked(lambda: page.click("place"), (1, 1))
    assert page.marks()["1.1"] == 9


def test_an_agent_in_turn_moves_the_next_tuple(page):
    page.start("marks")
    page.walked(lambda: page.click("agent"), (1, 1))
    assert "of tuple 1" in page.text("what-moved")
    page.walked(lambda: page.click("agent"), (2, 2))
    assert "of tuple 2" in page.text("what-moved")


def test_colours_graphs_and_random_moves_beside(page):
    page.start("marks")
    assert len(set(page.fills())) > 1 and page("legend").is_displayed()
    page.click("q-colours")
    page.until(lambda: set(page.fills()) == {""})
    assert not page("legend").is_displayed()
    page.click("q-colours")
    page.until(lambda: len(set(page.fills())) > 1)
    page.click("beside")
    page.until(lambda: page.marks("beside-picture") == page.marks())
    page.click("all-moves")
    page.until(lambda: page.step() == (1, 2) and page.marks("beside-picture") != page.marks())
    assert "score" in page.text("beside-answer")
    page.until(lambda: page.driver.find_elements(By.CSS_SELECTOR, "#course .random"))
    page.click("beside")
    page.until(lambda: not page("beside-figure").is_displayed())
    page.click("next-graph")
    page.until(lambda: "2 of 2, 16 nodes, 48 edges" in page.text("graph-note") and page.step() == (0, 0))
    assert "rook 4x4" in page.text("truth")
    page.click("previous-graph")
    page.until(lambda: "1 of 2" in page.text("graph-note"))
    page.choose("graph", "1")
    page.until(lambda: "2 of 2" in page.text("graph-note"))


def test_the_keyboard(page):
    page.start("marks")
    body = page.driver.find_element(By.TAG_NAME, "body")
    page.driver.execute_script("document.activeElement.blur()")
    page.walked(lambda: body.send_keys("a"), (1, 1))
    page.walked(lambda: body.send_keys(Keys.ARROW_LEFT), (0, 1))
    page.walked(lambda: body.send_keys(Keys.ARROW_RIGHT), (1, 1))
    page.walked(lambda: body.send_keys(Keys.HOME), (0, 1))
    page.walked(lambda: body.send_keys(Keys.END), (1, 1))
    body.send_keys("n")
    page.until(lambda: "2 of 2" in page.text("graph-note"))
    body.send_keys("p")
    page.until(lambda: "1 of 2" in page.text("graph-note"))
    unnamed = page.driver.execute_script("""
        return [...document.querySelectorAll('button, input, select, svg[role=img]')]
          .filter((element) => element.checkVisibility() && !element.textContent.trim())
          .filter((element) => !element.getAttribute('aria-label') && !element.labels?.length)
          .map((element) => element.outerHTML)""")
    assert unnamed == []


def test_molecules_of_ones_own(page):
    page.open("mine")
    page.until(lambda: "Type a SMILES" in page.text("no-graphs"))
    for number, smiles in enumerate(("CCO", "c1ccccc1O"), start=1):
        page("smiles").send_keys(smiles)
        page.click("add-molecule")
        page.until(lambda at=number: f"{at} of {at}" in page.text("graph-note"))
    assert "7 atoms, 7 bonds" in page.text("graph-note") and "oxygens:" in page.text("answer")
    assert page.driver.find_element(By.CSS_SELECTOR, "#picture text").text == "OH"
    numbers = page.driver.find_elements(By.CSS_SELECTOR, "#picture .atom-number")
    assert sorted(number.text for number in numbers) == [str(number) for number in range(7)]  # as in the SMILES
    assert "cycles6" in page.text("notes") and "units of that task" in page.text("notes")
    page("smiles").send_keys("C(")
    page.click("add-molecule")
    page.until(lambda: "not a SMILES string" in page.text("error"))
    assert "\n" not in page.text("error") and "2 of 2" in page.text("graph-note")
    before = page.text("answer")
    page.walked(lambda: page.click_node(2), (1, 1))
    assert page.text("answer") != before and not page("error").is_displayed()


SHOWN = """
const [names, task, unit, step, target, done] = arguments;
import("/answers.js").then(({ showAnswer }) => {
  showAnswer(step, null, { target }, { names, task, score_unit: unit });
  done([document.getElementById("answer").textContent, document.getElementById("truth").textContent]);
});
"""


def test_the_words_of_a_score(page, address):
    import httpx

    facts = {run: httpx.get(f"{address}api/gallery", params={"run": run}).json() for run in ("mine", "large")}
    step = {"answer": [2.5], "score": -0.25}
    said = [facts["mine"][name] for name in ("names", "task", "score_unit")]
    assert page.driver.execute_async_script(SHOWN, *said, step, [2]) == [
        "oxygens: 2.5", "True: 2. Score −0.25 in units of the target's spread; 0 is best."
    ]  # fmt: skip
    step = {"answer": [0.75, 0.25], "score": -1.5}
    said = [facts["large"][name] for name in ("names", "task", "score_unit")]
    answer, truth = page.driver.execute_async_script(SHOWN, *said, step, [1])
    assert (answer, truth) == ("class 0, 75.0%", "True: class 1. Score −1.5; 0 is best.")


FRAMES = """
const [action, done] = arguments, frames = [], svg = document.getElementById("picture");
const box = svg.getBoundingClientRect(), at = [box.left + box.width / 2, box.top + box.height / 2];
const pointer = (kind, shift) => svg.dispatchEvent(new PointerEvent(kind, {
  bubbles: true, button: 0, clientX: at[0] + shift, clientY: at[1] + shift / 2 }));
if (action === "drag") pointer("pointerdown", 0);
let before = performance.now(), count = 0;
requestAnimationFrame(function frame(now) {
  frames.push(performance.now() - before);
  before = performance.now();
  count += 1;
  if (action === "drag") pointer("pointermove", 6 + 150 * Math.sin(count / 8));
  if (action === "wheel") svg.dispatchEvent(new WheelEvent("wheel", {
    deltaY: 40 * Math.sin(count / 6), clientX: at[0], clientY: at[1], cancelable: true }));
  if (action === "step" && count % 6 === 0) document.getElementById(count % 12 ? "back" : "forward").click();
  if (count < 45) return requestAnimationFrame(frame);
  if (action === "drag") pointer("pointercancel", 0);
  done(frames.slice(1));
});
"""


def test_a_graph_of_300_nodes_moves_smoothly(page):
    page.start("large")
    assert "300 nodes" in page.text("graph-note")
    page.walked(lambda: page.click("agent"), (1, 1))
    view = page.driver.find_element(By.CSS_SELECTOR, "#picture > g")
    for action in ("drag", "wheel", "step"):
        before = view.get_attribute("transform")
        frames = page.driver.execute_async_script(FRAMES, action)
        print(f"{action}: a frame takes {statistics.median(frames):.1f} ms")
        assert statistics.median(frames) < SLOWEST_FRAME_MS, (action, sorted(frames)[-5:])
        if action == "drag":
            assert view.get_attribute("transform") != before
    for name, wanted in (("fit", "translate(0 0) scale(1)"), ("zoom-in", "scale(1.4)"), ("zoom-out", "scale(1)")):
        page.click(name)
        page.until(lambda words=wanted: words in view.get_attribute("transform"))
    seconds = page.driver.execute_async_script("""
        const done = arguments[0], seconds = [];
        const headers = { "content-type": "application/json" };
        const body = JSON.stringify({ run: "large", graph: 0, tuples: [[3, 150]] });
        const ask = () => fetch("/api/walk", { method: "POST", headers, body }).then((reply) => reply.json());
        (async () => {
          for (let turn = 0; turn < 9; turn++) {
            const began = performance.now();
            await ask();
            seconds.push((performance.now() - began) / 1000);
          }
          done(seconds);
        })();""")
    print(f"a move: {1000 * statistics.median(seconds):.0f} ms")
    assert statistics.median(seconds) < SLOWEST_ANSWER_S


def test_nothing_comes_from_elsewhere(page, address):
    page.start("marks")
    loaded = page.driver.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert loaded and all(name.startswith((address, "data:")) for name in loaded)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_in_light_and_dark(page, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    page.start("marks")
    contrasts = page.driver.execute_script("""
        const light = (colour) => {
          const [r, g, b] = colour.match(/[\\d.]+/g).map((c) => c / 255)
            .map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
          return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const ground = (element) => { for (; element; element = element.parentElement) {
          const colour = getComputedStyle(element).backgroundColor;
          if (!colour.startsWith("rgba(0, 0, 0, 0")) return colour; } return "rgb(255, 255, 255)"; };
        return [...document.querySelectorAll("h1, h2, p, label, button, span, li span, legend, select")]
          .filter((element) => element.checkVisibility() && element.textContent.trim() && !element.closest(":disabled"))
          .map((element) => { const [a, b] = [light(getComputedStyle(element).color), light(ground(element))];
            return [(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), element.textContent.trim().slice(0, 30)]; });""")
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(contrasts) > 25 and min(contrasts)[0] >= 4.5, sorted(contrasts)[:3]
