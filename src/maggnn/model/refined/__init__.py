"""Marks that are chosen by colour refinement: the finest tuples of a graph."""
