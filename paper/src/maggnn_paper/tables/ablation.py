"""Trials on validation splits: base GNNs, structural encodings, starts and rewards on ZINC, budgets elsewhere.

Every variant is the set's config with a few settings changed; the test split is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from maggnn_paper.datasets.molecules import QM9_TARGETS
from maggnn_paper.jobs.job import Job, Result, run_jobs
from maggnn_paper.jobs.summary import equal_cost_note, score_row, trimmed_note
from maggnn_paper.ledger import LedgerRow
from maggnn_paper.tables.molecules import BEST_AGENT, method_config, recipe_name

FEATURES_ONLY = ("encoder.random_walk=0", "encoder.rings=false")
"""As in the paper: a network then needs its marks to see a ring."""

Variants = dict[str, tuple[str, tuple[str, ...]]]
"""By name: the method whose config it starts from, and what is set."""

_ZINC: Variants = {
    "gin": ("gin", ()),
    "random marks": ("random-marks", ()),
    "PRE": ("mag-gnn-pre", ()),
    "SIMUL": ("mag-gnn", ()),
    "features only, gin": ("gin", FEATURES_ONLY),
    "features only, random marks": ("random-marks", FEATURES_ONLY),
    "features only, PRE": ("mag-gnn-pre", FEATURES_ONLY),
    "features only, SIMUL": ("mag-gnn", FEATURES_ONLY),
    "no rings": ("random-marks", ("encoder.rings=false",)),
    "no random walk": ("random-marks", ("encoder.random_walk=0",)),
    "central starts": ("random-marks", ("agent.start=central",)),
    "one tuple": ("random-marks", ("agent.num_tuples=1",)),
    "no dropout": ("random-marks", ("encoder.dropout=0.0",)),
    "rate 8e-3": ("random-marks", ("training.learning_rate=8e-3",)),
}


def _short_runs(shared: Sequence[str], variants: dict[str, Sequence[str]]) -> Variants:
    """Random marks with `shared` settings and a variant's own; a variant's come last, so they count."""
    return {name: ("random-marks", (*shared, *settings)) for name, settings in variants.items()}


def _budget(steps: int, batch: int, rate: float, validate_every: int) -> tuple[str, ...]:
    return (
        f"training.predictor_steps={steps}",
        f"training.batch_size={batch}",
        f"training.learning_rate={rate}",
        f"training.validate_every={validate_every}",
    )


def _ends(fixed_norms: float, weight_decay: float = 1e-4) -> tuple[str, ...]:
    return f"training.fixed_norms={fixed_norms}", f"training.weight_decay={weight_decay}"


_ZINC_FULL: Variants = {
    **_short_runs(
        _budget(8000, 1024, 4e-3, 2000),
        {
            "8k steps": _ends(0.0),
            "8k steps, norms fixed for .3": _ends(0.3),
            "8k steps, norms fixed for .5": _ends(0.5),
            "8k steps, norms fixed for .3, wider": (*_ends(0.3), "encoder.hidden=256"),
            "8k steps, norms fixed for .3, decay .03": _ends(0.3, 0.03),
            "8k steps, norms fixed for .3, distances": (*_ends(0.3), "encoder.distances=true"),
        },
    ),
    **_short_runs(_budget(16000, 512, 3e-3, 4000), {"16k steps of 512, norms fixed for .3": _ends(0.3)}),
    **_short_runs(
        _budget(10000, 512, 3e-3, 5000),
        {
            "10k steps of 512": _ends(0.0),
            "10k steps of 512, norms fixed for .1": _ends(0.1),
            "10k steps of 512, norms fixed for .1, decay .03": _ends(0.1, 0.03),
            "10k steps of 512, norms fixed for .1, decay .1": _ends(0.1, 0.1),
        },
    ),
    **_short_runs(_budget(20000, 256, 2e-3, 10000), {"20k steps of 256, norms fixed for .1": _ends(0.1)}),
}
_QM9: Variants = _short_runs(
    (*_budget(12000, 512, 4e-3, 3000), "runtime.checkpoint_every=2500"),
    {
        "plain": _ends(0.3),
        "dropout .1": (*_ends(0.3), "encoder.dropout=0.1"),
        "dropout .2": (*_ends(0.3), "encoder.dropout=0.2"),
        "decay .1": _ends(0.3, 0.1),
        "decay .3": _ends(0.3, 0.3),
        "decay .1, dropout .1": (*_ends(0.3, 0.1), "encoder.dropout=0.1"),
    },
)
_QM9_R2: Variants = _short_runs(
    (*_budget(9000, 512, 4e-3, 3000), "runtime.checkpoint_every=2500"), {"alone, decay .1": _ends(0.1, 0.1)}
)

_MOLHIV: Variants = {
    name: ("mag-gnn-pre", settings)
    for name, settings in {
        "decay .1": ("training.weight_decay=0.1",),
        "decay .1, norms fixed for .1": ("training.weight_decay=0.1", "training.fixed_norms=0.1"),
        "decay .1, steps of 512": (
            "training.batch_size=512", "training.learning_rate=2e-3", "training.weight_decay=0.1",
        ),
        "dropout .5": ("encoder.dropout=0.5",),
        "dropout .5, decay .1, 8k steps": (
            "encoder.dropout=0.5", "training.weight_decay=0.1", "training.predictor_steps=8000",
        ),
        "rings": ("encoder.rings=true",),
        "2k steps": ("training.predictor_steps=2000",),
    }.items()
}  # fmt: skip

_AGENT_ALONE = ("training.held_out_share=0.1",)
_WIDER = ("encoder.hidden=128",)
_LONGER = ("training.predictor_steps=18000",)
_ONE_MARK = ("agent.num_tuples=4", "agent.tuple_order=1")
_CENTRAL = (*_ONE_MARK, "agent.start=central")
_EVERY_LAYER = ("encoder.mark_every_layer=true",)
_AS_SCORED = (*_LONGER, "encoder.hidden=144")
"""Of the PRE rows on the test split."""


def _pre_as_scored(variants: dict[str, Sequence[str]]) -> Variants:
    """PRE with the settings of the test rows and a variant's own."""
    return {f"PRE, d=144, 18k steps, {name}": ("mag-gnn-pre", (*_AS_SCORED, *own)) for name, own in variants.items()}


