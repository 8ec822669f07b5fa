"""One file per table or figure of the paper; every measured number goes into the ledger.

`ledger` is the only way a figure reaches a reader, `published` holds the paper's own figures, and each
other module measures one table: it trains, tests and appends rows, with the honest controls beside the agent.
"""
