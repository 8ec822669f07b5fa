"""`maggnn-paper bench`: costs, with the methods of a table measured in one run on one machine.

| file | question |
|---|---|
| `inference` | the paper's time table: a test set, packed on the device, to predictions |
| `floor` | the bare matrix products and bytes of that work |
| `train` | one step of ORD's predictor, of the Q update and of SIMUL, by batch size |
| `devices` | what distributed training costs in one process, beside plain training |
| `scaling` | time and memory against graphs, nodes, m, k and t, with fitted exponents |
| `chemist` | the accuracy of `maggnn fit` on practice tables, compared with its parts and with baselines |
| `chemprop` | chemprop, trained with its default settings on the rows of `chemist` |
| `motifs` | whether atom contributions find the atoms that a property was planted in |
| `people` | what a new user meets: the first model, and a table of a million molecules |
| `predict` | the stages of `maggnn predict` from SMILES, beside parsing alone |
| `predict-gpu` | the rate of `maggnn predict` with a GPU, and for what share of the time the GPU waits |
| `screen` | `maggnn predict --ray` beside plain `maggnn predict`: rate and memory |
| `workers` | how the rate on Ray grows with workers, and what a shard costs the driver |
| `faults` | screening on Ray while actors, processes, nodes and the disk fail |
| `serve` | `maggnn serve`: molecules a second, and how long single questions wait |
| `mapped` | a step of training on a set that is larger than memory |
"""
