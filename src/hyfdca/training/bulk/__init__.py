"""Simulation of many clients at once: a round is a few compiled passes over data."""
