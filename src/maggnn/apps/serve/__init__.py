"""`maggnn serve`: answers of a fitted model over HTTP."""