def _marks_as_scored(variants: dict[str, tuple[str, int, int]]) -> Variants:
    """No agent: where marks start, m and k, with the width and budget of the test rows."""
    return {
        f"{name}, d=144, 18k steps": (
            "random-marks",
            (
                *_AS_SCORED,
                f"agent.start={start}",
                "agent.num_moves=0",
                f"agent.num_tuples={m}",
                f"agent.tuple_order={k}",
            ),
        )
        for name, (start, m, k) in variants.items()
    }


_ZINC_DISTANCE: Variants = {
    "gin": ("gin", ()),
    "random marks": ("random-marks", ()),
    "random marks, binary": ("random-marks", ("encoder.marking=binary",)),
    "central, k=1, m=4": ("random-marks", (*_CENTRAL, "agent.num_moves=0")),
    "PRE": ("mag-gnn-pre", ()),
    "PRE, no dropout": ("mag-gnn-pre", ("encoder.dropout=0.0",)),
    "PRE, dropout .2": ("mag-gnn-pre", ("encoder.dropout=0.2",)),
    "PRE, wider": ("mag-gnn-pre", ("encoder.hidden=128",)),
    "PRE, 8 layers": ("mag-gnn-pre", ("encoder.num_layers=8",)),
    "PRE, steps of 128": ("mag-gnn-pre", ("training.batch_size=128",)),
    "PRE, rate 2e-3": ("mag-gnn-pre", ("training.learning_rate=2e-3",)),
    "SIMUL": ("mag-gnn", ()),
    "SIMUL, held out .1": ("mag-gnn", _AGENT_ALONE),
    "SIMUL, held out .2": ("mag-gnn", ("training.held_out_share=0.2",)),
    "SIMUL, k=1, m=4, central, held out .1": ("mag-gnn", (*_AGENT_ALONE, *_CENTRAL)),
    "central, k=1, m=4, wider": ("random-marks", (*_WIDER, *_CENTRAL, "agent.num_moves=0")),
    "central, k=1, m=8, wider": ("random-marks", (*_WIDER, *_CENTRAL, "agent.num_moves=0", "agent.num_tuples=8")),
    "PRE, wider, rate 8e-3": ("mag-gnn-pre", (*_WIDER, "training.learning_rate=8e-3")),
    "PRE, wider, steps of 512": ("mag-gnn-pre", (*_WIDER, "training.batch_size=512")),
    "PRE, wider, norms fixed for .1": ("mag-gnn-pre", (*_WIDER, "training.fixed_norms=0.1")),
    "PRE, wider, 18k steps": ("mag-gnn-pre", (*_WIDER, "training.predictor_steps=18000")),
    "PRE, wider, m=4": ("mag-gnn-pre", (*_WIDER, "agent.num_tuples=4")),
    "PRE, wider, t=4": ("mag-gnn-pre", (*_WIDER, "agent.num_moves=4")),
    "PRE, wider, in turn, t=4": ("mag-gnn-pre", (*_WIDER, "agent.num_moves=4", "agent.actions=in_turn")),
    "gin, d=144, 18k steps": ("gin", (*_LONGER, "encoder.hidden=144")),
    "random marks, d=120, 18k steps": ("random-marks", (*_LONGER, "encoder.hidden=120")),
    "central, k=1, m=8, d=120, 18k steps": (
        "random-marks", (*_LONGER, *_CENTRAL, "encoder.hidden=120", "agent.num_moves=0", "agent.num_tuples=8"),
    ),
    "PRE, wider, 24k steps": ("mag-gnn-pre", (*_WIDER, "training.predictor_steps=24000")),
    "PRE, wider, 18k steps, decay .3": ("mag-gnn-pre", (*_WIDER, *_LONGER, "training.weight_decay=0.3")),
    "PRE, d=144, 18k steps": ("mag-gnn-pre", (*_LONGER, "encoder.hidden=144")),
    "PRE, d=144, 18k steps, steps of 512": (
        "mag-gnn-pre", (*_LONGER, "encoder.hidden=144", "training.batch_size=512"),
    ),
    "PRE, rings, d=144, 18k steps": ("mag-gnn-pre", (*_LONGER, "encoder.hidden=144", "agent.pretrained=rings")),
    "SIMUL, d=120, 18k steps": ("mag-gnn", (*_LONGER, "encoder.hidden=120", "training.agent_steps=4500")),
    "SIMUL, d=120, 18k steps, 2k agent steps": (
        "mag-gnn", (*_LONGER, "encoder.hidden=120", "training.agent_steps=2250"),
    ),
    "SIMUL, d=120, 18k steps, m=4": (
        "mag-gnn", (*_LONGER, "encoder.hidden=120", "training.agent_steps=4500", "agent.num_tuples=4"),
    ),
    "SIMUL, k=1, m=4, central, t=1": ("mag-gnn", (*_CENTRAL, "agent.num_moves=1")),
    "SIMUL, k=1, m=4, t=1": ("mag-gnn", (*_ONE_MARK, "agent.num_moves=1")),
    "central, k=1, m=8": ("random-marks", (*_CENTRAL, "agent.num_moves=0", "agent.num_tuples=8")),
    **_pre_as_scored(
        {
            "steps of 128": ("training.batch_size=128",),
            "steps of 128, rate 2e-3": ("training.batch_size=128", "training.learning_rate=2e-3"),
            "rate 2e-3": ("training.learning_rate=2e-3",),
            "no dropout": ("encoder.dropout=0.0",),
            "dropout .2": ("encoder.dropout=0.2",),
            "decay .03": ("training.weight_decay=0.03",),
            "8 layers": ("encoder.num_layers=8", "encoder.hidden=124"),
            "jumping knowledge": ("encoder.jk=sum",),
            "central starts": ("agent.start=central",),
            "m=4": ("agent.num_tuples=4",),
            "norms fixed for .1": ("training.fixed_norms=0.1",),
            "steps of 512, decay .03": ("training.batch_size=512", "training.weight_decay=0.03"),
            "marks in every layer": _EVERY_LAYER,
            "marks in every layer, m=4": (*_EVERY_LAYER, "agent.num_tuples=4"),
            "marks in every layer, dropout .2": (*_EVERY_LAYER, "encoder.dropout=0.2"),
            "marks in every layer, jumping knowledge": (*_EVERY_LAYER, "encoder.jk=sum"),
        }
    ),
    **_marks_as_scored(
        {
            "random, k=4, m=2": ("random", 2, 4),
            "central, k=4, m=2": ("central", 2, 4),
            "central, k=6, m=1": ("central", 1, 6),
            "central, k=1, m=6": ("central", 6, 1),
        }
    ),
    "random, k=2, m=2, d=144, 18k steps, marks in every layer": ("random-marks", (*_AS_SCORED, *_EVERY_LAYER)),
    "central, k=1, m=6, d=144, 18k steps, marks in every layer": (
        "random-marks",
        (*_AS_SCORED, *_CENTRAL, *_EVERY_LAYER, "agent.num_moves=0", "agent.num_tuples=6"),
    ),
    "SIMUL, marks in every layer": ("mag-gnn", _EVERY_LAYER),
}  # fmt: skip

