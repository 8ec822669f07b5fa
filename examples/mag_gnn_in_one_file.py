"""MAG-GNN in one file: the paper from top to bottom in plain PyTorch and PyG, without the package.

MAG-GNN (Kong et al., NeurIPS 2023) marks a few nodes of a graph and gives the marked graph to a GNN, which can then
distinguish graphs that no GNN distinguishes without marks. Some nodes are more informative than others, so an agent
moves the marks before the prediction. In the order of this file: marks (Eq. 2), the GNN over marked copies (Eq. 1),
the predictor f_p (Eq. 5), states and actions (Eq. 6-7), rewards (Eq. 8), the Q-network (Eq. 9), the greedy move
(Eq. 10), ORD training (Eq. 4, Algorithms 1 and 2), and the test after 0, 1, ..., t moves.

    python examples/mag_gnn_in_one_file.py         relabelled Shrikhande and rook's graphs; ten seconds on one core
    python examples/mag_gnn_in_one_file.py sr25    the paper's SR25, from $MAGGNN_DATA/sr25.npz; about eight minutes

The main differences from the paper:
  - The agent learns from exact lookahead. The paper trains a DQN by experience replay: it stores (s, a, r, s') for the
    one action a that was taken and fits Q(s, a) to the bootstrapped target r + gamma max_a' Q(s', a') (Eq. 18). Here
    the environment scores all k V actions on a tuple, and the whole Q-table is fitted to these rewards. This is
    possible because outcomes of actions are deterministic and few. Nothing is bootstrapped, and gamma is 0.
  - The reward measures the loss by 1 - p(y), which is bounded, where the paper takes the cross-entropy.
  - Walks go on for a few moves before they restart. In Algorithm 2 each experience starts from random tuples.
  - The Q-network also reads the pooled embedding of the tuple that moves; in Eq. 9 it is only part of the sum over U.
  - Among actions with equal Q-values one is drawn at random, because many nodes of a regular graph are symmetric.

Shapes: B graphs of a batch, V nodes of each graph (the same number in all graphs here), N = B V nodes and E directed
edges of the batch, m tuples, k nodes of a tuple, d width. Tuples are [B, m, k] and hold node ids from 0 to V - 1.
"""

import argparse
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv
from torch_geometric.utils import scatter, to_undirected


@dataclass(frozen=True)
class Settings:
    """The symbols of the paper and the lengths of training."""

    m: int = 1  # tuples of a graph, that is marked copies of it
    k: int = 2  # nodes of a tuple
    t: int = 2  # moves of a search
    d: int = 48  # width of the networks
    layers: int = 3  # T of Eq. 1
    learning_rate: float = 3e-3  # the peak of a cycle that ends near zero
    predictor_steps: int = 200
    starts: int = 8  # random sets U of each graph in a predictor step
    agent_steps: int = 200
    walkers: int = 32  # graphs that gather experience side by side
    walk_length: int = 4  # moves before a walk restarts from random tuples
    memory: int = 30_000  # experiences that D holds
    warm_up: int = 10  # calls of RL-Experience before the first Q update
    agent_batch: int = 64  # experiences in a Q update
    tests: int = 50  # random starts of each graph in the test


SR25 = Settings(d=64, layers=5, predictor_steps=3000, starts=16, agent_steps=1500, walkers=64, agent_batch=256)


# ---- Graphs ----------------------------------------------------------------------------------------------------------


def shrikhande_and_rook(copies: int = 8) -> list[Data]:
    """Relabelled copies of the Shrikhande graph (y = 0) and the 4 x 4 rook's graph (y = 1).

    Nodes are the cells of a 4 x 4 torus. In the Shrikhande graph a cell is joined to its shifts by (0, 1), (1, 0) and
    (1, 1) in both directions, in the rook's graph to all cells of its row and its column. Both are strongly regular
    with equal parameters, so 3-WL cannot distinguish them.
    """
    cell = torch.cartesian_prod(torch.arange(4), torch.arange(4))  # [16, 2]
    shift = (cell[:, None] - cell) % 4  # [16, 16, 2]
    steps = torch.tensor([[0, 1], [0, 3], [1, 0], [3, 0], [1, 1], [3, 3]])
    shrikhande = (shift[:, :, None] == steps).all(-1).any(-1)  # [16, 16]
    rook = (shift == 0).sum(-1) == 1
    edges = [adjacency.nonzero().T for adjacency in (shrikhande, rook)] * copies  # [2, 96] each
    relabelled = [torch.randperm(16)[edge_index] for edge_index in edges]
    return [make_graph(edge_index, 16, number % 2, number) for number, edge_index in enumerate(relabelled)]


