"""What every method stands on: sealed sums over holders, on both sides."""
