"""`maggnn tune`: an Optuna study over m, k, t and the network's size."""
