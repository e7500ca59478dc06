"""Pages for people: HTML that is one file, works offline and prints."""
