r"""BREC into the ledger: pairs distinguished by the official test (`brec_rpc`) and by the paper's (`brec_paper`).

Every category of the file is split into groups of like size; a job is one test of one group with one seed and one
order of tuples. Results of jobs lie in the folder and are not measured twice.

| test | table | data set | marks start | the predictor learns for |
|---|---|---|---|---|
| `rpc` | brec_rpc | basic | at random, m = 4, 16 sets U averaged | the protocol's 20 epochs at 1e-4 |
| `nodes` | brec_rpc | basic:nodes | one tuple at each node, m = \|V\|, 16 sets averaged | the same |
| `all` | brec_rpc | basic:all | one tuple of each kind, m = \|V\|^2, and stay there | the same |
| `finest` | brec_rpc | basic:finest | at the tuples of the finest colouring, m = 1, and stay there | the same |
| `finest3` | brec_rpc | basic:finest3 | the same with k = 3, pairs in which these tuples are alike alone | the same |
| `agent` | brec_rpc | basic:agent | at a tuple that the agent `any` finds, trained before on other graphs | the same |
| `moves` | brec_rpc | basic:moves | at a tuple that the same search finds with random moves | the same |
| `walks` | brec_rpc | basic:walks | at the best of as many random tuples as the agent makes encoder passes | the same |
| `agent3` ... | brec_rpc | basic:agent3 | there, with a third mark; only pairs that are alike for `agent` | the same |
| `paper` | brec_paper | basic | at random, m = 1, 1,000 times | as long as it takes: the paper names no budget |

The agent (only `rpc`, `nodes` and `paper` train one) learns after the predictor, in steps of its own (Algorithm 2),
which no protocol counts. From `nodes`, `random-marks` means marks that stay (t = 0): nothing about them is random.

`finest` is the exact rule that an agent which hunts for fine colourings could at best learn: all |V|^2 tuples of each
graph are tried by colour refinement, once, and the network reads m of them. Its settings are the same for all
categories and were chosen on pairs of our own (`practice`); `finest3`, `agent`, `moves` and `walks` have the same
ones, and so have `agent3`, `moves3` and `walks3`, whose third mark colour refinement places.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from maggnn.data import registry
from maggnn.errors import InputError
from maggnn.model.named_encoders import BASELINES
from maggnn.model.runtime import pick_device
from maggnn_paper.brec.baseline_test import BaselineSettings, baseline_rpc
from maggnn_paper.brec.ceiling import out_of_reach
from maggnn_paper.brec.finest import with_finest
from maggnn_paper.brec.pairs import CATEGORIES, Pairs, like_sized, pair_ids
from maggnn_paper.brec.paper_test import PaperSettings, paper_test
from maggnn_paper.brec.proposed import SearchCosts, with_proposed
from maggnn_paper.brec.rpc import FINEST, RELABELLINGS, RpcResult, RpcSettings, distinguished, rpc, unreliable
from maggnn_paper.brec.settings import TABLE, TESTS, THREE_MARKS, Settings, in_short, settings_for, tried
from maggnn_paper.jobs.job import peak_mb
from maggnn_paper.jobs.side_by_side import Result, run_all
from maggnn_paper.ledger import LedgerRow, commit_name, hardware_name, torch_version

DATASETS = tuple(CATEGORIES)
"""Rows; one test of a category alone is, for example, `basic:paper`."""

METHODS = ("gin", "mag-gnn")
"""What runs if nothing is chosen; the controls random-marks and random-moves come along with mag-gnn. Baselines of
`maggnn_paper.baselines` can be chosen too: they have the official test `rpc` alone."""

PIECES = {name: kinds[0] for name, kinds in CATEGORIES.items() if len(kinds) == 1}
"""The ledger's name of each of the file's seven categories."""

MOST_NODES = {"cpu": 600, "cuda": 16_384}
"""Nodes of one graph of each pair in a group: on a CPU few, so that features stay in its caches."""


@dataclass(frozen=True)
class BrecJob:
    """One test of some pairs of one category."""

    test: str
    category: str
    pairs: tuple[int, ...]
    settings: Settings
    seed: int

    @property
    def name(self) -> str:
        digest = hashlib.sha256(f"{self.pairs} {self.settings}".encode()).hexdigest()[:8]
        order = self.settings.tuple_order
        return f"brec-{self.test}-{self.category}-k{order}-seed{self.seed}-{self.pairs[0]}-{digest}"


def reproduce(
    folder: Path,
    runs: int = 10,
    workers: int = 1,
    datasets: Sequence[str] = DATASETS,
    methods: Sequence[str] = METHODS,
) -> list[LedgerRow]:
    """Run what is not in `folder` yet and return the rows of all `datasets`, such as `basic` or `basic:paper`."""
    wanted = _wanted(datasets, methods, runs)
    todo = list(dict.fromkeys(job for jobs, _, _ in wanted for job in jobs))
    results = dict(zip(todo, run_jobs(todo, folder, workers), strict=True))
    rows = []
    for jobs, name, test in wanted:
        measured = {job: results[job] for job in jobs}
        methods_of = results[jobs[0]]["found"] if jobs else ()  # a test may have nothing to try in a category
        rows += [_row(test, name, method, measured) for method in methods_of]
    return rows


def all_jobs(datasets: Sequence[str], methods: Sequence[str], runs: int) -> list[BrecJob]:
    """The jobs that `reproduce` runs, the first seed of all of them first."""
    jobs = dict.fromkeys(job for group, _, _ in _wanted(datasets, methods, runs) for job in group)
    return sorted(jobs, key=lambda job: job.seed)


def _wanted(datasets: Sequence[str], methods: Sequence[str], runs: int) -> list[tuple[list[BrecJob], str, str]]:
    """The jobs of each row of the ledger, with its data set and test."""
    chosen = [(name, test) for dataset in datasets for name, test in _tests_of(dataset)]
    unknown = [method for method in methods if method not in (*METHODS, *BASELINES)]
    if unknown:
        raise InputError(f"BREC has no method {unknown[0]!r}: there are {', '.join((*METHODS, *BASELINES))}")
    if runs < 1:
        raise InputError(f"{runs} runs: give 1 or more")
    return [
        (make_jobs(test, method, _pieces(name), runs), name, test)
        for name, test in chosen
        for method in methods
        if method in METHODS or test == "rpc"
    ]


def _tests_of(dataset: str) -> list[tuple[str, str]]:
    """`basic:paper` is one test of a category, `basic` all of them."""
    name, _, test = dataset.partition(":")
    if name not in CATEGORIES or test not in ("", *TESTS):
        raise InputError(
            f"BREC has no row {dataset!r}: there are {', '.join(CATEGORIES)}, with :{', :'.join(TESTS)} or without"
        )
    return [(name, one) for one in ([test] if test else TESTS)]


def _pieces(dataset: str) -> list[str]:
    return [name for name, kind in PIECES.items() if kind in CATEGORIES[dataset]]


def make_jobs(test: str, method: str, categories: Sequence[str], runs: int) -> list[BrecJob]:
    """All groups and seeds of some of the seven categories, without pairs that no marks of this order distinguish."""
    sizes = registry.load("brec").graphs.num_nodes.view(-1, 2)[:, 0]
    # Groups of tests whose tuples are found before are the same everywhere: what one machine measured another finds.
    most = MOST_NODES["cpu" if _is_marked(TESTS[test]) else pick_device("auto").type]
    slack = {"slack": 1.0} if test in ("nodes", "all") else {}  # every node is a start, so none may be padding
    jobs = []
    for category, pairs in pair_ids(categories).items():
        settings = settings_for(test, method, category)
        hopeless = _hopeless(settings, pairs)
        own, settings = tried(test, settings, pairs)
        for group in like_sized(sizes, own, most, **slack):
            left = tuple(pair for pair in group.tolist() if pair not in hopeless)
            jobs += [BrecJob(test, category, left, settings, seed) for seed in range(runs) if left]
    return jobs


def _hopeless(settings: Settings, pairs: Tensor) -> frozenset[int]:
    """Pairs that marks provably cannot distinguish.

    Where tuples are found before the test, every pair is tried, as with controls without marks and baselines.
    """
    if isinstance(settings, BaselineSettings) or not settings.tuple_order or _is_marked(settings):
        return frozenset()
    return out_of_reach(tuple(pairs.tolist()), settings.tuple_order)


def _is_marked(settings: Settings) -> bool:
    """Whether tuples are found before the test."""
    return isinstance(settings, RpcSettings) and settings.is_marked


def run_jobs(jobs: Sequence[BrecJob], folder: Path, workers: int) -> list[Result]:
    """Results in order; in `workers` processes, each of one thread."""
    return run_all(jobs, run_job, in_words, folder, workers)


def run_job(job: BrecJob, folder: Path) -> Result:
    """Train and test; what each method reached is a list with one entry a pair."""
    device = pick_device("auto")
    began = time.monotonic()
    graphs = Pairs.of(registry.load("brec").graphs, torch.tensor(job.pairs))
    graphs, costs = _with_tuples(graphs, job, folder)
    graphs = graphs.to(device)
    if not isinstance(job.settings, PaperSettings):
        tested = _official(graphs, job.settings, job.seed)
        found = {
            method: {"t_square": tested.t_square[method].tolist(), "control": tested.control[method].tolist()}
            for method in tested.t_square
        }
    else:
        tested = paper_test(graphs, job.settings, job.seed)
        found = {method: {"right": right.tolist()} for method, right in tested.right.items()}
    return {
        "name": job.name,
        "pairs": job.pairs,
        "found": found,
        "search": asdict(costs) if costs is not None else None,
        "loss": tested.loss.tolist(),
        "params": tested.num_parameters,
        "seconds": time.monotonic() - began,
        "peak_mb": peak_mb(device),
        "hardware": hardware_name(),
        "torch": torch_version(),
        "commit": commit_name(),
    }


def _with_tuples(graphs: Pairs, job: BrecJob, folder: Path) -> tuple[Pairs, SearchCosts | None]:
    """The graphs with the tuples that are found before the test, and what a search cost, where settings ask for it."""
    settings = job.settings
    if not isinstance(settings, RpcSettings) or not settings.is_marked:
        return graphs, None
    if settings.proposals is None:
        return with_finest(graphs, job.pairs, settings, folder), None
    return with_proposed(graphs, job.pairs, settings.num_tuples, settings.tuple_order, settings.proposals, folder)


def _official(graphs: Pairs, settings: RpcSettings | BaselineSettings, seed: int) -> RpcResult:
    return rpc(graphs, settings, seed) if isinstance(settings, RpcSettings) else baseline_rpc(graphs, settings, seed)


def pairs_of_job(job: BrecJob, result: Result, method: str, factor: float = RELABELLINGS) -> Tensor:
    """Which pairs a job's method distinguished, [P]; `factor` as in `rpc.distinguished`."""
    found = {name: torch.tensor(values) for name, values in result["found"][method].items()}
    if isinstance(job.settings, PaperSettings):
        return found["right"] >= job.settings.right
    return distinguished(found["t_square"], found["control"], factor)


