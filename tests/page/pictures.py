"""Take the pictures of docs/: `python tests/page/pictures.py RUNS --training NAME --graph NAME`, of runs in RUNS."""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "pictures"


def browser(dark: bool = False, size: str = "1360,1260") -> webdriver.Chrome:
    """A Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--window-size={size}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, Service(shutil.which("chromedriver")))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    return driver


def training(driver: webdriver.Chrome, run: str) -> None:
    Select(driver.find_element(By.ID, "run")).select_by_value(run)
    driver.find_element(By.ID, "view-training").click()
    WebDriverWait(driver, 60).until(
        lambda found: found.find_elements(By.CSS_SELECTOR, "[data-metric=moves][data-points]")
    )


def graph(driver: webdriver.Chrome, run: str) -> None:
    """The agent's first move on a graph, a random move beside it."""
    driver.set_window_size(1360, 980)
    Select(driver.find_element(By.ID, "run")).select_by_value(run)
    driver.find_element(By.ID, "view-graphs").click()
    wait = WebDriverWait(driver, 60)
    wait.until(lambda found: found.find_element(By.ID, "position").text.startswith("step 0"))
    for _ in range(40):  # a start that leaves something to improve
        driver.find_element(By.ID, "random").click()
        time.sleep(0.3)
        if score(driver) < -0.3:
            break
    for control in ("beside", "all-moves"):
        driver.find_element(By.ID, control).click()
        time.sleep(1.5)


def score(driver: webdriver.Chrome) -> float:
    words = driver.find_element(By.ID, "truth").text.replace("−", "-")
    return float(words.partition("Score ")[2].split()[0].rstrip(";"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--training", required=True)
    parser.add_argument("--graph", required=True)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--out", type=Path, default=PICTURES)
    chosen = parser.parse_args()
    command = [
        sys.executable,
        "-c",
        "from maggnn.apps.cli import main; main()",
        "show",
        str(chosen.runs),
        "--port",
        "0",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert server.stdout is not None
    try:
        address = server.stdout.readline().split()[0]
        driver = browser(chosen.dark)
        try:
            driver.get(address)
            WebDriverWait(driver, 30).until(lambda found: found.find_element(By.ID, "stage").text)
            for name, show in (("training", training), ("graph", graph)):
                show(driver, getattr(chosen, name))
                driver.save_screenshot(str(chosen.out / f"show-{name}.png"))
            errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
            print("\n".join(entry["message"] for entry in errors))
        finally:
            driver.quit()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
