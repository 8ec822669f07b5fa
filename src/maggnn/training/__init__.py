"""Learning: replay, Q-learning, the paradigms of the paper, evaluation and checkpoints."""