def _row(test: str, dataset: str, method: str, results: dict[BrecJob, Result]) -> LedgerRow:
    """Pairs distinguished, mean and standard deviation over seeds."""
    first_job, first = next(iter(results.items()))
    counts = _by_seed(results, lambda job, result: float(pairs_of_job(job, result, method).sum()))
    seconds = _by_seed(results, lambda _, result: result["seconds"])
    settings = first_job.settings
    marked = not isinstance(settings, BaselineSettings) and method != "gin"
    return LedgerRow(
        table=TABLE[test],
        dataset=dataset if test in ("rpc", "paper") else f"{dataset}:{test}",
        method=method,
        metric="pairs",
        mean=round(float(counts.mean()), 4),
        std=round(float(counts.std()), 4) if len(counts) > 1 else None,
        runs=len(counts),
        tests_per_run=settings.starts if isinstance(settings, PaperSettings) else RELABELLINGS,
        m=_num_tuples(settings) if marked else None,
        k=settings.tuple_order if marked else None,
        t=_moves(settings, method),
        keep="last" if marked else None,
        passes=_passes(settings),
        params=max(result["params"] for result in results.values()),
        train_s=round(float(seconds.mean()), 1),
        peak_mb=round(max(result["peak_mb"] for result in results.values()), 1),
        hardware=first["hardware"],
        torch=first["torch"],
        commit=first["commit"],
        config=_described(results),
        note=_note(test, method, results),
    )


