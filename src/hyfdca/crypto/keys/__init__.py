"""Keys: who an organisation is, what it shares, how IDs are hidden."""
