"""The applications: the command line, models for users' own data, explanations, pictures and the local page.

Only this package uses the terminal and drawing libraries; everything below it works without them.
"""
