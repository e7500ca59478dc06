"""Turning a vector of reals into something that can be added unread, and back."""