_HALF_UNMOVED = ("training.unmoved_share=0.5",)
_RINGS = ("agent.pretrained=rings",)
_TEN_THOUSAND = ("training.predictor_steps=10000", "training.agent_steps=2500")
_DIRECTED_CHANGES: Variants = {
    "gin": ("gin", ()),
    "random marks": ("random-marks", ("agent.num_moves=0",)),
    "PRE": ("mag-gnn-pre", ()),
    "SIMUL": ("mag-gnn", ()),
    **{
        f"PRE, {name}": ("mag-gnn-pre", settings)
        for name, settings in {
            "m=4": ("agent.num_tuples=4",),
            "t=1": ("agent.num_moves=1",),
            "t=4": ("agent.num_moves=4",),
            "no dropout": ("encoder.dropout=0.0",),
            "dropout .2": ("encoder.dropout=0.2",),
            "decay .03": ("training.weight_decay=0.03",),
            "decay .3": ("training.weight_decay=0.3",),
            "steps of 512": ("training.batch_size=512",),
            "8 layers": ("encoder.num_layers=8", "encoder.hidden=124"),
            "agent rings": ("agent.pretrained=rings",),
            "central starts": ("agent.start=central",),
            "marks in every layer": _EVERY_LAYER,
        }.items()
    },
    **{
        f"{start}, k={k}, m={m}": (
            "random-marks",
            (f"agent.start={start}", "agent.num_moves=0", f"agent.num_tuples={m}", f"agent.tuple_order={k}"),
        )
        for start, k, m in (("random", 1, 4), ("random", 1, 6), ("central", 1, 1), ("central", 1, 4), ("central", 1, 6))
    },
    "SIMUL, m=4": ("mag-gnn", ("agent.num_tuples=4",)),
    "SIMUL, k=1, m=4": ("mag-gnn", ("agent.num_tuples=4", "agent.tuple_order=1")),
    "SIMUL, half the agent steps": ("mag-gnn", ("training.agent_steps=2000",)),
    "SIMUL, no dropout": ("mag-gnn", ("encoder.dropout=0.0",)),
    **{
        f"{name}, steps of 512": (method, ("training.batch_size=512", *settings))
        for name, method, settings in (
            ("random marks", "random-marks", ("agent.num_moves=0",)),
            ("PRE, half unmoved", "mag-gnn-pre", _HALF_UNMOVED),
            ("PRE, agent rings", "mag-gnn-pre", _RINGS),
            ("PRE, agent rings, half unmoved", "mag-gnn-pre", (*_RINGS, *_HALF_UNMOVED)),
            ("PRE, agent rings, half unmoved, t=4", "mag-gnn-pre", (*_RINGS, *_HALF_UNMOVED, "agent.num_moves=4")),
            ("PRE, agent rings, half unmoved, m=1", "mag-gnn-pre", (*_RINGS, *_HALF_UNMOVED, "agent.num_tuples=1")),
            ("PRE, agent rings, no dropout", "mag-gnn-pre", (*_RINGS, "encoder.dropout=0.0")),
            ("SIMUL", "mag-gnn", ()),
            ("SIMUL, half unmoved", "mag-gnn", _HALF_UNMOVED),
            ("SIMUL, half unmoved, 10k steps", "mag-gnn", (*_HALF_UNMOVED, *_TEN_THOUSAND)),
        )
    },
}

