"""What waits for a person, what waits for others, and what is wrong."""
