"""The recorded player answers as the server does, in one file that a browser opens from a folder."""

import json
from pathlib import Path

import pytest

By = pytest.importorskip("selenium.webdriver.common.by", reason="the player is tested with selenium").By
from selenium.webdriver.support.ui import Select, WebDriverWait  # noqa: E402

from maggnn.apps.show.gallery import open_gallery  # noqa: E402
from maggnn.apps.show.runs import Run  # noqa: E402
from maggnn.errors import InputError  # noqa: E402
from maggnn_paper.site.player import player_page, record_run, to_json  # noqa: E402

RECORDED = Path(__file__).resolve().parents[2] / "docs" / "player" / "recorded.json"


def test_recorded_states_are_the_servers(tmp_path, small_runs):
    run = Run("small", small_runs.trained(tmp_path / "small", small_runs.tiny_config("csl8")))
    recorded = json.loads(to_json(record_run(run, None)))
    gallery = open_gallery(run, None, [])
    graph = recorded["graphs"][1]
    assert len(graph["states"]) == 8 * 8 and len(recorded["lines"]) == 6
    for tuples in ([[3, 6]], [[5, 5]]):
        state, step = graph["states"][8 * tuples[0][0] + tuples[0][1]], gallery.place(1, tuples)
        assert state["answer"] == pytest.approx(step.answer, rel=1e-3)
        assert state["gains"][2 * 7 + 1] == pytest.approx(step.q_table[7][0][1], rel=1e-3, abs=1e-6)
        assert [state["move"]] == [list(move[1:]) for move in gallery.walk(1, tuples, 1, "agent", 0)[0].moved]
    with pytest.raises(InputError, match="one tuple of two marks"):
        record_run(Run("two", small_runs.trained(tmp_path / "two", small_runs.tiny_config(num_tuples=2))), None)


@pytest.fixture
def player(browser, tmp_path):
    path = tmp_path / "index.html"
    path.write_text(player_page(RECORDED.read_text(encoding="utf-8")), encoding="utf-8")
    browser.get_log("browser")
    browser.get(path.as_uri())
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def marks(driver) -> list[int]:
    return [int(mark.get_attribute("data-at")) for mark in driver.find_elements(By.CSS_SELECTOR, "#picture .mark")]


def test_the_player_plays_from_a_folder(player):
    wait = WebDriverWait(player, 10)
    step = lambda: player.find_element(By.ID, "position").text  # noqa: E731
    wait.until(lambda _: step() == "step 0 of 0")
    assert player.find_element(By.ID, "graphs").is_displayed()
    start = marks(player)
    player.find_element(By.ID, "agent").click()
    wait.until(lambda _: step() == "step 1 of 1")
    assert marks(player) != start and "The agent moved" in player.find_element(By.ID, "what-moved").text
    player.execute_script("document.getElementById('beside').click()")
    player.execute_script("document.getElementById('all-moves').click()")
    wait.until(lambda _: step() == "step 2 of 3")
    player.execute_script("document.getElementById('random').click()")
    wait.until(lambda _: step() == "step 0 of 0")
    player.find_element(By.ID, "view-training").click()
    wait.until(lambda _: player.find_elements(By.CSS_SELECTOR, "[data-metric=moves][data-points]"))
    player.find_element(By.ID, "view-graphs").click()
    Select(player.find_element(By.ID, "run")).select_by_index(1)
    wait.until(lambda _: "logP" in player.find_element(By.ID, "answer").text)
    assert not player.find_element(By.ID, "add").is_displayed()
    loaded = player.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
