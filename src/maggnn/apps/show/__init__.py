"""`maggnn show`: a local page with training curves of runs, and graphs whose marks can be moved by hand.

runs      finds folders with runs, and their progress
log       reads the new lines of `metrics.jsonl`
gallery   a model and graphs whose marks can be moved; `molecule_rows` reads users' molecules
shelf     the few galleries in memory
moves     the metric after 0, 1, ..., t moves, compared with random moves
guard     rejects requests from other pages and machines, and large ones
server    the JSON endpoints, and the page itself (`page/`: plain HTML, CSS and JavaScript without external resources)
"""
