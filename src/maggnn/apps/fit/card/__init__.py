"""The card of a fitted model: what its test says, as text (`model_card`), metrics, intervals and pictures."""
