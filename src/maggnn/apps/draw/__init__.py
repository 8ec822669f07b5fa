"""Drawings of graphs and searches, as PNG or SVG files, without a display.

Importing needs only torch and numpy; matplotlib and networkx are imported when a picture is drawn.
"""
