"""The problem itself: losses, objective, compiled loops. No clients."""