_ZINC_DIRECTED: Variants = {
    name: (method, (*(() if method == "mag-gnn" else _LONGER), "training.unmoved_share=0.0", *changes))
    for name, (method, changes) in _DIRECTED_CHANGES.items()
}
"""Compared with longer trainings without unmoved tuples, before the config was changed."""

_SHARED_AGENT: Variants = {
    "ORD, shared encoder": ("mag-gnn-shared", ()),
    "ORD, shared encoder, more agent steps": (
        "mag-gnn-shared", ("training.agent_steps=8000", "training.agent_batch_size=64", "training.walkers=64"),
    ),
    "ORD, shared encoder, held out .1": ("mag-gnn-shared", ("training.held_out_share=0.1",)),
    "ORD, shared encoder, predictor's state": ("mag-gnn-shared", ("agent.state=predictor",)),
    "SIMUL, shared encoder": ("mag-gnn-shared", ("training.paradigm=simul", *_HALF_UNMOVED)),
    "ORD, own encoder": ("mag-gnn", ("training.paradigm=ord", "training.unmoved_share=0.0")),
    "PRE, agent rings, all unmoved": ("mag-gnn-pre", (*_RINGS, "training.unmoved_share=1.0")),
}  # fmt: skip
"""Agents in predictors that learn from random marks, in full or in part."""

