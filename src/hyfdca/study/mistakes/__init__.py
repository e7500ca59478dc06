"""Explains mistakes in a study file, and what to write instead."""
