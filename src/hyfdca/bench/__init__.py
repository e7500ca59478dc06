"""What operations cost on this machine, measured by ``hyfdca bench``."""
