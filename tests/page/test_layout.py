"""The page on a wide screen and on a phone, light and dark: nothing is cut off, and every control can be used."""

import pytest

By = pytest.importorskip("selenium.webdriver.common.by", reason="the page is tested with selenium").By
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

from maggnn_paper.site.screenshots import PHONE, WIDE, chromium, resize  # noqa: E402

CUT_OFF = """
const wide = document.documentElement.clientWidth, shown = (element) => element.checkVisibility();
const outside = [...document.body.querySelectorAll("*")].filter(shown).filter((element) => !element.closest("svg *"))
  .filter((element) => { const box = element.getBoundingClientRect(); return box.right > wide + 1 || box.left < -1; })
  .map((element) => element.outerHTML.slice(0, 90));
const clipped = [...document.querySelectorAll("button, h2, p, label, legend, #answer, .chip, .name")].filter(shown)
  .filter((element) => element.scrollWidth > element.clientWidth + 1 && getComputedStyle(element).display !== "inline")
  .map((element) => element.outerHTML.slice(0, 90));
return { scrolls: document.documentElement.scrollWidth - wide, outside, clipped };
"""

UNREACHABLE = """
const shown = [...document.querySelectorAll("button, select, input")].filter((element) => element.checkVisibility());
return shown.filter((element) => {
  element.scrollIntoView({ block: "center" });
  const box = element.getBoundingClientRect(), at = [box.left + box.width / 2, box.top + box.height / 2];
  const top = document.elementFromPoint(...at);
  return !(top && (top === element || element.contains(top) || top.closest("label")?.contains(element)));
}).map((element) => element.outerHTML.slice(0, 90));
"""

SMALL = """
const controls = "button, select, input[type=number], #smiles, label:has([type=radio], [type=checkbox])";
return [...document.querySelectorAll(controls)]
  .filter((element) => element.checkVisibility() && element.getBoundingClientRect().height < 36)
  .map((element) => element.outerHTML.slice(0, 90));
"""


@pytest.fixture(params=[(WIDE, "light"), (WIDE, "dark"), (PHONE, "light"), (PHONE, "dark")], ids=str)
def screen(request, browser, address):
    """A page of this size and scheme; the browser is shared, so it is put back afterwards."""
    resize(browser, *request.param)
    browser.get(address)
    wait = WebDriverWait(browser, 20)
    wait.until(lambda found: found.find_element(By.ID, "stage").text)
    yield browser, wait, request.param[0]
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def assert_whole(driver, size, where):
    found = driver.execute_script(CUT_OFF)
    assert found == {"scrolls": 0, "outside": [], "clipped": []}, where
    assert driver.execute_script(UNREACHABLE) == [], where
    if size == PHONE:
        assert driver.execute_script(SMALL) == [], where
    driver.execute_script("scrollTo(0, 0)")


def choose(driver, wait, run, view):
    Select(driver.find_element(By.ID, "run")).select_by_value(run)
    wait.until(lambda found: found.find_element(By.ID, "about").text)
    driver.find_element(By.ID, f"view-{view}").click()


def test_training_curves(screen):
    driver, wait, size = screen
    choose(driver, wait, "marks", "training")
    wait.until(lambda found: found.find_elements(By.CSS_SELECTOR, "[data-metric=moves][data-points]"))
    assert_whole(driver, size, "all curves")
    Select(driver.find_element(By.ID, "metric")).select_by_value("agent/reward")
    assert_whole(driver, size, "one curve")


def test_a_graph_before_and_after_a_move(screen):
    driver, wait, size = screen
    choose(driver, wait, "marks", "graphs")
    position = lambda: driver.find_element(By.ID, "position").text  # noqa: E731
    wait.until(lambda _: position() == "step 0 of 0")
    assert "let the agent move, or place a mark" in driver.find_element(By.ID, "what-moved").text
    assert_whole(driver, size, "the start")
    driver.execute_script("document.getElementById('beside').click(); document.getElementById('agent').click()")
    wait.until(lambda _: position() == "step 1 of 1")
    said = driver.find_element(By.ID, "what-moved").text
    assert "Expected gain" in said and "actual" in said
    assert_whole(driver, size, "after a move")
    picture = driver.find_element(By.ID, "picture").rect
    below = driver.find_element(By.ID, "beside-picture").rect
    assert (picture["x"] == below["x"]) == (size == PHONE)  # one below the other on a phone


def test_molecules(screen):
    driver, wait, size = screen
    choose(driver, wait, "narrow", "graphs")
    wait.until(lambda found: found.find_element(By.ID, "add").is_displayed())
    assert_whole(driver, size, "no molecule yet")
    driver.find_element(By.ID, "smiles").send_keys("CC(=O)Oc1ccccc1C(=O)O")
    driver.execute_script("document.getElementById('add-molecule').click()")
    wait.until(lambda found: "atoms" in found.find_element(By.ID, "graph-note").text)
    assert_whole(driver, size, "a molecule")
    driver.find_element(By.ID, "smiles").send_keys("C(" * 60)
    driver.execute_script("document.getElementById('add-molecule').click()")
    wait.until(lambda found: found.find_element(By.ID, "error").text)
    assert_whole(driver, size, "an error")


def test_the_model_card(screen, runs):
    driver, wait, size = screen
    lines = ["# Oxygens of molecules", "", "- Table: `a_long_name_" + "x" * 60 + ".csv`, 24 rows", "", "## Test", ""]
    lines += [
        "| method | mean absolute error (95 % interval) |",
        "|---|---|",
        "| this model &lt;b&gt; | 0.5 (0.4 to 0.6) |",
    ]
    (runs / "narrow" / "README.md").write_text("\n".join([*lines, "", "![the test](test.png)", ""]))
    Select(driver.find_element(By.ID, "run")).select_by_value("narrow")
    wait.until(lambda found: found.find_element(By.ID, "view-card").is_displayed())
    driver.find_element(By.ID, "view-card").click()
    wait.until(lambda found: "Oxygens of molecules" in found.find_element(By.ID, "card-text").text)
    assert driver.find_element(By.CSS_SELECTOR, "#card-text td").text == "this model <b>"
    assert_whole(driver, size, "the card")
    (runs / "narrow" / "README.md").unlink()


@pytest.mark.parametrize(("size", "touch"), [(WIDE, False), (PHONE, True)], ids=["pointer", "touch"])
def test_hints_fit_the_device(runs, address, size, touch):
    with chromium(size) as driver:
        driver.get(address)
        wait = WebDriverWait(driver, 20)
        wait.until(lambda found: found.find_element(By.ID, "stage").text)
        choose(driver, wait, "marks", "graphs")
        wait.until(lambda found: found.find_element(By.ID, "position").text)
        words = driver.find_element(By.ID, "marks-card").text + driver.find_element(By.CLASS_NAME, "keys").text
        assert ("Tap a node" in words) == touch and ("Keys:" in words) != touch
