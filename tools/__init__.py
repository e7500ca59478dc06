"""Scripts for those who maintain hyfdca."""
