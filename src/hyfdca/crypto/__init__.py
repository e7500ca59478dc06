"""Encryption schemes and keys."""
