"""What marks can distinguish: exact colour refinement of marked copies, the planner, equivariance and Theorem 3."""
