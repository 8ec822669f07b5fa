"""One training and its tests (`job`), many of them side by side (`side_by_side`), and their ledger rows (`summary`)."""
