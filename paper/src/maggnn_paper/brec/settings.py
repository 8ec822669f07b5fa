"""What each test of BREC runs with: settings by test, and by category where the ordinary ones are too small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from maggnn.model.named_encoders import BASELINES
from maggnn_paper.brec.agent import AgentSettings
from maggnn_paper.brec.baseline_test import BaselineSettings
from maggnn_paper.brec.finest import alike_at_finest
from maggnn_paper.brec.paper_test import PaperSettings
from maggnn_paper.brec.proposed import RANDOM_MOVES, RANDOM_TUPLES, ProposalSettings, alike_at_proposed
from maggnn_paper.brec.rpc import MARKED, RpcSettings

Settings = RpcSettings | PaperSettings | BaselineSettings

FINEST = RpcSettings(start="finest", num_tuples=1, num_moves=0, starts=1, num_layers=16, frequency=1.5)
"""Chosen on pairs of our own (`practice`), for all tests whose tuples are found before."""

BY_AGENT, BY_MOVES, BY_WALKS = map(ProposalSettings, ("any", RANDOM_MOVES, RANDOM_TUPLES))
AGENT, MOVES, WALKS = (
    replace(FINEST, start=start, proposals=proposals)
    for start, proposals in (("agent", BY_AGENT), ("moves", BY_MOVES), ("walks", BY_WALKS))
)

TESTS: dict[str, RpcSettings | PaperSettings] = {
    "rpc": RpcSettings(),
    "nodes": RpcSettings(start="nodes"),
    "all": RpcSettings(start="all", starts=1, hidden=16, num_layers=16, frequency=3.0),
    "finest": FINEST,
    "finest3": FINEST,
    "agent": AGENT,
    "moves": MOVES,
    "walks": WALKS,
    "agent3": AGENT,
    "moves3": MOVES,
    "walks3": WALKS,
    "paper": PaperSettings(),
}
TABLE = {name: "brec_paper" if name == "paper" else "brec_rpc" for name in TESTS}

STARTS = {
    "random": "random starts",
    "nodes": "a tuple at each node, m = |V|",
    "all": "every tuple, m = |V|^2, none moves",
    "finest": "the tuples of the finest colouring, none moves",
    "agent": "tuples that the agent proposes",
    "moves": "tuples that random moves propose in the agent's search",
    "walks": "the best of random tuples",
}

MARKS = RpcSettings.tuple_order
"""The k of all tests."""

THREE_MARKS = {"finest3": "finest", "agent3": "agent", "moves3": "agent", "walks3": "agent"}
"""Tests with three marks, of the pairs that two marks at the tuples of another test provably do not distinguish."""

_LONGER = AgentSettings(steps=2000, walkers=32)
_REGULAR = {
    "rpc": {"hidden": 64, "starts": 128, "agent": _LONGER},
    "nodes": {"hidden": 64, "agent": _LONGER},
    "paper": {"hidden": 64, "steps": 4000, "sets": 64, "agent": _LONGER},
}
_DEEPER = {"num_layers": 16, "frequency": 1.5}
HARDER: dict[str, dict[str, dict[str, Any]]] = {
    "regular-strongly": _REGULAR,
    "regular-4vertex": _REGULAR,
    "regular-distance": _REGULAR,
    "cfi": {
        "rpc": {**_DEEPER, "starts": 32, "agent": AgentSettings(steps=1500)},
        "nodes": {**_DEEPER, "agent": AgentSettings(steps=1500)},
        "paper": {**_DEEPER, "steps": 2000, "agent": AgentSettings(steps=1500)},
    },
}
"""Settings by category and test where the ordinary ones are too small, chosen on these pairs (BREC has no others).

Marked copies of the three categories of regular graphs are very similar, so networks are wider, learn longer (under RPC
only the agent; the Siamese model has its 20 epochs) and more searches are averaged. For the CFI pairs that were
examined, colour refinement with one or two marks needs up to 11 rounds, for all others up to 4, so networks for CFI
pairs are deeper.
"""


def settings_for(test: str, method: str, category: str) -> Settings:
    """A plain GNN is the same model with k = 0; its copies are all equal, so one is enough."""
    if method in BASELINES:
        return BaselineSettings(method)
    settings = replace(TESTS[test], **HARDER.get(category, {}).get(test, {}))
    if method != "gin":
        return settings
    return replace(
        settings, tuple_order=0, **({"sets": 1} if isinstance(settings, PaperSettings) else {"num_tuples": 1})
    )


def tried(test: str, settings: Settings, pairs: Tensor) -> tuple[Tensor, Settings]:
    """The pairs that a test tries, with their settings.

    `finest3` tries, with a third mark, those whose finest copies with two marks are equal. `finest` cannot distinguish
    them, so the two tests together show what two marks, or three where two are not enough, can distinguish. `agent3`
    and its controls try those whose copies at the agent's two marks are equal.
    """
    if test not in THREE_MARKS or not isinstance(settings, RpcSettings) or not settings.is_marked:
        return pairs, settings
    ids = tuple(pairs.tolist())
    agents = THREE_MARKS[test] == "agent"
    alike = alike_at_proposed(ids, BY_AGENT) if agents else alike_at_finest(ids, settings.tuple_order)
    return pairs[[pair in alike for pair in pairs.tolist()]], replace(settings, tuple_order=settings.tuple_order + 1)


def in_short(settings: Settings) -> str:
    """The settings in a few words, for the ledger."""
    if isinstance(settings, BaselineSettings):
        budget = f"{settings.epochs} epochs at {settings.learning_rate:g}"
        return f"{settings.method} {settings.num_layers} x {settings.hidden}, residual; {budget}; whole graphs"
    agent = f"agent {settings.agent.steps} steps of {settings.agent.walkers} states a graph"
    sines = f", sin({settings.frequency:g} h)" if settings.frequency else ""
    shape = f"GIN {settings.num_layers} x {settings.hidden}, residual{sines}"
    if isinstance(settings, RpcSettings):
        start = STARTS[settings.start] if settings.tuple_order else "no marks"
        budget = f"{settings.epochs} epochs at {settings.learning_rate:g}; {start}, {settings.starts} sets U averaged"
        if settings.proposals is not None:
            own = settings.proposals
            budget += f"; {own.starts} starts of {own.moves} moves, in {own.numberings} numberings of each graph"
        if settings.is_marked and settings.tuple_order > MARKS:
            budget += f"; k = {settings.tuple_order}"
    else:
        budget = f"{settings.steps} steps of {settings.sets} sets U a graph, one cycle to {settings.peak_rate:g}"
    learns = settings.tuple_order and not (isinstance(settings, RpcSettings) and settings.start in ("all", *MARKED))
    return f"{shape}; {budget}" + (f"; {agent}, gamma {settings.agent.gamma:g}" if learns else "")
