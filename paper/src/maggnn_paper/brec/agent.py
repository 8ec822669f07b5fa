"""The agent of every pair at once: moves, the table that judges them, and Q-learning from exact outcomes.

ORD (Algorithm 2) within each pair: the predictor is frozen, so it answers for every tuple of V^k of both graphs once,
and what a move is worth is a look-up. The agent moves each tuple by itself (Eq. 9 with m = 1). Q regresses whole rows
of its table on true worths (the target `lookahead` of `maggnn.training.q_learning`, seen further, see `foreseen`).
Nothing is bootstrapped, so there is no replay either: walkers show the states that a search passes through, as they
are now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.agent import best_index
from maggnn.model.kernels.capture import Captured
from maggnn.model.tuples import all_tuples
from maggnn.training.schedules import epsilon, learning_rate
from maggnn_paper.brec.batched import Adam, Predictor, QNetwork, settle
from maggnn_paper.brec.pairs import Pairs

MOST_FEATURES = {"cpu": 1 << 20, "cuda": 1 << 28}
"""Features P G n C d of one pass: on a CPU they stay in its caches, a GPU they keep busy."""

MOST_TUPLES = 200_000
"""Of one graph, in a table of answers: k = 2 up to 447 nodes."""

Starts = Callable[[int], Tensor]
"""How many -> so many tuples of each graph before their first move, [P, 2, S, k]."""


@dataclass(frozen=True)
class AgentSettings:
    """How Q learns.

    Attributes:
        steps: Q updates, each of all pairs.
        walkers: states of each graph in an update.
        walk_length: moves before a walker begins again, and how far ahead errors are looked at (`foreseen`).
        peak_rate: of one cycle.
        epsilon_end: where the share of random moves ends.
        gamma: what a later gain counts against the same gain now.
    """

    steps: int = 400
    walkers: int = 16
    walk_length: int = 4
    peak_rate: float = 3e-3
    epsilon_end: float = 0.1
    gamma: float = 0.5


# ---- moves ----------------------------------------------------------------------------------------------


def random_moves(graphs: Pairs, tuples: Tensor, generator: torch.Generator) -> Tensor:
    """Put a uniformly random node into a random slot of every tuple, [P, G, S, k]."""
    uniform = torch.rand((2, *tuples.shape[:-1]), generator=generator, device=tuples.device, dtype=torch.float64)
    node = (uniform[0] * graphs.num_nodes[:, None, None]).long()
    slot = (uniform[1] * tuples.shape[-1]).long()
    return tuples.scatter(-1, slot[..., None], node[..., None])


def best_moves(q_table: Tensor, graphs: Pairs, tuples: Tensor, generator: torch.Generator) -> Tensor:
    """Eq. 10 for every tuple, ties broken at random; q_table: [P, G, n, S, k]."""
    order = tuples.shape[-1]
    is_node = graphs.is_node[:, None, :, None, None]
    rows = q_table.masked_fill(~is_node, float("-inf")).transpose(2, 3).flatten(3)  # [P, G, S, n k]
    choice = best_index(rows, generator)[..., None]
    return tuples.scatter(-1, choice % order, choice // order)


def q_of_singles(q_network: QNetwork, graphs: Pairs, tuples: Tensor) -> Tensor:
    """Q of tuples [P, G, S, k], each a set U of its own: [P, G, n, S, k]."""
    return q_network(graphs, tuples[:, :, :, None])[:, :, :, :, 0]


@torch.no_grad()
def search(
    q_network: QNetwork | None, graphs: Pairs, tuples: Tensor, num_moves: int, generator: torch.Generator
) -> Tensor:
    """Tuples [P, G, S, k] after t moves of the agent, or after t random ones where there is none."""
    for _ in range(num_moves):
        if q_network is None:
            tuples = random_moves(graphs, tuples, generator)
        else:
            chunks = _split(tuples, graphs, q_network.encoder.hidden)
            moved = [best_moves(q_of_singles(q_network, graphs, part), graphs, part, generator) for part in chunks]
            tuples = torch.cat(moved, dim=2)
    return tuples


# ---- tables over V^k ------------------------------------------------------------------------------------


@torch.no_grad()
def every_answer(predictor: Predictor, graphs: Pairs, tuple_order: int) -> Tensor:
    """The answer to each U = {v}, v in V^k in lexicographic order of padded node ids, [P, G, n^k, out]."""
    num_pairs, num_graphs, n = graphs.size
    if n**tuple_order > MOST_TUPLES:
        raise InputError(f"{n} nodes have {n**tuple_order:,} tuples of order {tuple_order}: more than are tabulated")
    tuples = all_tuples(n, tuple_order, graphs.device).expand(num_pairs, num_graphs, -1, -1)
    parts = _split(tuples, graphs, predictor.encoder.hidden)
    return predictor.read(torch.cat([predictor.embed(graphs, part) for part in parts], dim=2))


def look_up(table: Tensor, tuples: Tensor, graphs: Pairs) -> Tensor:
    """Entries of a table [P, G, n^k] for tuples [P, G, ..., k]: [P, G, ...]."""
    row = torch.zeros(tuples.shape[:-1], dtype=torch.long, device=tuples.device)
    for slot in range(tuples.shape[-1]):
        row = row * graphs.size[2] + tuples[..., slot]
    return table.gather(2, row.flatten(2)).view(row.shape)


def foreseen(errors: Tensor, graphs: Pairs, tuple_order: int, gamma: float, num_moves: int) -> Tensor:
    """The error of each tuple [P, 2, n^k] together with the errors that best moves from it lead to.

        E_0 = E,   E_i(v) = (1 - gamma) E(v) + gamma min over moves v -> v' of E_(i-1)(v')

    Where only tuples of two certain nodes tell, the move that brings the first of them gains nothing by itself.
    """
    num_pairs, num_graphs, n = graphs.size
    cube = (num_pairs, num_graphs, *[n] * tuple_order)
    padding = ~graphs.is_tuple(tuple_order).view(num_pairs, 1, *cube[2:])
    now = after = errors.view(cube)
    for _ in range(num_moves):
        known = after.masked_fill(padding, float("inf"))
        slots = [known.amin(dim=2 + slot, keepdim=True).expand(cube) for slot in range(tuple_order)]
        after = (1 - gamma) * now + gamma * torch.stack(slots).amin(dim=0)
    return after.masked_fill(padding, 1.0).flatten(2)


def move_rewards(errors: Tensor, graphs: Pairs, tuples: Tensor) -> Tensor:
    """Eq. 8 for every move of tuples [P, 2, S, k], node l into slot j, from errors [P, 2, n^k]: [P, 2, S, n, k]."""
    node = torch.arange(graphs.size[2], device=tuples.device)
    is_slot = torch.eye(tuples.shape[-1], dtype=torch.bool, device=tuples.device)
    outcomes = torch.where(is_slot, node[:, None, None], tuples[..., None, None, :])  # [P, 2, S, n, k, k]
    return look_up(errors, tuples, graphs)[..., None, None] - look_up(errors, outcomes, graphs)


# ---- learning -------------------------------------------------------------------------------------------


def learn_agent(
    graphs: Pairs,
    errors: Tensor,
    starts: Starts,
    settings: AgentSettings,
    q_network: QNetwork,
    generator: torch.Generator,
) -> None:
    """Train all Q-networks on the errors of tuples [P, 2, n^k], on walks that begin where a search does."""
    optimiser = Adam(q_network.parameters())
    walk = _Walk(graphs, starts, settings, generator)
    further = settings.walk_length - 1  # moves after the one that is judged
    errors = foreseen(errors, graphs, walk.tuples.shape[-1], settings.gamma, further)
    q_network.train()

    def fit(_: None) -> Tensor:
        reward = move_rewards(errors, graphs, walk.tuples)
        q_table = q_of_singles(q_network, graphs, walk.tuples)  # [P, 2, n, S, k]
        loss = _row_loss(q_table, reward, graphs)
        loss.backward()
        optimiser.step()
        walk.go_on(q_table.detach())
        return loss.detach()

    recorded = Captured(fit, graphs.device, [generator])
    for step in range(settings.steps):
        optimiser.rate.fill_(learning_rate(settings.peak_rate, "one_cycle", step, settings.steps))
        walk.explore.fill_(epsilon(settings.epsilon_end, 0.5, step, settings.steps))
        recorded(None)
    settle(q_network, lambda: walk.go_on(q_of_singles(q_network, graphs, walk.tuples)))


class _Walk:
    """States that a search passes through; all tensors are changed in place, where a recorded step finds them.

    Attributes:
        tuples: the walkers', [P, 2, S, k].
        explore: the share of random moves.
    """

    def __init__(self, graphs: Pairs, starts: Starts, settings: AgentSettings, generator: torch.Generator) -> None:
        self.graphs, self.starts, self.generator = graphs, starts, generator
        self.tuples = starts(settings.walkers).clone()
        self.explore = torch.ones((), device=graphs.device)
        self.length = settings.walk_length
        self.age = torch.arange(settings.walkers, device=graphs.device) % self.length

    def go_on(self, q_table: Tensor) -> None:
        """Every walker moves, at random with probability `explore`; at the end of its walk it begins again."""
        graphs, generator = self.graphs, self.generator
        greedy = best_moves(q_table, graphs, self.tuples, generator)
        random = random_moves(graphs, self.tuples, generator)
        explores = torch.rand(self.tuples.shape[:3], generator=generator, device=graphs.device) < self.explore
        moved = torch.where(explores[..., None], random, greedy)
        self.age.add_(1).remainder_(self.length)
        self.tuples.copy_(torch.where((self.age == 0)[:, None], self.starts(len(self.age)), moved))


def _row_loss(q_table: Tensor, reward: Tensor, graphs: Pairs) -> Tensor:
    """Squared error of Q [P, 2, n, S, k]; each pair's own mean, summed, so that pairs do not weigh each other."""
    share = graphs.node_share[:, None, None, :, None]
    return ((q_table.transpose(2, 3) - reward).square() * share).sum(dim=3).mean(dim=(1, 2, 3)).sum()


def _split(tuples: Tensor, graphs: Pairs, hidden: int) -> tuple[Tensor, ...]:
    """Parts of tuples [P, G, C, k], small enough for one pass each."""
    num_pairs, num_graphs, n = graphs.size
    return tuples.split(max(1, MOST_FEATURES[graphs.device.type] // (num_pairs * num_graphs * n * hidden)), dim=2)