def sr25(path: Path) -> list[Data]:
    """The 15 strongly regular graphs with parameters (25, 12, 5, 6), each a class of its own, from a packed file."""
    file = np.load(path)
    ends = file["num_edges"].astype(int).cumsum()  # graphs lie back to back, each undirected edge once
    edges = np.split(file["edge_index"].astype(int), ends[:-1], axis=1)
    return [make_graph(to_undirected(torch.from_numpy(e)), 25, int(file["y"][i]), i) for i, e in enumerate(edges)]


def make_graph(edge_index: Tensor, num_nodes: int, y: int, number: int) -> Data:
    """A graph that knows its class and its number in the set."""
    return Data(edge_index=edge_index, num_nodes=num_nodes, y=torch.tensor([y]), number=torch.tensor([number]))


def batch_of(graphs: list[Data], numbers: Tensor) -> Batch:
    """The graphs with these numbers [B], side by side."""
    return Batch.from_data_list([graphs[number] for number in numbers.tolist()])


# ---- The GNN over marked copies --------------------------------------------------------------------------------------


def marks(graphs: Batch, tuples: Tensor, c_plus: float = 1.0, c_minus: float = 0.0) -> Tensor:
    """Eq. 2: X(v) is c+ where node l is entry j of tuple v, and c- elsewhere. [B, m, k] -> [N, m, k]."""
    m, k = tuples.shape[1:]
    result = torch.full((graphs.num_nodes, m, k), c_minus)
    node = tuples + graphs.ptr[:-1, None, None]  # [B, m, k], ids within the batch
    result[node, torch.arange(m)[:, None], torch.arange(k)] = c_plus
    return result


class Norm(nn.BatchNorm1d):
    """Batch normalisation of the last dimension; all other dimensions count as rows."""

    def forward(self, h: Tensor) -> Tensor:
        return super().forward(h.flatten(0, -2)).view_as(h)


class Encoder(nn.Module):
    """Eq. 1, the MPNN g: GIN layers over all marked copies at once. [B, m, k] -> [N, m, d].

    The m copies of a graph share its edges and differ in their marks only, so the copies are a dimension of the
    features, and `node_dim=0` declares nodes as the first dimension. With k = 0 there are no marks: a plain GIN.
    """

    def __init__(self, k: int, d: int, layers: int):
        super().__init__()
        self.first = nn.Linear(1 + k, d)
        self.convolutions, self.norms = nn.ModuleList(), nn.ModuleList()
        for _ in range(layers):  # without biases, which the norms would subtract again
            mlp = nn.Sequential(nn.Linear(d, d, bias=False), Norm(d), nn.ReLU(), nn.Linear(d, d, bias=False))
            self.convolutions.append(GINConv(mlp, train_eps=True, node_dim=0))
            self.norms.append(Norm(d))

    def forward(self, graphs: Batch, tuples: Tensor) -> Tensor:
        x = torch.ones(graphs.num_nodes, tuples.shape[1], 1)  # X: the graphs have no features, all nodes have the same
        h = self.first(torch.cat([x, marks(graphs, tuples)], dim=-1))  # X and X(v) side by side, embedded; [N, m, d]
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            h = norm(convolution(h, graphs.edge_index)).relu()
        return h


def pool(h: Tensor, graphs: Batch) -> Tensor:
    """R^(G): the mean over the nodes of each marked copy. [N, m, d] -> [B, m, d]."""
    return scatter(h, graphs.batch, dim=0, dim_size=graphs.num_graphs, reduce="mean")