def _passes(settings: Settings) -> int | None:
    """Encoder passes over a graph for one answer, where tuples are found before the test.

    The control `moves` makes as many moves; `walks` evaluates as many random tuples, by refinement, as the agent reads
    copies.
    """
    if not isinstance(settings, RpcSettings) or not settings.is_marked:
        return None
    searching = 0 if settings.proposals is None else settings.proposals.passes
    return searching + settings.num_tuples


def _moves(settings: Settings, method: str) -> int | None:
    if isinstance(settings, BaselineSettings) or method == "gin":
        return None
    if isinstance(settings, RpcSettings) and settings.proposals is not None:
        return settings.proposals.moves
    return 0 if method in ("random-marks", FINEST) else settings.num_moves


def _num_tuples(settings: Settings) -> int | None:
    """m where it is one number; from `nodes` it is |V|, from `all` |V|^2."""
    if isinstance(settings, PaperSettings):
        return 1
    if isinstance(settings, BaselineSettings) or settings.start in ("nodes", "all"):
        return None
    return settings.num_tuples


def _note(test: str, method: str, results: dict[BrecJob, Result]) -> str:
    """What else a reader must know: how many pairs there are, and for RPC the other rule and the controls."""
    tried = sum(len(job.pairs) for job in results) // len({job.seed for job in results})
    settings = {job.category: job.settings for job in results}
    untried = sum(len(_hopeless(settings[name], pairs)) for name, pairs in pair_ids(tuple(settings)).items())
    note = f"of {tried + untried} pairs"
    note += (
        f", {untried} of which no marks of this k distinguish (colour refinement) and were left out" if untried else ""
    )
    note += (
        f" that `{THREE_MARKS[test]}` cannot distinguish, with two marks at its tuples" if test in THREE_MARKS else ""
    )
    note += "; train_s covers training and test of all of them, for all methods of this k; params of the largest model"
    has_agent = method not in ("gin", *BASELINES) and test in ("rpc", "nodes", "paper")
    note += ", with its agent" if has_agent else ""
    note += "; no agent was trained" if method == FINEST else ""
    if test == "paper":
        return f"{note}; a start counts as right if both graphs are classified correctly"
    other = _by_seed(results, lambda job, result: float(pairs_of_job(job, result, method, 1.0).sum())).mean()
    one_seed = [result for job, result in results.items() if job.seed == 0]  # all seeds read the same tuples
    searches = [SearchCosts(**result["search"]) for result in one_seed if result.get("search")]
    note += f"; {SearchCosts.together(searches).in_words}" if searches else ""
    failed = [_control_failures(results, method, factor) for factor in (RELABELLINGS, 1.0)]
    return (
        f"{note}; T^2 / 32 > 72.34 as in the published program, control above it: {failed[0]:.2f}; "
        f"T^2 > 72.34: {float(other):.2f}, control above it: {failed[1]:.2f}"
    )