_CYCLE6_DIRECTED: Variants = _short_runs(
    (),
    {
        "m=4, k=2": (),
        "m=4, k=3": ("agent.tuple_order=3",),
        "m=4, k=4": ("agent.tuple_order=4",),
        "m=4, k=6": ("agent.tuple_order=6",),
        "m=2, k=6": ("agent.num_tuples=2", "agent.tuple_order=6"),
        "m=4, k=4, dropout .1": ("agent.tuple_order=4", "encoder.dropout=0.1"),
        "m=4, k=4, decay .1": ("agent.tuple_order=4", "training.weight_decay=0.1"),
        "m=4, k=4, 20k steps": ("agent.tuple_order=4", "training.predictor_steps=20000"),
        "m=4, k=4, distance": ("agent.tuple_order=4", "encoder.marking=distance"),
    },
)
"""The paper searched k in {3, 4, 5, 6} and m in {2, 3, 4} on cycles."""

VARIANTS: dict[str, Variants] = {
    "zinc_directed": _ZINC_DIRECTED | _SHARED_AGENT,
    "cycle6_directed": _CYCLE6_DIRECTED,
    "zinc": _ZINC,
    "zinc_full": _ZINC_FULL,
    "qm9": _QM9,
    "qm9_r2": _QM9_R2,
    "molhiv": _MOLHIV,
    "zinc_distance": _ZINC_DISTANCE,
}
"""By data set."""

BEGUN_FROM = {
    "cycle6_directed": (
        "agent.tuple_order=2", "training.predictor_steps=10000", "training.weight_decay=0.0",
        "training.validate_every=1000", "runtime.checkpoint_every=2000",
    ),
    "zinc_distance": ("encoder.hidden=112", "training.predictor_steps=12000", "training.fixed_norms=0.0"),
}  # fmt: skip
"""What a set's variants were compared with, where the config has been changed to the best of them since."""

OUTPUTS = {"qm9": {"qm9_r2": QM9_TARGETS.index("r2"), "qm9_cv": QM9_TARGETS.index("cv")}}
"""Rows of a set with several targets: those that were not reached."""


def jobs(dataset: str, runs: int, names: Sequence[str] = ()) -> list[Job]:
    """One for each variant (all where none is named) and run."""
    made = []
    for name in names or VARIANTS[dataset]:
        method, settings = VARIANTS[dataset][name]
        config = method_config(dataset, method, BEST_AGENT).with_settings([*BEGUN_FROM.get(dataset, ()), *settings])
        marked = config.agent.tuple_order > 0
        for run in range(runs):
            own = config.replaced(runtime={"seed": run})
            job = Job(
                recipe_name(dataset), own, config.agent.num_moves, 5 if marked else 1, keep_model=True, part="val"
            )
            if name in _SHARED_AGENT:
                job = replace(job, means=(job.max_moves + 1,), central=True)
            made.append(job)
    return made


def reproduce(
    folder: Path,
    runs: int = 1,
    workers: int = 1,
    datasets: Sequence[str] = tuple(VARIANTS),
    methods: Sequence[str] = (),
) -> list[LedgerRow]:
    """Run what is not in `folder` yet; one row for each variant.

    Args:
        methods: variants by name; none means all.
    """
    rows = []
    for dataset in datasets:
        names = [name for name in VARIANTS[dataset] if not methods or name in methods]
        results = run_jobs(jobs(dataset, runs, names), folder, workers) if names else []
        for number, name in enumerate(names):
            rows += _rows(dataset, name, results[number * runs : (number + 1) * runs])
    return rows


def _rows(dataset: str, name: str, results: Sequence[Result]) -> list[LedgerRow]:
    method, settings = VARIANTS[dataset][name]
    moves = 0 if method in ("gin", "random-marks") else results[0]["config"]["agent"]["num_moves"]
    steps = results[0]["config"]["training"]["predictor_steps"]
    note = f"{name}; validation split, {steps} steps; {' '.join([*BEGUN_FROM.get(dataset, ()), *settings])}"
    note += trimmed_note(results, method, moves)
    if name in _SHARED_AGENT:
        note += f"; at the random start{trimmed_note(results, 'random-marks', 0).removeprefix(';')}"
        note += equal_cost_note(results, method, moves)
    variant = name.lower().replace(", ", ",").replace(" ", "-")
    outputs = OUTPUTS.get(dataset, {dataset: None})
    return [
        score_row("ablation", method, results, moves, "last", note, f"{row}_val:{variant}", output)
        for row, output in outputs.items()
    ]
