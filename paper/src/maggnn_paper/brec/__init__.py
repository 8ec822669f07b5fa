"""BREC (Wang and Zhang 2024): 400 pairs of graphs; for each a new model is tested on whether it distinguishes them.

The model of a pair is small, so hundreds are trained together as one: `pairs` lays the graphs out, `batched` holds the
networks with a leading dimension of pairs, `agent` moves marks in all of them at once. `rpc` is the official test,
`paper_test` that of the MAG-GNN paper, `reproduce` runs both and writes the ledger's rows.

Further shape letters: P pairs, G graphs of a pair, n nodes (padded), C marked copies of a graph, S sets U.
"""
