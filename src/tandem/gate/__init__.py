"""What may be committed: the gate's switch, its decisions, and the commits that hooks tell of."""
