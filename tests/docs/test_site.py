"""The site builds without a warning, needs no network to be read, and its questions and examples lead somewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="the site is built by mkdocs, of the extra docs")

ROOT = Path(__file__).resolve().parents[2]
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
MAY_STAY_AWAY = ("canonical", "next", "prev", "license")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The whole site, built as `make site` builds it."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, "\n".join(line for line in ended.stderr.splitlines() if "INFO" not in line)
    return folder


class Page(HTMLParser):
    """What a page loads, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if given.get("id"):
            self.anchors.add(given["id"])
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") not in MAY_STAY_AWAY:
            self.loaded.append(given[LOADED[tag]])


def test_pages_load_files_of_the_site_alone(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        for name in Page(path.read_text(encoding="utf-8")).loaded:
            if name.startswith("data:"):
                continue
            assert not re.match(r"[a-z]+:|//", name), f"{path.name} loads {name}"
            target = name.partition("#")[0].partition("?")[0]
            place = site / target.lstrip("/") if target.startswith("/") else path.parent / target
            assert place.exists(), f"{path.name} loads {name}, which is not there"


def test_style_sheets_load_nothing_from_elsewhere(site):
    for path in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", path.read_text(encoding="utf-8")), path.name


def test_the_reference_has_every_command_and_setting(site):
    from command_lines import commands
    from maggnn.config import describe

    text = (site / "api" / "commands.html").read_text(encoding="utf-8")
    for command in commands():
        assert f"<code>{command.program} {command.name}</code>" in text
    settings = Page((site / "api" / "settings.html").read_text(encoding="utf-8")).anchors
    for name, _, _ in [*describe(), *describe(experimental=True)]:
        section, _, key = name.partition(".")
        assert f"maggnn.config.{section.title()}Config.{key}" in settings


def test_ten_questions_are_answered_where_the_page_says(site):
    rows = re.findall(
        r"^\| (\d+) \| (.+?) \| .*\]\(([\w/.]+)\.md#([\w-]+)\)\. \|$",
        (ROOT / "docs" / "ten_questions.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert [int(number) for number, *_ in rows] == list(range(1, 11))
    for _, question, page, anchor in rows:
        assert question.endswith("?")
        name = page.replace("README", "index")
        assert anchor in Page((site / f"{name}.html").read_text(encoding="utf-8")).anchors, question
