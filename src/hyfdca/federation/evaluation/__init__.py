"""Measures any method, and confirms and releases its model."""
