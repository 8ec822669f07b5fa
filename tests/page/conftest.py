"""A served folder of small runs and one Chromium for all tests of the page."""

import shutil
import threading
import time
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium without a window; tests are left out where it is not installed."""
    pytest.importorskip("selenium", reason="the page is tested with selenium, which is not installed")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("no chromium and chromedriver: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(chromedriver))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def runs(browser, tmp_path_factory, small_runs) -> Path:
    """`large`: graphs of 300 nodes; `marks`: two tuples on a strongly regular pair; `mine` and `narrow`: molecules."""
    folder = tmp_path_factory.mktemp("runs")
    data = small_runs.large_graphs(tmp_path_factory.mktemp("data") / "large.npz")
    small_runs.trained(folder / "large", small_runs.tiny_config(str(data), steps=2))
    small_runs.trained(folder / "marks", small_runs.tiny_config(steps=8, num_tuples=2, actions="in_turn"))
    small_runs.fitted(folder / "mine", small_runs.table(tmp_path_factory.mktemp("table")))
    shutil.copytree(folder / "mine", folder / "narrow")  # what is typed into a gallery stays there
    return folder


@pytest.fixture(scope="session")
def address(runs):
    """The real server, in a thread."""
    import uvicorn

    from maggnn.apps.show.server import listening, make_app

    with listening("127.0.0.1", 0) as listener:
        server = uvicorn.Server(uvicorn.Config(make_app(runs), log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started:
            time.sleep(0.02)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        server.should_exit = True
        thread.join()
