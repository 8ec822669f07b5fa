"""The agent of every pair at once: moves, the environment that judges them, and Q-learning from exact outcomes.

ORD (Algorithm 2) within each pair: the predictor is frozen, so every tuple of V^k of both graphs is embedded once, and
each one-move outcome of a state is a look-up and a readout. Q regresses whole rows of its table on these true rewards
(the target `lookahead` of `maggnn.training.q_learning`). Nothing is bootstrapped, so there is no replay either:
walkers show the states that a search passes through, as they are now.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from maggnn.agent import TIE
from maggnn.capture import Captured
from maggnn.errors import InputError
from maggnn.experiments.brec.batched import Adam, Predictor, QNetwork, settle
from maggnn.experiments.brec.pairs import Pairs
from maggnn.training.schedules import epsilon, learning_rate
from maggnn.tuples import all_tuples

MOST_FEATURES = {"cpu": 1 << 20, "cuda": 1 << 28}
"""Features P G n C d of one pass: on a CPU they stay in its caches, a GPU they keep busy."""

MOST_TUPLES = 200_000
"""Of one graph, in a table of embeddings: k = 2 up to 447 nodes."""

Starts = Callable[[int], Tensor]
"""How many -> so many sets U of each graph before their first move, [P, 2, S, m, k]."""

ErrorOf = Callable[[Tensor], Tensor]
"""Pooled embeddings of sets U [P, 2, ..., d] -> 1 - p(y), what lacks to certainty about the graph, [P, 2, ...]."""


@dataclass(frozen=True)
class AgentSettings:
    """How Q learns.

    Attributes:
        steps: Q updates, each of all pairs.
        walkers: states of each graph in an update.
        walk_length: moves before a walker begins again.
        peak_rate: of one cycle.
        epsilon_end: where the share of random moves ends.
    """

    steps: int = 400
    walkers: int = 16
    walk_length: int = 4
    peak_rate: float = 3e-3
    epsilon_end: float = 0.1


# ---- moves ----------------------------------------------------------------------------------------------


def random_moves(graphs: Pairs, tuples: Tensor, generator: torch.Generator) -> Tensor:
    """Put a uniformly random node into a random slot of every tuple, [P, G, S, m, k]."""
    uniform = torch.rand((2, *tuples.shape[:-1]), generator=generator, device=tuples.device, dtype=torch.float64)
    node = (uniform[0] * graphs.num_nodes[:, None, None, None]).long()
    slot = (uniform[1] * tuples.shape[-1]).long()
    return tuples.scatter(-1, slot[..., None], node[..., None])


def best_moves(q_table: Tensor, graphs: Pairs, tuples: Tensor, generator: torch.Generator) -> Tensor:
    """Eq. 10 for every tuple at once, ties broken at random; q_table: [P, G, n, S, m, k]."""
    order = tuples.shape[-1]
    is_node = graphs.is_node[:, None, :, None, None, None]
    rows = q_table.masked_fill(~is_node, float("-inf")).permute(0, 1, 3, 4, 2, 5).flatten(4)  # [P, G, S, m, n k]
    ties = rows >= rows.amax(dim=-1, keepdim=True) - TIE
    noise = torch.rand(rows.shape, generator=generator, device=rows.device)
    choice = noise.masked_fill(~ties, -1.0).argmax(dim=-1, keepdim=True)
    return tuples.scatter(-1, choice % order, choice // order)


@torch.no_grad()
def search(
    q_network: QNetwork | None, graphs: Pairs, tuples: Tensor, num_moves: int, generator: torch.Generator
) -> Tensor:
    """Tuples [P, G, S, m, k] after t moves of the agent, or after t random ones where there is none."""
    for _ in range(num_moves):
        if q_network is None:
            tuples = random_moves(graphs, tuples, generator)
        else:
            chunks = _split(tuples, 2, graphs, q_network.encoder.hidden)
            moved = [best_moves(q_network(graphs, part), graphs, part, generator) for part in chunks]
            tuples = torch.cat(moved, dim=2)
    return tuples


# ---- the environment ------------------------------------------------------------------------------------


class Environment:
    """A frozen predictor as the judge of states (Eq. 5) and moves (Eq. 8), with every tuple of V^k embedded once.

    Shapes:
        table: [P, 2, n^k, d], tuples in lexicographic order of padded node ids.
    """

    @torch.no_grad()
    def __init__(self, predictor: Predictor, graphs: Pairs, tuple_order: int) -> None:
        num_pairs, num_graphs, n = graphs.size
        if n**tuple_order > MOST_TUPLES:
            raise InputError(
                f"{n} nodes have {n**tuple_order:,} tuples of order {tuple_order}: more than are tabulated"
            )
        self.predictor = predictor.eval()
        self.graphs = graphs
        tuples = all_tuples(n, tuple_order, graphs.device).expand(num_pairs, num_graphs, -1, -1)
        parts = _split(tuples, 2, graphs, predictor.encoder.hidden)
        self.table = torch.cat([predictor.embed(graphs, part) for part in parts], dim=2)

    def embed(self, tuples: Tensor) -> Tensor:
        """Looked up: [P, 2, ..., k] -> [P, 2, ..., d]."""
        row = torch.zeros(tuples.shape[:-1], dtype=torch.long, device=tuples.device)
        for slot in range(tuples.shape[-1]):
            row = row * self.graphs.size[2] + tuples[..., slot]
        flat = row.flatten(2)[..., None].expand(-1, -1, -1, self.table.shape[-1])
        return self.table.gather(2, flat).view(*row.shape, -1)

    @torch.no_grad()
    def outputs(self, tuples: Tensor) -> Tensor:
        """The predictor's answers to sets U [P, 2, S, m, k], [P, 2, S, out]."""
        return self.predictor.read(self.embed(tuples).mean(dim=3))

    @torch.no_grad()
    def rewards(self, tuples: Tensor, mover: Tensor, error_of: ErrorOf) -> Tensor:
        """Eq. 8 for every single move of tuple `mover` [P, 2, S] of U [P, 2, S, m, k]: [P, 2, S, n, k]."""
        num_tuples, order = tuples.shape[3:]
        own = tuples.gather(3, mover[..., None, None].expand(*mover.shape, 1, order))  # [P, 2, S, 1, k]
        node = torch.arange(self.graphs.size[2], device=tuples.device)
        is_slot = torch.eye(order, dtype=torch.bool, device=tuples.device)
        outcomes = torch.where(is_slot, node[:, None, None], own[..., None, :])  # [P, 2, S, n, k, k]
        present = self.embed(tuples)  # [P, 2, S, m, d]
        others = present.sum(dim=3) - self.embed(own)[:, :, :, 0]
        after = (others[:, :, :, None, None] + self.embed(outcomes)) / num_tuples  # [P, 2, S, n, k, d]
        return error_of(present.mean(dim=3))[..., None, None] - error_of(after)


