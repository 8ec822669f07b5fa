"""BREC (Wang and Zhang 2024): 400 pairs of graphs, each asked by itself, with a fresh model, whether it is told apart.

A model a pair is small, so hundreds train side by side as one: `pairs` lays the graphs out, `batched` holds the
networks with a leading dimension of pairs, `agent` moves marks in all of them at once. `rpc` is the official test,
`paper_test` that of the MAG-GNN paper, `reproduce` runs both and writes the ledger's rows.

Shape letters beside the usual: P pairs, G graphs a pair, n nodes (padded), C marked copies of a graph, S sets U.
"""
