"""The model on rows that were set aside: scores at their label holders, sealed sums."""
