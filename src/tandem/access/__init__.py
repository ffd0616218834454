"""Identity and rights of callers, and the tokens that prove them."""
