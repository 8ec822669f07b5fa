"""Users' tables: cross-validation, numeric columns, fits from an earlier model, and predictions for graphs."""
