"""The data sets that only the tables of the paper use; `registry` lists them, and `maggnn` finds them there."""
