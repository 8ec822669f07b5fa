"""P networks of equal shape as one: weights have a leading dimension of pairs, linear maps are batched products.

The networks are those of `maggnn.model` with residual GIN layers, mean pooling and BatchNorm, and may have sines in
place of relu; tests hold them to equal outputs and gradients. BatchNorm takes its statistics over the real rows of each
pair alone. It makes a pair of nearly equal graphs distinguishable within eighty small steps: the norm before the
readout scales up the difference of two pooled embeddings, a small share of their size. LayerNorm would not: it
normalises each row separately and cannot subtract what the rows have in common.

Statistics for use after training are taken then, from the finished weights (`settle`). Running ones would be those of
slightly older weights, and the two pooled embeddings of a pair can differ by less than training moves their mean in
its last few steps: of thirty models of the hexagon against two triangles, all with a small loss, ten then gave both
graphs the same answer.

Features are [P, G, n, C, d]: as in `maggnn.model.encoder` the C marked copies of a graph share its edges.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from maggnn.errors import InputError
from maggnn_paper.brec.pairs import Pairs

SETTLING = 32
"""Batches whose mean statistics a finished model uses."""

NORM_EPS = 1e-5
"""As in `nn.BatchNorm1d`."""

FLAT = 1e-10
"""Variance in units of the squared mean below which a feature is constant but for rounding; it is left at zero.

