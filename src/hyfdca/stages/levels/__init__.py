"""Agreeing on the levels of categories, without showing the server their names."""
