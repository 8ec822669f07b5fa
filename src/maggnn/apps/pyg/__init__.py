"""For people who work with PyG: a transform that adds an agent's marks, and a LightningModule."""
