"""The card of a fitted model: the results of its test as text (`model_card`), metrics, intervals and pictures."""
