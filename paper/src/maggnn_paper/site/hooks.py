"""Hooks of mkdocs: the recorded player becomes one page that needs no server, command lines describe themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from maggnn_paper.site.player import player_page

RECORDED = "player/recorded.json"
COMMANDS = re.compile(r"<!-- commands of (\S+) as (\S+) -->")


def on_files(files: Files, config: Any) -> Files:
    """Put the page of the player among the files of the site, and leave its raw data out.

    Args:
        files: What mkdocs found in the folder of the pages.
        config: The configuration of mkdocs.

    Returns:
        The same files with the page.
    """
    recorded = Path(config["docs_dir"]) / RECORDED
    found = files.get_file_from_path(RECORDED)
    if found is not None:
        files.remove(found)
    text = player_page(recorded.read_text(encoding="utf-8"))
    files.append(File.generated(config, "player/index.html", content=text))
    return files


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Describe a command line where a page asks for it, by typer's own generator of documentation.

    Args:
        markdown: The text of a page.
        **kwargs: What else mkdocs passes on.

    Returns:
        The text with `<!-- commands of MODULE as NAME -->` replaced by all commands and options.
    """
    return COMMANDS.sub(lambda found: _described(found[1], found[2]), markdown)


def _described(module: str, name: str) -> str:
    command = [sys.executable, "-m", "typer", module, "utils", "docs", "--name", name]
    text = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout
    deeper = re.sub(r"^#", "##", text, flags=re.MULTILINE)  # the page has a title of its own
    return re.sub(r"\[default: (.*?)\]", r"(default: \1)", deeper)
