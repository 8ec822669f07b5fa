"""Files that hosts and tools read: the citation, the templates of issues and pull requests, the workflow."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).resolve().parents[2]


def read(name: str) -> dict:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_citation_is_of_this_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = read("CITATION.cff")
    assert citation["version"] == project["version"] and citation["license"] == project["license"]
    assert {"cff-version", "title", "message", "authors"} <= citation.keys()
    assert citation["preferred-citation"]["year"] == 2023 and len(citation["preferred-citation"]["authors"]) == 6


def test_the_workflow_runs_what_ci_runs_everywhere():
    job = read(".github/workflows/tests.yml")["jobs"]["tests"]
    matrix = job["strategy"]["matrix"]
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert matrix["python"] == versions
    commands = {step.get("name"): step.get("run", "") for step in job["steps"]}
    assert commands["Linux and macOS"] == ".ci/run"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for line in ("ruff format --check .", "ruff check .", "python -m pytest -n 2 --dist loadfile"):
        assert f"$(BIN)/{line}" in makefile and line in commands["Windows"]


@pytest.mark.parametrize("name", ["bug", "question"])
def test_templates_of_issues(name):
    template = read(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= template.keys()
    assert all(part["type"] in ("textarea", "input") and part["attributes"]["label"] for part in template["body"])