# ---- learning -------------------------------------------------------------------------------------------


def learn_agent(
    environment: Environment,
    error_of: ErrorOf,
    starts: Starts,
    settings: AgentSettings,
    q_network: QNetwork,
    generator: torch.Generator,
) -> None:
    """Train the Q-networks of all pairs, on walks that begin where a search does."""
    graphs, optimiser = environment.graphs, Adam(q_network.parameters())
    walk = _Walk(graphs, starts, settings, generator)
    q_network.train()

    def fit(_: None) -> Tensor:
        tuples = walk.tuples
        mover = torch.randint(tuples.shape[3], tuples.shape[:3], generator=generator, device=tuples.device)
        reward = environment.rewards(tuples, mover, error_of)
        q_table = q_network(graphs, tuples)  # [P, 2, n, S, m, k]
        loss = _row_loss(q_table, mover, reward, graphs)
        loss.backward()
        optimiser.step()
        walk.go_on(q_table.detach())
        return loss.detach()

    recorded = Captured(fit, graphs.device, [generator])
    for step in range(settings.steps):
        optimiser.rate.fill_(learning_rate(settings.peak_rate, "one_cycle", step, settings.steps))
        walk.explore.fill_(epsilon(settings.epsilon_end, 0.5, step, settings.steps))
        recorded(None)
    settle(q_network, lambda: walk.go_on(q_network(graphs, walk.tuples)))


class _Walk:
    """States that a search passes through; all tensors are changed in place, where a recorded step finds them.

    Attributes:
        tuples: the walkers' sets U, [P, 2, S, m, k].
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
        moved = torch.where(explores[..., None, None], random, greedy)
        self.age.add_(1).remainder_(self.length)
        begins = (self.age == 0)[:, None, None]
        self.tuples.copy_(torch.where(begins, self.starts(len(self.age)), moved))


def _row_loss(q_table: Tensor, mover: Tensor, reward: Tensor, graphs: Pairs) -> Tensor:
    """Squared error of the mover's row of Q; each pair's own mean, summed, so that pairs do not weigh each other."""
    index = mover[:, :, None, :, None, None].expand(*q_table.shape[:4], 1, q_table.shape[-1])
    row = q_table.gather(4, index)[:, :, :, :, 0].transpose(2, 3)  # [P, 2, S, n, k]
    share = graphs.node_share[:, None, None, :, None]
    return ((row - reward).square() * share).sum(dim=3).mean(dim=(1, 2, 3)).sum()


def _split(tuples: Tensor, dim: int, graphs: Pairs, hidden: int) -> tuple[Tensor, ...]:
    """Parts of tuples [P, G, ...] along a dimension, small enough for one pass each."""
    num_pairs, num_graphs, n = graphs.size
    each = num_pairs * num_graphs * n * hidden * (tuples.shape[3] if tuples.ndim == 5 else 1)
    return tuples.split(max(1, MOST_FEATURES[graphs.device.type] // each), dim=dim)
