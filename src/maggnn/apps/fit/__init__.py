"""A model for data of one's own: `maggnn fit`, `predict` and `evaluate`, the estimators and the model card."""
