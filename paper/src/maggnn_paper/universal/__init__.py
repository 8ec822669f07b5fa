"""One agent for every graph: trained once, without labels, to move marks to where colour refinement becomes finest."""
