"""The paper's study: its published numbers, choices, times and counts."""
