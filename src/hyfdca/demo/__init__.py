"""The demonstrations: three hospitals on one machine."""
