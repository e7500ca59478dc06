"""Training rounds: the runner, when it stops, and all parties in one process."""
