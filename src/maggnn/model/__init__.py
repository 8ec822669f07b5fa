"""MAG-GNN itself, in the order of the picture in `mag_gnn`.

tuples, marking, state, history   U, X(v), s = (G, U, W) and f_W
features, edge_embedding          the input features of nodes and edges
encoder, normalise, kernels/      g of Eq. 1 and its parts
predictor, targets                f_p of Eq. 5, and the units of regression targets
q_network, agent                  Q of Eq. 9, moves of Eq. 10 and the search
mag_gnn                           all of it together
named_encoders                    the baselines that a config may name in place of g_p
saving, pretrained, agents/       model files, and the agents that come with the package
runtime                           device, randomness and precision
"""
