"""The basis of every method: sealed sums over holders, on both sides."""
