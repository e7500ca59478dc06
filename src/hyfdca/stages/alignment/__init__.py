"""Matching rows by pseudonym and columns by name."""