Without marks all nodes of a regular graph are alike. A dozen norms, each of which divides by sqrt(NORM_EPS), would
make differences of single bits as large as real ones.
"""


class Linear(nn.Module):
    """P linear maps, [P, R, in] -> [P, R, out]; drawn as `nn.Linear` draws."""

    def __init__(self, num_pairs: int, width: int, out: int, generator: torch.Generator, bias: bool = True) -> None:
        super().__init__()
        bound = width**-0.5
        self.weight = nn.Parameter(_uniform((num_pairs, width, out), bound, generator))
        self.bias = nn.Parameter(_uniform((num_pairs, 1, out), bound, generator)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight if self.bias is None else torch.baddbmm(self.bias, x, self.weight)


class Norm(nn.Module):
    """P times BatchNorm over rows [P, R, d], each row with its share [P, 1, R] in the statistics (0 for padding)."""

    mean: Tensor
    variance: Tensor

    def __init__(self, num_pairs: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(num_pairs, 1, width))
        self.bias = nn.Parameter(torch.zeros(num_pairs, 1, width))
        self.register_buffer("mean", torch.zeros(num_pairs, 1, width))
        self.register_buffer("variance", torch.ones(num_pairs, 1, width))
        self.settled_on: int | None = None

    def forward(self, h: Tensor, share: Tensor) -> Tensor:
        if not self.training:
            scale = _over_spread(self.mean, self.variance) * self.weight
            return torch.addcmul(self.bias - self.mean * scale, h, scale)
        out, mean, variance = _Normalised.apply(h, share, self.weight, self.bias)
        if self.settled_on is not None:
            self._remember(mean, variance, self.settled_on)
        return out

    def _remember(self, mean: Tensor, variance: Tensor, batches: int) -> None:
        """The mean over one batch more."""
        self.mean.lerp_(mean, 1 / (batches + 1))
        self.variance.lerp_(variance, 1 / (batches + 1))
        self.settled_on = batches + 1


@torch.no_grad()
def settle(network: nn.Module, run_batch: Callable[[], object]) -> None:
    """End training: norms take the statistics of the finished weights, each from batches normalised as in training."""
    norms = [module for module in network.modules() if isinstance(module, Norm)]
    for norm in norms:
        norm.settled_on = 0
    for _ in range(SETTLING):
        run_batch()
    for norm in norms:
        norm.settled_on = None
    network.eval()


def _over_spread(mean: Tensor, variance: Tensor) -> Tensor:
    """One over the standard deviation, 0 for features that do not vary."""
    return (variance + NORM_EPS).rsqrt() * (variance > FLAT * mean.square())


class _Normalised(torch.autograd.Function):
    """BatchNorm of rows with shares, with its derivative in closed form: a third of the passes that autograd makes.

    With s the shares, x the standardised rows, w the weight over the spread and g the derivative by the output:

        dh = w (g - s sum(g) - s x sum(g x))
    """

    @staticmethod
    def forward(ctx: Any, h: Tensor, share: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean = share @ h  # [P, 1, d]
        centred = h - mean
        variance = share @ centred.square()
        scale = _over_spread(mean, variance)
        ctx.save_for_backward(centred, scale, share, weight)
        ctx.mark_non_differentiable(mean, variance)
        return torch.addcmul(bias, centred, scale * weight), mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, Tensor, Tensor]:
        gradient = gradients[0]
        centred, scale, share, weight = ctx.saved_tensors
        by_bias = gradient.sum(dim=1, keepdim=True)  # [P, 1, d]
        by_weight = (gradient * centred).sum(dim=1, keepdim=True) * scale
        common = torch.addcmul(by_bias, centred, scale * by_weight)  # sum(g) + x sum(g x)
        by_h = torch.addcmul(gradient, common, share.transpose(1, 2), value=-1).mul_(scale * weight)
        return by_h, None, by_weight, by_bias


def activation(h: Tensor, frequency: float) -> Tensor:
    """relu, or sin(frequency * h): layers that forget nothing.

    GIN's sum is injective and an MLP with relu can be. With initial weights it is nearly linear, and
    the effect of two marks fades layer by layer: in pair 260, of the informative tuples (41 % by colour refinement),
    the strongest changes an output by 2e-6 after twelve layers of relu, and all of them by about 1 with sin(3 h). With
    sin(6 h) rounding errors become large as well. But outputs that differ at random are hard to predict for an agent,
    so lower frequencies are better for it.
    """
    return torch.sin(frequency * h) if frequency else h.relu()


class GINLayer(nn.Module):
    """h_v' = h_v + MLP((1 + eps) h_v + sum of h_u over neighbours u), normalised and activated.

    The sum with h_v (a residual layer) is worth as much as twice the training on the basic pairs.
    """

    def __init__(self, num_pairs: int, hidden: int, frequency: float, generator: torch.Generator) -> None:
        super().__init__()
        self.frequency = frequency
        self.eps = nn.Parameter(torch.zeros(num_pairs, 1, 1))
        self.first = Linear(num_pairs, hidden, hidden, generator, bias=False)  # BatchNorm takes a bias out again
        self.norm = Norm(num_pairs, hidden)
        self.second = Linear(num_pairs, hidden, hidden, generator, bias=False)
        self.last_norm = Norm(num_pairs, hidden)

    def forward(self, h: Tensor, graphs: Pairs, share: Tensor) -> Tensor:
        num_pairs, num_graphs, n = graphs.size
        neighbours = graphs.adjacency.reshape(-1, n, n) @ h.reshape(num_pairs * num_graphs, n, -1)
        rows = h.reshape(num_pairs, -1, h.shape[-1])  # [P, R = G n C, d]
        rows = torch.addcmul(neighbours.view_as(rows), rows, 1 + self.eps)
        rows = activation(self.norm(self.first(rows), share), self.frequency)
        return h + activation(self.last_norm(self.second(rows), share), self.frequency).view_as(h)


class Encoder(nn.Module):
    """g of Eq. 1 over marked copies: the marks of Eq. 2 (c+ = 1, c- = 0) through a linear map, then T layers.

    Shapes:
        tuples: [P, G, C, k]; result: [P, G, n, C, d].
    """

    def __init__(
        self,
        num_pairs: int,
        tuple_order: int,
        hidden: int,
        num_layers: int,
        generator: torch.Generator,
        frequency: float = 0.0,
    ) -> None:
        super().__init__()
        self.tuple_order, self.hidden = tuple_order, hidden
        self.mark_embedding = Linear(num_pairs, tuple_order, hidden, generator) if tuple_order else None
        self.constant = None  # without marks every node starts from one learned vector
        if not tuple_order:
            self.constant = nn.Parameter(torch.randn(num_pairs, 1, hidden, generator=generator))
        self.layers = nn.ModuleList(GINLayer(num_pairs, hidden, frequency, generator) for _ in range(num_layers))

    @property
    def num_pairs(self) -> int:
        """P."""
        return len(next(self.parameters()))

    def forward(self, graphs: Pairs, tuples: Tensor) -> Tensor:
        h = self._initial(graphs, tuples)
        share = row_share(graphs, tuples.shape[2])
        for layer in self.layers:
            h = layer(h, graphs, share)
        return h

    def _initial(self, graphs: Pairs, tuples: Tensor) -> Tensor:
        num_pairs, num_graphs, n = graphs.size
        shape = (num_pairs, num_graphs, n, tuples.shape[2], self.hidden)
        if self.constant is not None:
            return self.constant[:, None, None].expand(shape)
        assert self.mark_embedding is not None
        node = torch.arange(n, device=tuples.device)[:, None, None]
        marks = (tuples[:, :, None] == node).to(graphs.adjacency.dtype)  # [P, G, n, C, k]
        return self.mark_embedding(marks.view(num_pairs, -1, tuples.shape[3])).view(shape)


def row_share(graphs: Pairs, copies: int) -> Tensor:
    """The share of each row of [P, G, n, C] in a mean over all of a pair's real rows, [P, 1, G n C]."""
    num_pairs, num_graphs, _ = graphs.size
    share = graphs.node_share / (num_graphs * copies)  # [P, n]
    return share[:, None, :, None].expand(-1, num_graphs, -1, copies).reshape(num_pairs, 1, -1)


