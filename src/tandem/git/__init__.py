"""The only caller of git: validation, digests, interdiffs and work trees."""
