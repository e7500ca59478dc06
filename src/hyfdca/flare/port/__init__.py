"""What may pass the port: connections, registrations and routes of messages."""
