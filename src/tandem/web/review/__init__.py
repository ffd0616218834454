"""The page of one review: the proposal, the discussion, and the actions."""
