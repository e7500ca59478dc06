"""Fuzzing of both halves of every conversation, and of every kind of file."""
