"""The paper's study: its published numbers, and how it chose, timed and counted."""
