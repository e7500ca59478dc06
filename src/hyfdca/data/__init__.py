"""One organisation's table: its readers, its labels, the paper's data sets."""
