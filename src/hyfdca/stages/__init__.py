"""What happens before the first round."""
