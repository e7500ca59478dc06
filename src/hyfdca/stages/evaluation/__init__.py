"""Tests the model on rows set aside: scores at their label holders, sealed sums."""
