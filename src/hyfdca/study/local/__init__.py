"""A study in one process."""
