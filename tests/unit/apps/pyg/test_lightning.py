"""The LightningModule trains both networks and validates."""

import logging

import networkx as nx
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.utils import from_networkx

from maggnn import AgentConfig, EncoderConfig, InputError, LitMagGNN, MagGNN

PLAIN = AgentConfig(num_tuples=1, tuple_order=0, num_moves=0)
lightning = pytest.importorskip("lightning")


@pytest.mark.filterwarnings("ignore")
def test_a_trainer_trains_both_networks(tmp_path):
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    graphs = []
    for label, graph in enumerate([nx.cycle_graph(6), nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))]):
        graphs.append(from_networkx(graph))
        graphs[-1].y = label
    torch.manual_seed(0)
    agent = AgentConfig(num_tuples=1, tuple_order=1, num_moves=1)
    model = MagGNN.for_data(graphs, encoder=EncoderConfig(num_layers=3, hidden=16), agent=agent)
    before = {name: value.clone() for name, value in model.named_parameters()}
    loader = DataLoader(graphs * 32, batch_size=16, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=40, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    module = LitMagGNN(model, learning_rate=5e-3)
    trainer.fit(module, loader, DataLoader(graphs * 4, batch_size=8))
    assert trainer.callback_metrics["val/score"] > 0.95
    assert {"train/predictor", "train/agent"} <= set(trainer.callback_metrics)
    changed = {name.split(".")[0] for name, value in model.named_parameters() if not torch.equal(value, before[name])}
    assert changed == {"predictor", "q_network"}


@pytest.mark.parametrize(("task", "scores"), [("regression", [0.0, 2.0, 1.0]), ("multilabel", [1.0, 0.0, 1.0])])
def test_missing_targets_have_no_score(task, scores):
    model = MagGNN(2, encoder=EncoderConfig(num_layers=1, hidden=4), agent=PLAIN, task=task)
    module = LitMagGNN(model.eval())
    module.model.forward = lambda batch: torch.tensor([[1.0, -1.0], [0.0, 1.0]])
    batch = Data(y=torch.tensor([[1.0, 1.0], [float("nan"), 1.0]]))
    if task == "regression":
        batch.y[1, 1] = 2.0
    assert module._scores(batch, None).tolist() == scores


@pytest.mark.filterwarnings("ignore")
def test_masks_of_nodes_are_kept_apart(tmp_path):
    """The targets of validation and test nodes are never read in training: here they are no classes at all."""
    graphs = [from_networkx(nx.cycle_graph(9)) for _ in range(4)]
    for graph in graphs:
        part = torch.arange(9) % 3
        graph.train_mask, graph.val_mask, graph.test_mask = part == 0, part == 1, part == 2
        graph.y = torch.where(part == 0, 0, torch.where(part == 1, -1, 1))
    agent = AgentConfig(num_tuples=1, tuple_order=1, num_moves=1)
    model = MagGNN.for_data(graphs, 2, level="node", encoder=EncoderConfig(num_layers=1, hidden=8), agent=agent)
    options = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=20, enable_model_summary=False, default_root_dir=tmp_path, **options)
    module, loader = LitMagGNN(model, learning_rate=0.05), DataLoader(graphs, batch_size=4)
    trainer.fit(module, loader, loader)
    assert trainer.callback_metrics["val/score"] == 0.0
    assert trainer.test(module, loader, verbose=False)[0]["test/score"] == 0.0  # only class 0 was seen
    graphs[0].train_mask = torch.ones(9, 2).bool()
    with pytest.raises(InputError, match=r"train_mask has shape \(9, 2\): choose one split"):
        module.training_step(graphs[0], 0)
