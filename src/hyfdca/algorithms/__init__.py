"""Training methods: one registry, one file or folder per method."""
