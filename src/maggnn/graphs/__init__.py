"""Graphs as tensors: batches, packed data sets, structural features, and conversions from and to other formats.

batch        `GraphBatch`: B graphs as flat tensors
packed       `PackedGraphs`: a whole data set as flat tensors; a batch is a vectorised gather (`gather` on a GPU)
checks       the requirements on graphs before they are packed
structure    centrality, distances and random walks of nodes, computed from the edges
rings        the smallest ring of each edge
distances    distances from given nodes, by breadth-first search or from a table
conversions  conversions from and to PyG, NetworkX and graph6
"""