def pool_nodes(h: Tensor, graphs: Pairs) -> Tensor:
    """R within each marked copy, the mean over nodes: [P, G, n, C, d] -> [P, G, C, d]."""
    num_pairs, num_graphs, n = graphs.size
    share = graphs.node_share[:, None].expand(-1, num_graphs, -1).reshape(-1, 1, n)
    return (share @ h.reshape(num_pairs * num_graphs, n, -1)).view(num_pairs, num_graphs, *h.shape[3:])


class Predictor(nn.Module):
    """f_p of Eq. 5 and its MLP, P times.

    Shapes:
        tuples: [P, G, S m, k], m of which make one set U each; result: [P, G, S, out].
    """

    def __init__(self, encoder: Encoder, num_outputs: int, generator: torch.Generator) -> None:
        super().__init__()
        num_pairs, hidden = encoder.num_pairs, encoder.hidden
        self.encoder = encoder
        self.scale = Norm(num_pairs, hidden)
        self.first = Linear(num_pairs, hidden, hidden, generator)
        self.norm = Norm(num_pairs, hidden)
        self.second = Linear(num_pairs, hidden, num_outputs, generator)

    def forward(self, graphs: Pairs, tuples: Tensor, num_tuples: int) -> Tensor:
        embeddings = self.embed(graphs, tuples)
        return self.read(embeddings.unflatten(2, (-1, num_tuples)).mean(dim=3))

    def embed(self, graphs: Pairs, tuples: Tensor) -> Tensor:
        """g_p(G(v)) of each tuple, pooled over nodes: [P, G, C, d]."""
        return pool_nodes(self.encoder(graphs, tuples), graphs)

    def read(self, pooled: Tensor) -> Tensor:
        """The answer from the mean over the tuples of a set U: [P, ..., d] -> [P, ..., out]."""
        rows = pooled.reshape(len(pooled), -1, pooled.shape[-1])
        share = rows.new_full((len(rows), 1, rows.shape[1]), 1 / rows.shape[1])
        hidden = self.norm(self.first(self.scale(rows, share)), share).relu()
        return self.second(hidden).view(*pooled.shape[:-1], -1)


