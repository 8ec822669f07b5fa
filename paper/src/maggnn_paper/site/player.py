"""The player of the site: the page of `maggnn show` with recorded answers, in one file that needs no server.

A search with one tuple of two marks has |V|² states, so that a small graph can be recorded completely: its prediction,
its Q-values and the agent's move for every placement of the marks. What a reader clicks is then a lookup.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from maggnn import config as configs
from maggnn.apps.fit.fitting import fit_table
from maggnn.apps.show.gallery import Gallery, open_gallery
from maggnn.apps.show.log import new_lines
from maggnn.apps.show.moves import metric_after_moves
from maggnn.apps.show.runs import LOG, Run
from maggnn.errors import InputError
from maggnn.training.run import train

MODULES = ("asking.js", "card.js", "curves.js", "picture.js", "answers.js", "playing.js", "page.js")
"""The scripts of the page, each after those that it imports from."""

PAIR, MOLECULE = "Shrikhande and rook's graph", "Molecules, logP"
SHOWN_MOLECULES = ("CC(=O)Oc1ccccc1C(=O)O", "Cn1cnc2c1c(=O)n(C)c(=O)n2C")
"""Aspirin and caffeine."""

DIGITS = 4
TRIED_STARTS = 50


def record_player(folder: Path) -> dict[str, Any]:
    """Train both models of the player and record all their answers; takes about a minute on two cores.

    Args:
        folder: Where the models go. What is there is not trained again.

    Returns:
        Plain values for `json.dumps`, which `player_page` takes.
    """
    pair = folder / "pair"
    train(configs.load("demo_shrikhande_rook").replaced(runtime={"device": "cpu"}), pair, quiet=True)
    molecules = _molecule_table(folder / "shown.csv", SHOWN_MOLECULES)
    model = folder / "molecules"
    if not model.exists():
        table = _molecule_table(folder / "table.csv", _made_molecules())
        fit_table(table, "smiles", ["logP"], model, steps=600, workers=1, ensemble=1)
    runs = (Run(PAIR, pair), None), (Run(MOLECULE, model), molecules)
    return {"runs": [record_run(run, shown) for run, shown in runs]}


def record_run(run: Run, molecules: Path | None) -> dict[str, Any]:
    """All that the page asks about a run.

    Args:
        run: A trained run or a fitted model with one tuple of two marks.
        molecules: The molecules to show with a fitted model.

    Returns:
        The server's answers, and for each graph a table of all its states.
    """
    gallery = open_gallery(run, molecules, [])
    agent = gallery.model.agent
    if (agent.num_tuples, agent.tuple_order, agent.history) != (1, 2, "zero"):
        raise InputError(f"{run.name}: only a search with one tuple of two marks and no history can be recorded")
    return {
        "facts": run.facts() | {"stage": "finished", "card": False},
        "gallery": gallery.facts() | {"takes_molecules": False},
        "moves": metric_after_moves(gallery) if gallery.dataset is not None else None,
        "lines": new_lines(run.folder / LOG).lines,
        "graphs": [record_graph(gallery, graph) for graph in range(len(gallery.entries))],
    }


def record_graph(gallery: Gallery, graph: int) -> dict[str, Any]:
    """Picture, start and every state of one graph.

    Args:
        gallery: A model with its graphs.
        graph: Which of them.

    Returns:
        `states` has a row for each tuple (u, v) at place u · |V| + v: answer, score, Q-values, the agent's move.
    """
    picture = gallery.picture(graph)
    nodes = range(len(picture["positions"]))
    states = []
    for tuples in ([[first, second]] for first in nodes for second in nodes):
        step = gallery.place(graph, tuples)
        (moved,) = gallery.walk(graph, tuples, 1, "agent", 0)[0].moved
        gains = [gain for table in step.q_table or [] for gain in table[0]]
        states.append({"answer": step.answer, "score": step.score, "gains": gains, "move": moved[1:]})
    return {"picture": picture, "start": _least_informative_start(gallery, graph), "states": states}


def _least_informative_start(gallery: Gallery, graph: int) -> list[list[int]]:
    """Of the starts that the model would draw, the one with the lowest score: there a move has something to gain."""
    starts = [gallery.start(graph, seed, False) for seed in range(TRIED_STARTS)]
    return min(starts, key=lambda start: 0.0 if start.score is None else start.score).tuples


def to_json(recorded: dict[str, Any]) -> str:
    """Recorded answers as JSON with four digits, which is what the page shows."""
    return json.dumps(_rounded(recorded), ensure_ascii=False, separators=(",", ":")) + "\n"


def player_page(recorded: str) -> str:
    """The page of `maggnn show` with style, scripts and recorded answers inside.

    Args:
        recorded: What `to_json` wrote.

    Returns:
        HTML that loads nothing else, so that it also opens from a folder.
    """
    page = files("maggnn.apps.show") / "page"
    html = (page / "index.html").read_text(encoding="utf-8")
    own = (files("maggnn_paper.site") / "recorded.js").read_text(encoding="utf-8")
    scripts = [own, *((page / name).read_text(encoding="utf-8") for name in MODULES)]
    data = recorded.strip().replace("</", "<\\/")
    inside = {
        '<link rel="stylesheet" href="page.css">': f"<style>{(page / 'page.css').read_text(encoding='utf-8')}</style>",
        '<script type="module" src="page.js"></script>': "",
        "<body>": '<body data-view="graphs">',
        "</body>": f'<script type="application/json" id="recorded">{data}</script>\n'
        f'<script type="module">\n{bundled(scripts)}</script>\n</body>',
    }
    for outside, text in inside.items():
        assert html.count(outside) == 1, outside
        html = html.replace(outside, text)
    return html


def bundled(scripts: Sequence[str]) -> str:
    """Modules one after the other in one scope: a page that is opened from a folder may not import others."""
    whole = "\n".join(scripts)
    whole = re.sub(r"^import .*?;\n", "", whole, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^export ", "", whole, flags=re.MULTILINE).replace("</script", "<\\/script")


def _made_molecules() -> list[str]:
    """Rings and chains with common groups, in one order."""
    from rdkit.Chem import CanonSmiles

    heads = ["C1CCCCC1", "c1ccccc1", "C1CCCC1", "c1ccncc1", "C1CCOC1", "CC(C)", "CCC", "c1ccsc1", "Cn1cncc1"]
    heads += ["O=C1CCCCN1"]
    links = ["", "C", "CC", "CO", "CN", "C(=O)N", "C=C", "C(=O)O"]
    tails = ["C", "CC", "C(C)C", "O", "N", "F", "Cl", "C#N", "C(=O)O", "C(F)(F)F", "c1ccccc1", "N(C)C"]
    return sorted({CanonSmiles(head + link + tail) for head in heads for link in links for tail in tails})


def _molecule_table(path: Path, smiles: Sequence[str]) -> Path:
    """A table of molecules with the logP that RDKit computes."""
    from rdkit.Chem import MolFromSmiles
    from rdkit.Chem.Crippen import MolLogP  # pyright: ignore[reportAttributeAccessIssue]

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", "logP"])
        writer.writerows([one, round(MolLogP(MolFromSmiles(one)), 3)] for one in smiles)
    return path


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(entry) for name, entry in value.items()}
    return [_rounded(entry) for entry in value] if isinstance(value, list | tuple) else value
