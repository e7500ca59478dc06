"""Several algorithms on one study, side by side."""
