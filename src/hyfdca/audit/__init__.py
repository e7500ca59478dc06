"""What the parties of a recorded run saw, and what they could infer from it."""