class QNetwork(nn.Module):
    """Q of Eq. 9, P times: node, own tuple and all tuples of U enter the MLP's first layer as a sum of three maps.

    Shapes:
        tuples: [P, G, S, m, k]; result: [P, G, n, S, m, k], what it is worth to move a node into a slot.
    """

    def __init__(self, encoder: Encoder, generator: torch.Generator) -> None:
        super().__init__()
        num_pairs, hidden = encoder.num_pairs, encoder.hidden
        if not encoder.tuple_order:
            raise InputError("a plain GNN (k = 0) has nothing to move")
        self.encoder = encoder
        self.node = Linear(num_pairs, hidden, hidden, generator)
        self.own_tuple = Linear(num_pairs, hidden, hidden, generator, bias=False)
        self.all_tuples = Linear(num_pairs, hidden, hidden, generator, bias=False)
        self.head = Linear(num_pairs, hidden, encoder.tuple_order, generator)

    def forward(self, graphs: Pairs, tuples: Tensor) -> Tensor:
        num_pairs, num_graphs, num_sets, num_tuples, order = tuples.shape
        h = self.encoder(graphs, tuples.flatten(2, 3))  # [P, G, n, S m, d]
        own = pool_nodes(h, graphs).unflatten(2, (num_sets, num_tuples))  # [P, G, S, m, d]
        every = own.sum(dim=3, keepdim=True)
        context = _per_row(self.own_tuple, own) + _per_row(self.all_tuples, every)  # [P, G, S, m, d]
        hidden = (_per_row(self.node, h) + context.flatten(2, 3)[:, :, None]).relu()
        return _per_row(self.head, hidden).view(num_pairs, num_graphs, -1, num_sets, num_tuples, order)


class Adam:
    """Adam (Kingma and Ba 2015) for P models at once; its steps are elementwise, so models do not see each other.

    Attributes:
        rate: the learning rate, on the device, where a recorded step reads it.
    """

    BETAS = (0.9, 0.999)
    EPS = 1e-8

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.second = [torch.zeros_like(parameter) for parameter in self.parameters]
        some = self.parameters[0]
        self.rate = torch.zeros((), device=some.device)
        self.steps = torch.zeros((), dtype=torch.float64, device=some.device)  # 1 - 0.999 is not in single precision

    def of_some(self, network: nn.Module, chosen: Tensor) -> Adam:
        """The same optimiser for `some_models(..., chosen)` alone, with its moments."""
        own = Adam(network.parameters())
        own.first, own.second = ([moment[chosen] for moment in every] for every in (self.first, self.second))
        own.rate, own.steps = self.rate, self.steps
        return own

    @torch.no_grad()
    def step(self) -> None:
        """One update, and no gradients after it."""
        self.steps += 1
        keep, keep_square = self.BETAS
        weight = self.rate / (1 - keep**self.steps)
        correction = (1 - keep_square**self.steps).rsqrt()
        for parameter, first, second in zip(self.parameters, self.first, self.second, strict=True):
            if parameter.grad is None:
                continue
            first.lerp_(parameter.grad, 1 - keep)
            second.lerp_(parameter.grad.square(), 1 - keep_square)
            spread = second.sqrt().mul_(correction).add_(self.EPS)
            parameter.sub_(first / spread * weight)
            parameter.grad = None


Network = TypeVar("Network", bound=nn.Module)


def some_models(network: Network, chosen: Tensor) -> Network:
    """A copy of some of the P models of a network; `chosen`: their places, or which they are [P]."""
    own = copy.deepcopy(network)
    for value in chain(own.parameters(), own.buffers()):
        value.data = value.data[chosen]
    return own


def put_models(network: nn.Module, chosen: Tensor, own: nn.Module) -> None:
    """Put models that `some_models` copied back in their places [p]."""
    values, others = (chain(one.parameters(), one.buffers()) for one in (network, own))
    for value, other in zip(values, others, strict=True):
        value.data[chosen] = other.data


def parameters_a_pair(network: nn.Module) -> int:
    """Of one of the P models."""
    return sum(parameter[0].numel() for parameter in network.parameters())


def _per_row(linear: Linear, h: Tensor) -> Tensor:
    """[P, ..., d] -> [P, ..., out]."""
    return linear(h.reshape(len(h), -1, h.shape[-1])).view(*h.shape[:-1], -1)


def _uniform(shape: tuple[int, ...], bound: float, generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator).mul_(2 * bound).sub_(bound)
