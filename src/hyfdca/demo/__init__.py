"""Demonstrations: three hospitals on one machine."""
