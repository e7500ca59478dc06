"""What clients seal, for whom, and how what is opened is checked."""
