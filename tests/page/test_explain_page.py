"""The page of `maggnn explain` in Chromium: on a wide screen and on a phone, light and dark."""

import pytest

pytest.importorskip("selenium", reason="the page is tested with selenium")

from maggnn.apps.explain.command import explain_all
from maggnn_paper.site.screenshots import PHONE, WIDE, resize

CONTRASTS = """
const light = (colour) => {
  const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255);
  const [r, g, b] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = light(getComputedStyle(document.body).backgroundColor);
const texts = [...document.querySelectorAll("h1, h2, p, span, td, th, figcaption, output, summary")];
const contrast = (other) => (Math.max(ground, other) + 0.05) / (Math.min(ground, other) + 0.05);
return { ground, least: Math.min(...texts.map((text) => contrast(light(getComputedStyle(text).color)))),
  filter: getComputedStyle(document.querySelector("svg")).filter,
  scrolls: document.documentElement.scrollWidth - document.documentElement.clientWidth, count: texts.length };
"""


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("molecules", [["CCO"], ["CCO", "CC(C)CO"]], ids=["one", "several"])
def test_both_schemes_can_be_read(browser, runs, tmp_path, size, molecules):
    explain_all(runs / "mine", molecules, [tmp_path / "why.html"])
    found = {}
    for scheme in ("light", "dark"):
        resize(browser, size, scheme)
        browser.get((tmp_path / "why.html").as_uri())
        found[scheme] = browser.execute_script(CONTRASTS)
        assert found[scheme]["least"] >= 4.5 and found[scheme]["scrolls"] == 0, (scheme, found)
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert found["light"]["ground"] == 1 and found["light"]["filter"] == "none"
    assert found["dark"]["ground"] < 0.02 and "invert" in found["dark"]["filter"]  # else bonds would be black on black
