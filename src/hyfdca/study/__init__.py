"""A study: its file, its two sides, its outcome."""
