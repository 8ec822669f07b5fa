"""The methods that the paper compares with, one file each; `maggnn.model.named_encoders` knows them by name.

Each is another encoder in place of g_p (`baseline`); most read all marked copies of a graph (`copies`) and are built
of a few common `parts`.
"""
