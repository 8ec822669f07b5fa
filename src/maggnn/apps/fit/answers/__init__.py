"""The answers of a fitted model, blended from its parts for each target."""
