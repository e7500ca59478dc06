"""One organisation's table: reading it, its labels."""
