"""A first study file from a look at the tables."""
