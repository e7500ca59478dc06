"""Schemes that seal vectors so that a server can add them."""
