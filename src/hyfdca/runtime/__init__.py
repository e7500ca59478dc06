"""Carries messages and keeps state: drivers, stores, processes."""
