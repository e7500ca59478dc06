"""Moving messages between a server half and client halves."""
