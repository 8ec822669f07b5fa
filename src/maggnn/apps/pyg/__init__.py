"""For users of PyG: a transform that adds an agent's marks, and a LightningModule."""
