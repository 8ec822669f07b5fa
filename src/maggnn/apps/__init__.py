"""What people touch: the command line, models for their own data, explanations, pictures and the local page.

Only this package may use the terminal and drawing libraries; everything under it works without them.
"""
