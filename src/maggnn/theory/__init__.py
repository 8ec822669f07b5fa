"""What marks can distinguish: exact colour refinement of marked copies, the planner, and canonical forms."""
