"""Predictions of split rows between machines."""
