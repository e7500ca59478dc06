"""One file an algorithm: settings, server half, client half."""
