"""Graphs made by code: families that test expressivity, regular graphs, and node or edge targets as rooted graphs."""
