"""Pictures: numbers first (`scores`, `curves`, `walk`), then drawings of them, as PNG or SVG files without a display.

Importing needs torch and numpy alone; matplotlib and networkx are imported where a picture is drawn.
"""
