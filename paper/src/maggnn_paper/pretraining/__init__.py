"""Initial weights for networks of molecules: trained once, on computed properties, without labels of any experiment.

`properties` makes the data set, `weights` trains the network and saves the weights that come with the package
(`training.initial_weights = "molecules"`), and the table `fine_tuning` compares them with random weights.
"""