class Predictor(nn.Module):
    """Eq. 5, f_p and its MLP: embed each marked copy, take the mean over the tuples in U, predict the class."""

    def __init__(self, k: int, d: int, layers: int, classes: int):
        super().__init__()
        self.encoder = Encoder(k, d, layers)
        # A mark changes a mean over nodes only a little; the first norm brings that change to scale.
        self.mlp = nn.Sequential(Norm(d), nn.Linear(d, d), Norm(d), nn.ReLU(), nn.Linear(d, classes))

    def embed(self, graphs: Batch, tuples: Tensor) -> Tensor:
        """g_p(G(v)), pooled, of each tuple. [B, m, k] -> [B, m, d]."""
        return pool(self.encoder(graphs, tuples), graphs)

    def forward(self, graphs: Batch, tuples: Tensor) -> Tensor:
        return self.mlp(self.embed(graphs, tuples).mean(dim=1))  # [B, classes]


# ---- States, actions and rewards -------------------------------------------------------------------------------------


class State(NamedTuple):
    """Eq. 6: s = (G, U, W). The paper keeps the state matrix W at zero in its experiments, so it is left out here."""

    graphs: Batch  # G: B graphs
    tuples: Tensor  # U: [B, m, k]


class Move(NamedTuple):
    """Actions a(i, j, l), one on each tuple i; all tuples move at once, as in the paper's experiments."""

    slot: Tensor  # j: [B, m]
    node: Tensor  # l: [B, m]


