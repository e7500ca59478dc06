"""Who holds which rows and columns."""
