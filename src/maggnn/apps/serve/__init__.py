"""`maggnn serve`: predictions of a fitted model over HTTP."""
