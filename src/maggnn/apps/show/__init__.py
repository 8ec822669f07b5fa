"""`maggnn show`: a local page with the curves of a run while it trains, and graphs whose marks one can move by hand.

runs      which folders hold a run, and how far it is
log       the lines of `metrics.jsonl` that are new since the last look
gallery   a model and graphs to play with; `molecule_rows` reads molecules of one's own
shelf     the few galleries that are kept in memory
moves     the metric after 0, 1, ..., t moves, beside random moves
guard     who may ask: this machine's own browser, with small questions
server    the answers as JSON, and the page itself (`page/`: plain HTML, CSS and JavaScript, nothing from outside)
"""
