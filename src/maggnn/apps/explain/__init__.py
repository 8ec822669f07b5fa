"""`maggnn explain`: explains predictions for molecules, and shows a search on one graph next to random moves."""