def _control_failures(results: dict[BrecJob, Result], method: str, factor: float) -> float:
    def failures(_: BrecJob, result: Result) -> float:
        return float(unreliable(torch.tensor(result["found"][method]["control"]), factor).sum())

    return float(_by_seed(results, failures).mean())


def _by_seed(results: dict[BrecJob, Result], value: Callable[[BrecJob, Result], float]) -> Tensor:
    """The sum over each seed's jobs, [runs]."""
    sums: dict[int, float] = {}
    for job, result in results.items():
        sums[job.seed] = sums.get(job.seed, 0.0) + value(job, result)
    return torch.tensor([sums[seed] for seed in sorted(sums)], dtype=torch.float64)


def _described(results: dict[BrecJob, Result]) -> str:
    """The settings in words; of several categories, each with its own."""
    found: dict[str, list[str]] = {}
    for job in results:
        names = found.setdefault(in_short(job.settings), [])
        if job.category not in names:
            names.append(job.category)
    if len(found) == 1:
        return next(iter(found))
    return " | ".join(f"{', '.join(names)}: {words}" for words, names in found.items())


def in_words(job: BrecJob, result: Result) -> str:
    """What the line of progress says of a result."""
    counts = "  ".join(f"{name} {int(pairs_of_job(job, result, name).sum())}" for name in result["found"])
    return f"of {len(job.pairs)}: {counts}  {result['seconds']:.0f} s"
