"""What marks can distinguish: colour refinement of marked copies, the planner, and proofs."""
