"""The command line and its displays."""
