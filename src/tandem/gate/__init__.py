"""The gate: its switch, its decisions, and the commits that hooks report."""
