"""Who calls, what they may do, and the tokens that prove it."""
