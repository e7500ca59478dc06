"""Work of one client between two messages, which several algorithms share."""
