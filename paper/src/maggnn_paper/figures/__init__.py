"""The paper's figures: numbers first (`curves`, `scores`, `scaling`), then plots, and the command that draws them."""
