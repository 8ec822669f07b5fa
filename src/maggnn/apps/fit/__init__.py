"""Models for a user's own data: `maggnn fit`, `predict` and `evaluate`, the estimators and the model card."""
