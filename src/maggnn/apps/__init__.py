"""What people touch: the command line, the report, prediction and pictures.

Only this package may use the terminal and drawing libraries; everything under it works without them.
"""
