"""`LitMagGNN`: a MAG-GNN as a LightningModule, whose training step trains predictor and agent (SIMUL).

model = MagGNN.for_data(dataset, agent=AgentConfig(num_tuples=2, tuple_order=1, num_moves=2))
Trainer(max_epochs=50).fit(LitMagGNN(model), train_loader, val_loader)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from lightning import LightningModule
from torch import Tensor

from maggnn.errors import InputError
from maggnn.model.mag_gnn import MagGNN
from maggnn.training.losses import EPSILON, training_loss

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class LitMagGNN(LightningModule):
    """Trains on batches of a PyG loader and logs `train/predictor`, `train/agent` and, for validation, `val/score`.

    The score is the accuracy of a classifier and the mean absolute error of a regression, over the known targets.
    At node level, `train_mask`, `val_mask` and `test_mask` of PyG say which nodes each part reads, by default all.

    Args:
        model: the model to train; it stays usable by itself, as `module.model`.
        learning_rate: the learning rate of AdamW.
        epsilon_end: probability of a random move at the end; it falls linearly from 1 over the first half of training.
        outcomes: the number of random moves of each state whose reward is computed; by default all moves.
    """

    def __init__(
        self,
        model: MagGNN,
        learning_rate: float = 1e-3,
        epsilon_end: float = EPSILON,
        outcomes: int | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.learning_rate, self.epsilon_end, self.outcomes = learning_rate, epsilon_end, outcomes

    def forward(self, batch: Batch) -> Tensor:
        return self.model(batch)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss of predictor and agent on a batch."""
        options = {"mask": self._mask(batch, "train"), "epsilon": self._epsilon(), "outcomes": self.outcomes}
        loss, terms = training_loss(self.model, batch, **options)
        self.log_dict({f"train/{name}": value for name, value in terms.items()}, batch_size=_size(batch))
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Log how good the answers after t moves are."""
        self._log_score("val", batch)

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Log how good the answers after t moves are."""
        self._log_score("test", batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return AdamW over the predictor and the agent."""
        return torch.optim.AdamW(self.parameters(), lr=self.learning_rate)

    def _epsilon(self) -> float:
        """Return epsilon, which falls from 1 to `epsilon_end` in the first half of a known number of steps."""
        total = self.trainer.estimated_stepping_batches
        progress = min(1.0, 2 * self.global_step / total) if 0 < total < float("inf") else 1.0
        return 1.0 + (self.epsilon_end - 1.0) * progress

    def _mask(self, batch: Any, part: str) -> Tensor | None:
        """Return which nodes belong to `train`, `val` or `test`, [N]; None if all of them do."""
        mask = getattr(batch, f"{part}_mask", None) if self.model.predictor.level == "node" else None
        if mask is not None and mask.ndim != 1:
            raise InputError(f"{part}_mask has shape {tuple(mask.shape)}: choose one split, as in mask[:, 0]")
        return mask

    def _log_score(self, part: str, batch: Any) -> None:
        """Log the mean score of a batch with the weight that it has in the mean over all batches."""
        scores = self._scores(batch, self._mask(batch, part))
        if len(scores):
            self.log(f"{part}/score", scores.mean(), batch_size=len(scores))

    def _scores(self, batch: Any, mask: Tensor | None) -> Tensor:
        """Return the score of each known target in the mask, [targets]."""
        answers = self.model(batch)
        y = batch.y.reshape(-1) if self.model.task == "classification" else batch.y.reshape(answers.shape)
        if mask is not None:
            answers, y = answers[mask], y[mask]
        if self.model.task == "classification":
            return (answers.argmax(dim=-1) == y).float()
        known = ~y.isnan()
        if self.model.task == "multilabel":
            return ((answers > 0) == (y > 0.5))[known].float()
        return (answers - y).abs()[known]


def _size(batch: Any) -> int:
    return int(getattr(batch, "num_graphs", 1))
