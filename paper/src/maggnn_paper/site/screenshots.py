"""Screenshots of the documentation: the page of `maggnn show` in Chromium, on a wide screen and on a phone.

Selenium drives Debian's Chromium (`apt-get install chromium chromium-driver`); both belong to the tools of developers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from maggnn.errors import InputError
from maggnn_paper.site.player import record_player

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

WIDE, PHONE = (1280, 940), (390, 844)
SHOTS = (
    ("show-training", WIDE, "light", "pair"),
    ("show-graph", WIDE, "light", "pair"),
    ("show-graph-dark", WIDE, "dark", "pair"),
    ("show-molecule", WIDE, "light", "molecules"),
    ("show-card", WIDE, "light", "molecules"),
    ("show-phone", PHONE, "light", "pair"),
)
"""Name of the picture, size of the window, colour scheme and run."""

WAIT_S = 60


def take_screenshots(folder: Path, out: Path) -> list[Path]:
    """Serve the two models of the player and take all pictures.

    Args:
        folder: Where the models are; they are trained where they are missing.
        out: The folder of the pictures.

    Returns:
        The pictures that were written.
    """
    record_player(folder)
    with serving(folder) as address:
        return [_take(address, out, *shot) for shot in SHOTS]


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Run `maggnn show` in a process of its own.

    Args:
        folder: The runs, with the molecules to show in `shown.csv`.

    Yields:
        The address of the page.
    """
    program = "from maggnn.apps.cli import main; main()"
    molecules = ["--molecules", str(folder / "shown.csv")]
    command = [sys.executable, "-c", program, "show", str(folder), "--port", "0", *molecules]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[0]
    finally:
        server.terminate()
        server.wait()


@contextmanager
def chromium(size: tuple[int, int], scheme: str = "light") -> Iterator[Chrome]:
    """A Chromium without a window whose page has exactly this size.

    Args:
        size: Width and height of the page in CSS pixels.
        scheme: "light" or "dark".

    Yields:
        The driver of selenium.
    """
    if find_spec("selenium") is None:
        raise InputError("screenshots need selenium, which is not installed: pip install selenium")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        raise InputError("no chromium and chromedriver: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    if size[0] > PHONE[0]:  # without a window Chromium takes every screen for a touch screen
        kinds = ("primaryHoverType=2", "availableHoverTypes=2", "primaryPointerType=4", "availablePointerTypes=4")
        options.add_argument(f"--blink-settings={','.join(kinds)}")
    chrome = webdriver.Chrome(options, Service(driver))
    try:
        resize(chrome, size, scheme)
        yield chrome
    finally:
        chrome.quit()


def resize(chrome: Chrome, size: tuple[int, int], scheme: str) -> None:
    """Emulate a screen: windows of Chromium cannot be as narrow as a phone.

    Args:
        chrome: The driver.
        size: Width and height of the page in CSS pixels.
        scheme: "light" or "dark".
    """
    metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600}
    chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    preference = {"name": "prefers-color-scheme", "value": scheme}
    chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [preference]})


def _take(address: str, out: Path, name: str, size: tuple[int, int], scheme: str, run: str) -> Path:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    with chromium(size, scheme) as chrome:
        wait = WebDriverWait(chrome, WAIT_S)
        chrome.get(address)
        wait.until(lambda found: found.find_element(By.ID, "stage").text)
        Select(chrome.find_element(By.ID, "run")).select_by_value(run)
        if name == "show-training":
            wait.until(lambda found: found.find_elements(By.CSS_SELECTOR, "[data-metric=moves][data-points]"))
        elif name == "show-card":
            wait.until(lambda found: found.find_element(By.ID, "view-card").is_displayed())
            chrome.find_element(By.ID, "view-card").click()
            wait.until(lambda found: found.find_element(By.ID, "card-text").text)
            time.sleep(1.0)
        else:
            chrome.find_element(By.ID, "view-graphs").click()
            wait.until(lambda found: found.find_element(By.ID, "position").text.startswith("step 0"))
            if run == "pair":
                _from_an_uninformative_start(chrome)
            chrome.find_element(By.ID, "agent").click()
            time.sleep(1.5)
        chrome.execute_script("scrollTo(0, 0); document.activeElement.blur()")
        path = out / f"{name}.png"
        chrome.save_screenshot(str(path))
        return path


def _from_an_uninformative_start(chrome: Chrome) -> None:
    """Draw marks until some leave the agent something to improve."""
    from selenium.webdriver.common.by import By

    for _ in range(60):
        chrome.execute_script("document.getElementById('random').click()")
        time.sleep(0.3)
        words = chrome.find_element(By.ID, "truth").text.replace("−", "-")
        if float(words.partition("Score ")[2].split()[0].rstrip(";")) < -0.3:
            return
