"""Scaling and missing values, from sums over holders."""
