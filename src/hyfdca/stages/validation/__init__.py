"""Curves: the loss of rows set aside after some rounds, by sealed sums."""
