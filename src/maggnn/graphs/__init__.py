"""Graphs as tensors: a batch, a packed data set, what the edges alone determine, and conversions from and to others.

batch        `GraphBatch`: B graphs as flat tensors
packed       `PackedGraphs`: a whole data set as flat tensors; a batch is a vectorised gather (`gather` on a GPU)
checks       what graphs must satisfy before they are packed
structure    centrality, distances and random walks of nodes, from the edges alone
rings        the smallest ring of each edge
distances    how far nodes are from given ones, breadth first or looked up
conversions  PyG, NetworkX and graph6, both ways
"""
