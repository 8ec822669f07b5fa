"""Molecules: SMILES to graphs (`smiles`, `atom_features`), tables of them (`table`) and scaffold splits."""
