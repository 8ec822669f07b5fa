"""Generated graphs: families that test expressivity, regular graphs, and node or edge targets as rooted graphs."""
