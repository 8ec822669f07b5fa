"""A PyG batch in, a prediction out. Here untrained; `examples/new_dataset.py` trains."""

import torch
from torch_geometric.data import Batch, Data

from maggnn import AgentConfig, MagGNN

triangle = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]]), num_nodes=3)
path = Data(edge_index=torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]), num_nodes=4)
batch = Batch.from_data_list([triangle, path])
model = MagGNN(num_outputs=2, agent=AgentConfig(num_tuples=2, tuple_order=2, num_moves=3)).eval()
scores = model(batch, generator=torch.Generator().manual_seed(0))
print(f"{tuple(scores.shape)} scores, classes {scores.argmax(dim=-1).tolist()}")
