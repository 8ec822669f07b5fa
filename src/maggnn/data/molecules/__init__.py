"""Molecules: SMILES to graphs (`smiles`, with the features of `atom_features`), tables of them and scaffold splits."""
