"""One agent on families of graphs that it was never trained on (`maggnn_paper.universal`).

Rows are named `agent>family`, as transfers are. Each figure is exact, by colour refinement: the fineness of the stable
colouring after the moves, the share of searches that end at one of the finest tuples of all, and the share that end at
an informative tuple (metric `telling`), whose marked copy the other graph of the pair does not have. The method
`refinement` is the exact greedy teacher; its row without a number of moves is about all tuples of the family: the best
fineness, and the shares of finest and of informative tuples. EXP (`IN_PARTS`) is tested only where it is named.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from maggnn.data.files import whole_file
from maggnn.model.mag_gnn import MagGNN
from maggnn.model.pretrained import AGENTS, PretrainedAgent, pretrained_agent, save_agent
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.universal.families import FAMILIES, IN_PARTS, MOST_NODES, STARTS, Measured, measure, print_families
from maggnn_paper.universal.jobs import TABLES

__all__ = ["AGENTS", "FAMILIES", "IN_PARTS", "UNIVERSAL", "reproduce"]

UNIVERSAL = "any"
"""The agent that was trained on the curriculum: `any.safetensors` in the table's folder, or the package's."""


def reproduce(
    folder: Path, datasets: Sequence[str] = FAMILIES, methods: Sequence[str] = (UNIVERSAL,)
) -> list[LedgerRow]:
    """Test agents on families and write what was measured to `folder/families_AGENT.json`.

    An agent that lies in `folder` is written anew with the row that says how it does on the last of the families.

    Args:
        datasets: the families.
        methods: the agents, by name.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows: list[LedgerRow] = []
    folder.mkdir(parents=True, exist_ok=True)
    for name in methods:
        agent = _agent(name, folder)
        network, order = agent.q_network(), agent.tuple_order
        measured = [
            row for family in datasets for row in measure(network, order, family, device, folder=folder / TABLES)
        ]
        with whole_file(folder / f"families_{name}.json") as waiting:
            waiting.write_text(json.dumps([row.to_dict() for row in measured]))
        print_families(measured)
        made = [row for entry in measured for row in _rows(name, agent, entry)]
        own = folder / f"{name}.safetensors"
        if own.exists():
            _judge(
                own, agent, next(row for row in reversed(made) if (row.method, row.metric) == ("mag-gnn", "fineness"))
            )
        rows += made
    return rows


def _agent(name: str, folder: Path) -> PretrainedAgent:
    """The agent of this name in `folder`, or the package's."""
    own = folder / f"{name}.safetensors"
    return pretrained_agent(str(own) if own.exists() else name)


def _judge(path: Path, agent: PretrainedAgent, row: LedgerRow) -> None:
    """Write the agent with the ledger's row that judges it."""
    config = agent.config
    model = MagGNN(2, encoder=config.encoder, predictor=config.predictor, agent=config.agent)
    model.q_network = agent.q_network()
    save_agent(path, model, config, json.loads(row.to_json()))


def _rows(name: str, agent: PretrainedAgent, measured: Measured) -> list[LedgerRow]:
    """The ledger's rows of one method in one family: the three figures after each number of moves."""
    made = []
    for metric in ("fineness", "finest", "telling"):
        for moves, value in enumerate(getattr(measured, metric)):
            made.append(_row(name, agent, measured, metric, value, moves))
    if measured.method == "refinement":
        whole = (measured.most, measured.share_finest, measured.share_informative)
        for metric, value in zip(("fineness", "finest", "telling"), whole, strict=True):
            made.append(_row(name, agent, measured, metric, value, None))
    return made


def _row(
    name: str, agent: PretrainedAgent, measured: Measured, metric: str, value: float, moves: int | None
) -> LedgerRow:
    return LedgerRow(
        table="families",
        dataset=f"{name}>{measured.family}",
        method=measured.method,
        metric=metric,
        mean=round(value, 4),
        tests_per_run=1 if measured.method == "central-marks" or moves is None else STARTS,
        m=1,
        k=agent.tuple_order,
        t=moves,
        keep="last",
        marking=agent.shape.encoder.marking,
        config=f"agent {name}",
        note=f"{measured.graphs} graphs of at most {MOST_NODES} nodes" if moves is not None else "all tuples",
    )
