"""Message passing on [N, m, d] with shared edges: sums over neighbours, nodes and edges."""
