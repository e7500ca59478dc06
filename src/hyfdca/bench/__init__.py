"""What things cost on this machine, measured by a command of its own."""
