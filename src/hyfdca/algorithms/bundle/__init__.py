"""The dual bundle method, and L-BFGS on the same exchanges."""