def random_tuples(graphs: Batch, m: int, k: int) -> Tensor:
    """Tuples drawn from V^k, [B, m, k]. A node may fill several slots."""
    return torch.randint(graphs.num_nodes // graphs.num_graphs, (graphs.num_graphs, m, k))


def after(state: State, move: Move) -> State:
    """Eq. 7: node l replaces entry j of each tuple."""
    return State(state.graphs, state.tuples.scatter(-1, move.slot[..., None], move.node[..., None]))


def all_outcomes(tuples: Tensor, num_nodes: int) -> Tensor:
    """Eq. 7 for every action: [b, i, l, j] is tuple i with node l as its entry j. [B, m, k] -> [B, m, V, k, k]."""
    node = torch.arange(num_nodes)[:, None, None]  # [V, 1, 1]
    return torch.where(torch.eye(tuples.shape[-1], dtype=torch.bool), node, tuples[:, :, None, None])


def error(outputs: Tensor, y: Tensor) -> Tensor:
    """The loss that rewards compare: 1 - p(y). [B, ..., classes] -> [B, ...]."""
    y = y.view(-1, *[1] * (outputs.ndim - 1)).expand(*outputs.shape[:-1], 1)
    return 1 - outputs.softmax(dim=-1).gather(-1, y)[..., 0]


class Environment:
    """The frozen predictor as judge of states. It embeds each of the V^k marked copies of a graph once."""

    @torch.no_grad()
    def __init__(self, predictor: Predictor, graphs: list[Data], k: int):
        self.mlp, self.num_nodes = predictor.eval().mlp, graphs[0].num_nodes
        every = torch.cartesian_prod(*[torch.arange(self.num_nodes)] * k).view(1, -1, k)  # V^k in lexicographic order
        self.table = torch.cat([predictor.embed(Batch.from_data_list([graph]), every) for graph in graphs])
        self.place_values = self.num_nodes ** torch.arange(k - 1, -1, -1)  # the table is [all graphs, V^k, d]

    def embed(self, graphs: Batch, tuples: Tensor) -> Tensor:
        """The same as `Predictor.embed`, looked up. [B, m, k] -> [B, m, d]."""
        return self.table[graphs.number[:, None], (tuples * self.place_values).sum(dim=-1)]

    @torch.no_grad()
    def rewards(self, state: State) -> Tensor:
        """Eq. 8, the loss before an action minus the loss after it, of every action on each tuple: [B, m, V, k]."""
        graphs, tuples = state
        outcomes = all_outcomes(tuples, self.num_nodes)  # [B, m, V, k, k]
        old = self.embed(graphs, tuples)  # [B, m, d]
        new = self.embed(graphs, outcomes.flatten(1, 3)).unflatten(1, outcomes.shape[1:4])  # [B, m, V, k, d]
        others = old.sum(dim=1, keepdim=True) - old  # [B, m, d]: one tuple moves, the others stay
        mean = (others[:, :, None, None] + new) / tuples.shape[1]  # [B, m, V, k, d]
        before = error(self.mlp(old.mean(dim=1)), graphs.y)  # [B]
        return before[:, None, None, None] - error(self.mlp(mean), graphs.y)


# ---- The agent -------------------------------------------------------------------------------------------------------


class QNetwork(nn.Module):
    """Eq. 9: with an MPNN g_rl of its own, the value of every action on each tuple. [B, m, k] -> [B, m, V, k]."""

    def __init__(self, k: int, d: int, layers: int):
        super().__init__()
        self.encoder = Encoder(k, d, layers)
        self.mlp = nn.Sequential(nn.Linear(3 * d, d), nn.ReLU(), nn.Linear(d, k))

    def forward(self, state: State) -> Tensor:
        h = self.encoder(state.graphs, state.tuples)  # [N, m, d]
        own = pool(h, state.graphs)  # [B, m, d]
        total = own.sum(dim=1, keepdim=True).expand_as(own)  # [B, m, d]
        context = torch.cat([own, total], dim=-1)[state.graphs.batch]  # [N, m, 2 d]
        q = self.mlp(torch.cat([h, context], dim=-1))  # [N, m, k]
        return q.unflatten(0, (state.graphs.num_graphs, -1)).transpose(1, 2)  # [B, m, V, k]


@torch.no_grad()
def greedy_move(q_network: QNetwork, state: State) -> Move:
    """Eq. 10: the slot and the node with the largest Q-value, for each tuple; ties are broken at random."""
    q = q_network.eval()(state).flatten(2)  # [B, m, V k]
    is_best = q >= q.amax(dim=-1, keepdim=True) - 1e-5  # the values of symmetric nodes differ by rounding
    choice = torch.rand(q.shape).masked_fill(~is_best, -1).argmax(dim=-1)  # [B, m]
    k = state.tuples.shape[-1]
    return Move(slot=choice % k, node=choice // k)


def random_move(state: State) -> Move:
    """A random action on each tuple: what the agent explores with, and the control in the test."""
    num_graphs, m, k = state.tuples.shape
    return Move(slot=torch.randint(k, (num_graphs, m)), node=random_tuples(state.graphs, m, 1)[..., 0])


def epsilon_greedy(q_network: QNetwork, state: State, epsilon: float) -> Move:
    """For each graph a random move with probability epsilon, else the greedy one."""
    if epsilon == 0:
        return greedy_move(q_network, state)
    explore = torch.rand(len(state.tuples), 1) < epsilon  # [B, 1]
    greedy, drawn = greedy_move(q_network, state), random_move(state)
    return Move(torch.where(explore, drawn.slot, greedy.slot), torch.where(explore, drawn.node, greedy.node))


def search(q_network: QNetwork, state: State, moves: int, epsilon: float = 0.0) -> list[State]:
    """The states before the first move, after it, after the second, ...; with epsilon = 1 all moves are random."""
    states = [state]
    for _ in range(moves):
        states.append(after(states[-1], epsilon_greedy(q_network, states[-1], epsilon)))
    return states


# ---- Training --------------------------------------------------------------------------------------------------------


def optimiser_step(network: nn.Module, peak: float, steps: int) -> Callable[[Tensor], None]:
    """Adam with a learning rate that rises to its peak and falls again; the function takes a step on a loss."""
    optimiser = torch.optim.Adam(network.parameters(), peak)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, peak, steps, pct_start=0.1)

    def step(loss: Tensor) -> None:
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()

    return step


def train_predictor(predictor: Predictor, graphs: list[Data], k: int, settings: Settings) -> None:
    """Algorithm 2, lines 1-5: the expected loss over random tuples (Eq. 4)."""
    m, starts = settings.m, settings.starts if k else 1  # without marks all copies of a graph are equal
    batch = Batch.from_data_list(graphs)  # the whole set, which is small
    optimise = optimiser_step(predictor, settings.learning_rate, settings.predictor_steps)
    for _ in range(settings.predictor_steps):
        tuples = random_tuples(batch, starts * m, k)  # several sets U of each graph share its edges
        embeddings = predictor.train().embed(batch, tuples).unflatten(1, (starts, m))  # [B, starts, m, d]
        outputs = predictor.mlp(embeddings.mean(dim=2))  # [B, starts, classes]
        optimise(F.cross_entropy(outputs.flatten(0, 1), batch.y.repeat_interleave(starts)))


def train_agent(q_network: QNetwork, environment: Environment, graphs: list[Data], settings: Settings) -> None:
    """Algorithm 2, lines 6-14: gather experience with f_p frozen, and fit the Q-network to it."""
    memory = deque(maxlen=settings.memory)  # D
    optimise = optimiser_step(q_network, settings.learning_rate, settings.agent_steps)
    for step in range(-settings.warm_up, settings.agent_steps):
        if (step + settings.warm_up) % settings.walk_length == 0:
            batch = batch_of(graphs, torch.randint(len(graphs), (settings.walkers,)))
            state = State(batch, random_tuples(batch, settings.m, settings.k))
        # RL-Experience (Algorithm 1). A DQN would store the reward of the move that is made, and the state after it.
        memory.extend(zip(state.graphs.number, state.tuples, environment.rewards(state), strict=True))
        epsilon = 1 - 0.9 * min(1, max(0, 2 * step / settings.agent_steps))  # from 1 to 0.1 in half of the steps
        state = after(state, epsilon_greedy(q_network, state, epsilon))
        if step < 0:  # "until D has enough memory"
            continue
        # Experience replay. A DQN would fit the one action of an experience, to r + gamma max Q(s').
        drawn = [memory[row] for row in torch.randint(len(memory), (settings.agent_batch,)).tolist()]
        numbers, tuples, rewards = (torch.stack(part) for part in zip(*drawn, strict=True))
        q = q_network.train()(State(batch_of(graphs, numbers), tuples))  # [B, m, V, k]
        optimise(F.mse_loss(q, rewards))


# ---- The test --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def accuracies(predictor: Predictor, states: list[State]) -> list[float]:
    """Accuracy in per cent of the predictions from each state of a search."""
    predictor.eval()
    return [100 * float((predictor(*state).argmax(dim=-1) == state.graphs.y).float().mean()) for state in states]


def main() -> None:
    parser = argparse.ArgumentParser(description="MAG-GNN in one file.")
    parser.add_argument("data", nargs="?", choices=["shrikhande_rook", "sr25"], default="shrikhande_rook")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    began = time.perf_counter()
    if parser.parse_args().data == "sr25":
        graphs, settings = sr25(Path(os.environ.get("MAGGNN_DATA", ".")) / "sr25.npz"), SR25
    else:
        graphs, settings = shrikhande_and_rook(), Settings()
    m, k, d, layers, classes = settings.m, settings.k, settings.d, settings.layers, len({int(g.y) for g in graphs})

    gin, predictor = Predictor(0, d, layers, classes), Predictor(k, d, layers, classes)
    train_predictor(gin, graphs, 0, settings)  # the control without marks
    train_predictor(predictor, graphs, k, settings)
    q_network = QNetwork(k, d, layers)
    train_agent(q_network, Environment(predictor, graphs, k), graphs, settings)

    # As in the paper, the graphs of the test are those of training; their tuples are drawn again.
    batch = batch_of(graphs, torch.arange(len(graphs)).repeat(settings.tests))
    start = State(batch, random_tuples(batch, m, k))
    agent = accuracies(predictor, search(q_network, start, settings.t))
    control = accuracies(predictor, search(q_network, start, settings.t, epsilon=1))
    rows = {
        "GIN, no marks": accuracies(gin, [State(batch, start.tuples[..., :0])]),
        "random marks": control[:1],
        "random moves": [None, *control[1:]],
        "agent": [None, *agent[1:]],
    }
    print(f"{len(graphs)} graphs of {classes} classes, {settings.tests} random starts of each, m = {m}, k = {k}")
    print("accuracy (%) after moves " + "".join(f"{moves:8}" for moves in range(settings.t + 1)))
    for name, values in rows.items():
        print(f"{name:25}" + "".join(f"{'':8}" if value is None else f"{value:8.1f}" for value in values))
    print(f"{time.perf_counter() - began:.0f} seconds")


if __name__ == "__main__":
    main()
