"""The page of one review: what is proposed, what was said about it, and what can be done."""
