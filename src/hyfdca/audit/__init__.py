"""What parties of a recorded run saw, and what they could make of it."""
