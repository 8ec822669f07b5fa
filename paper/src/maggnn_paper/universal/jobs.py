"""Trainings of the universal agent by name: variants that are compared, each one job that can run beside others."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from maggnn.config import EncoderConfig
from maggnn.data.files import whole_file
from maggnn.errors import InputError, did_you_mean
from maggnn.model.pretrained import agent_digest, pretrained_agent
from maggnn.training.checkpoint import FILE as CHECKPOINT
from maggnn_paper.universal.curriculum import CurriculumSettings
from maggnn_paper.universal.families import FAMILIES, measure
from maggnn_paper.universal.training import UniversalSettings, save, train, validate

AGENT = "agent.safetensors"
"""The trained agent, in the folder of its job."""

TABLES = "families"
"""The folder of exact values of all tuples, which serve every agent."""

BASE = UniversalSettings(
    encoder=EncoderConfig(num_layers=10, hidden=96, residual=True, norm="layer", marking="distance"),
    steps=100_000,
    walkers=12,
    batches=40,
    uses=48,
    peak_rate=3e-3,
    fixed_norms=0.25,
    curriculum=CurriculumSettings(most_nodes=100, batch_nodes=2_048, graphs=320),
)
"""The training for a GPU that the variants change; its steps are more than the time allows."""


ONE_CORE = replace(
    BASE,
    encoder=replace(BASE.encoder, hidden=64),
    steps=1_000_000,
    walkers=4,
    one_node=0.25,
    batches=12,
    uses=24,
    peak_rate=4e-3,
    curriculum=CurriculumSettings(most_nodes=80, batch_nodes=512, graphs=160),
)
"""The training for one core of a CPU: smaller batches and a narrower network, limited by time and not by steps."""

COLOURS = replace(ONE_CORE, encoder=replace(ONE_CORE.encoder, marking="colours", num_layers=6), peak_rate=2e-3)
"""The same with marks that show the stable colouring, and fewer layers."""


def _encoder(rate: float = BASE.peak_rate, **changes: Any) -> UniversalSettings:
    return replace(BASE, encoder=replace(BASE.encoder, **changes), peak_rate=rate)


VARIANTS: dict[str, UniversalSettings] = {
    "base": BASE,
    "binary": _encoder(marking="binary"),
    "batch-norm": _encoder(norm="batch"),
    "deep": _encoder(2e-3, num_layers=14),
    "wide": _encoder(2e-3, hidden=128),
    "narrow": _encoder(hidden=64),
    "foresight": replace(BASE, gamma=0.5, foresight=1),
    "imitation": replace(BASE, loss="imitation", peak_rate=2e-3),
    "entropy": replace(BASE, fineness="entropy"),
    "one-mark": replace(BASE, tuple_order=1),
    "three-marks": replace(BASE, tuple_order=3, walkers=4, curriculum=replace(BASE.curriculum, most_nodes=48)),
    "one-core": ONE_CORE,
    "one-core-slow": replace(ONE_CORE, peak_rate=2e-3),
    "one-core-batch-norm": replace(ONE_CORE, encoder=replace(ONE_CORE.encoder, norm="batch")),
    "one-core-foresight": replace(ONE_CORE, gamma=0.5, foresight=1),
    "one-core-imitation": replace(ONE_CORE, loss="imitation", peak_rate=1e-3),
    "one-core-one-mark": replace(ONE_CORE, tuple_order=1, one_node=0.0),
    "one-core-colours": COLOURS,
    "one-core-colours-deep": replace(COLOURS, encoder=replace(COLOURS.encoder, num_layers=10)),
}
"""What is tried, by name."""


@dataclass(frozen=True)
class UniversalJob:
    """One training with its tests.

    Attributes:
        variant: one of `VARIANTS`.
        seconds: of training.
        workers: processes that make graphs.
        seed: of the training.
        device: where it runs; "auto" is a GPU where there is one.
        begin: an agent, by name or path, whose weights it goes on from; fresh ones where that is empty.
    """

    variant: str
    seconds: float = 400.0
    workers: int = 2
    seed: int = 0
    device: str = "auto"
    begin: str = ""

    @property
    def name(self) -> str:
        """Unique to the settings."""
        after = f"_after_{agent_digest(self.begin)}" if self.begin else ""
        return f"universal_{self.variant}_{self.seconds:.0f}s_seed{self.seed}{after}"

    @property
    def settings(self) -> UniversalSettings:
        if self.variant not in VARIANTS:
            raise InputError(
                f"no variant {self.variant!r} of the universal agent{did_you_mean(self.variant, VARIANTS)}"
            )
        return replace(VARIANTS[self.variant], seconds=self.seconds, seed=self.seed)


def run_universal(job: UniversalJob, folder: Path) -> dict[str, Any]:
    """Train, save the agent in `folder/NAME`, and test it on all families that its order can be tested on."""
    settings = job.settings
    device = ("cuda" if torch.cuda.is_available() else "cpu") if job.device == "auto" else job.device
    own = folder / job.name
    own.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    log = own / "log.txt"

    def tell(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{time.monotonic() - began:6.0f} s  {line}\n")

    begin = pretrained_agent(job.begin).weights if job.begin else None
    network = train(settings, device, job.workers, tell, own / CHECKPOINT, begin)
    seconds = time.monotonic() - began
    checked = asdict(validate(network, settings, device))
    result = {"variant": job.variant, "settings": asdict(settings), "train_s": seconds, "validation": checked}
    result["families"] = []
    # The agent is safe before the tests, which may still be stopped.
    save(own / AGENT, network, settings, {"variant": job.variant, "validation": checked})
    for name in FAMILIES if settings.tuple_order <= 2 else ():
        measured = measure(network, settings.tuple_order, name, device, folder=folder / TABLES)
        result["families"] += [row.to_dict() for row in measured]
        with whole_file(own / "families.json") as waiting:
            waiting.write_text(json.dumps(result))
    return result


def in_words(job: UniversalJob, result: dict[str, Any]) -> str:
    """What a line of progress says."""
    rows = [row for row in result["families"] if row["method"] == "mag-gnn"]
    shown = [f"{row['family']} {row['fineness'][0]:.3f} to {row['fineness'][-1]:.3f}" for row in rows]
    gains = " ".join(f"{gain:.3f}" for gain in result["validation"]["gains"])
    return f"{result['train_s']:.0f} s; gains on fresh graphs {gains}; fineness {', '.join(shown)}"
