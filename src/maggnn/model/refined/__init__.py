"""Marks that colour refinement judges: the finest tuples of a graph, and searches whose result is invariant."""
