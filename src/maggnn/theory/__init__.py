"""What marks can distinguish: exact colour refinement of marked copies, the planner, proofs about large graphs, and canonical forms."""
