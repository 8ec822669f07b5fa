"""`maggnn explain`: what a search did on one graph, as a page and a picture, beside random moves."""
