"""What carries messages and keeps state: drivers, stores, processes."""
