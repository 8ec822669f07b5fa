"""The reproduction of the MAG-GNN paper: every table, figure and benchmark, and the ledger that holds their numbers.

ledger, published   our rows and the paper's figures
datasets/           the data sets that only the tables use
jobs/               one training and its tests, many of them side by side
tables/             one file per table or figure
brec/, bench/       the BREC benchmark; what things cost
report/             the pages of `docs/results/` and the README's table from the ledger
site/               the documentation site: descriptions of settings, the recorded player, screenshots
"""
